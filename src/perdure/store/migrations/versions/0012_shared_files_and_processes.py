"""The bytes of attachments, in chunks, and what gateways ask each other about processes: for any gateway."""

from alembic import op

revision = "0012"
down_revision = "0011"

CONTENTS = """
CREATE TABLE file_contents (
  id         TEXT PRIMARY KEY,
  attachment TEXT NOT NULL,
  state      TEXT NOT NULL CHECK (state IN ('writing', 'stored', 'erased')),
  run        TEXT NOT NULL,
  size       BIGINT NOT NULL,
  digest     TEXT,
  written_at BIGINT NOT NULL,
  CHECK (state <> 'stored' OR digest IS NOT NULL)
)
"""
CHUNKS = """
CREATE TABLE file_chunks (
  content TEXT NOT NULL REFERENCES file_contents (id),
  number  BIGINT NOT NULL,
  bytes   BYTEA NOT NULL,
  PRIMARY KEY (content, number)
)
"""


def upgrade() -> None:
    op.execute(CONTENTS)
    op.execute("CREATE UNIQUE INDEX file_contents_stored ON file_contents (attachment) WHERE state = 'stored'")
    op.execute("CREATE INDEX file_contents_of_attachment ON file_contents (attachment)")
    op.execute("CREATE INDEX file_contents_not_stored ON file_contents (state, id) WHERE state <> 'stored'")
    op.execute(CHUNKS)
    for column in ("stop_asked_at BIGINT", "output_asked_at BIGINT", "output_tail TEXT", "output_size BIGINT"):
        op.execute(f"ALTER TABLE processes ADD COLUMN {column}")
    op.execute(
        "CREATE INDEX processes_asked ON processes (id) "
        "WHERE state = 'live' AND (stop_asked_at IS NOT NULL OR output_asked_at IS NOT NULL)"
    )

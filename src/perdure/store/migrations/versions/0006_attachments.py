"""Files in and out: tries to fetch one, uploads that no message has named yet, and what a turn sends."""

from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """What was only referenced stays so: its messages were answered long ago."""
    op.execute("ALTER TABLE outbox ADD COLUMN file TEXT")
    if op.get_bind().dialect.name == "sqlite":
        _make_anew()
    else:
        _alter()
    op.execute("CREATE INDEX attachments_of_turn ON attachments (turn) WHERE turn IS NOT NULL")
    op.execute("CREATE INDEX attachments_here ON attachments (reference) WHERE state = 'fetched'")
    op.execute("CREATE INDEX attachments_unused ON attachments (created_at) WHERE inbox IS NULL AND turn IS NULL")


def _alter() -> None:
    op.execute("ALTER TABLE attachments ALTER COLUMN inbox DROP NOT NULL")
    op.execute("ALTER TABLE attachments ADD COLUMN turn TEXT REFERENCES turns (id)")
    for column in NUMBERS:
        op.execute(f"ALTER TABLE attachments ADD COLUMN {column} BIGINT NOT NULL DEFAULT 0")
    op.execute("ALTER TABLE attachments ADD CHECK (inbox IS NOT NULL OR state = 'fetched')")


def _make_anew() -> None:
    """SQLite cannot let go of a NOT NULL."""
    op.execute(ATTACHMENTS)
    op.execute(f"INSERT INTO attachments_new ({COLUMNS}) SELECT {COLUMNS} FROM attachments")
    op.execute("DROP TABLE attachments")
    op.execute("ALTER TABLE attachments_new RENAME TO attachments")


NUMBERS = ("attempts", "due_at", "created_at")
COLUMNS = "id, inbox, ordinal, name, reference, media_type, size, state, path, problem"
ATTACHMENTS = """
CREATE TABLE attachments_new (
  id         TEXT PRIMARY KEY,
  inbox      TEXT REFERENCES inbox (id),
  ordinal    BIGINT NOT NULL,
  name       TEXT NOT NULL,
  reference  TEXT NOT NULL,
  media_type TEXT NOT NULL,
  size       BIGINT,
  state      TEXT NOT NULL CHECK (state IN ('referenced', 'fetched', 'failed')),
  path       TEXT,
  problem    TEXT,
  turn       TEXT REFERENCES turns (id),
  attempts   BIGINT NOT NULL DEFAULT 0,
  due_at     BIGINT NOT NULL DEFAULT 0,
  created_at BIGINT NOT NULL DEFAULT 0,
  UNIQUE (inbox, ordinal),
  CHECK ((state = 'fetched') = (path IS NOT NULL)),
  CHECK ((state = 'failed') = (problem IS NOT NULL)),
  CHECK (inbox IS NOT NULL OR state = 'fetched')
)
"""

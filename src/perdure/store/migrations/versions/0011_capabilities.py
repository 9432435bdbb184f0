"""What a run can serve, and where a chat waits whose run has ended."""

from alembic import op

revision = "0011"
down_revision = "0010"

COLUMNS = {
    "runs": ("entry_version BIGINT", "draining BIGINT NOT NULL DEFAULT 0", "back_by BIGINT"),
    "sessions": ("entry_version BIGINT",),
    "leases": ("retry_at BIGINT", "problem TEXT", "instance TEXT"),
}
SERVICES = """CREATE TABLE run_services (
  run      TEXT NOT NULL REFERENCES runs (id),
  platform TEXT NOT NULL,
  agent    TEXT NOT NULL,
  account  TEXT NOT NULL,
  PRIMARY KEY (run, platform, agent)
)"""


def upgrade() -> None:
    for table, columns in COLUMNS.items():
        for column in columns:
            op.execute(f"ALTER TABLE {table} ADD COLUMN {column}")
    op.execute("CREATE INDEX sessions_newer ON sessions (key) WHERE entry_version IS NOT NULL")
    op.execute("CREATE INDEX runs_back ON runs (instance) WHERE back_by IS NOT NULL")
    op.execute(SERVICES)

"""Which run receives the events of an account, and which run was asked to drain."""

from alembic import op

revision = "0014"
down_revision = "0013"

RECEIVING_LEASES = """CREATE TABLE receiving_leases (
  platform TEXT NOT NULL,
  account  TEXT NOT NULL,
  run      TEXT REFERENCES runs (id) ON DELETE SET NULL,
  epoch    BIGINT NOT NULL,
  PRIMARY KEY (platform, account)
)"""


def upgrade() -> None:
    op.execute(RECEIVING_LEASES)
    op.execute("ALTER TABLE runs ADD COLUMN drain_asked_at BIGINT")

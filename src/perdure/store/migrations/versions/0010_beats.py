"""A run counts its heartbeats, says how long it may be silent, and whose lock it holds."""

from alembic import op

revision = "0010"
down_revision = "0009"

COLUMNS = (
    "beats BIGINT NOT NULL DEFAULT 0",
    "lease_ms BIGINT NOT NULL DEFAULT 30000",
    "former TEXT",
    "lock_id TEXT",
    "home TEXT",
)


def upgrade() -> None:
    for column in COLUMNS:
        op.execute(f"ALTER TABLE runs ADD COLUMN {column}")

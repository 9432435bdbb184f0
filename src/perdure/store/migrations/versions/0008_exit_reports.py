"""How the process of a run died, in the words of its supervisor."""

from alembic import op

revision = "0008"
down_revision = "0007"

COLUMNS = ("launch TEXT", "died_at BIGINT", "exit_code BIGINT")


def upgrade() -> None:
    for column in COLUMNS:
        op.execute(f"ALTER TABLE runs ADD COLUMN {column}")
    op.execute("CREATE INDEX runs_launched ON runs (launch) WHERE launch IS NOT NULL")

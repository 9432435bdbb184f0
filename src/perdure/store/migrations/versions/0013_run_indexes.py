"""What a run holds is found by an index, so that dead runs can be forgotten."""

from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.execute("CREATE INDEX leases_of_run ON leases (run) WHERE run IS NOT NULL")
    op.execute("CREATE INDEX outbox_of_run ON outbox (run) WHERE run IS NOT NULL")

"""What is left of what was erased, and indexes by which a session goes without a walk through whole tables."""

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Nothing was erased so far."""
    op.execute(
        "CREATE TABLE erased ("
        "name TEXT PRIMARY KEY, "
        "kind TEXT NOT NULL CHECK (kind IN ('session', 'turn', 'event', 'file')), "
        "at BIGINT NOT NULL)"
    )
    op.execute("CREATE INDEX erased_of_kind ON erased (kind, at)")
    op.execute("CREATE INDEX journal_of_turn ON journal (turn)")
    op.execute("CREATE INDEX inbox_of_session ON inbox (session)")
    op.execute("CREATE INDEX processes_of_session ON processes (session)")
    op.execute("CREATE INDEX processes_of_turn ON processes (turn)")
    op.execute("CREATE INDEX inbox_of_turn ON inbox (turn) WHERE turn IS NOT NULL")
    op.execute("CREATE INDEX inbox_bound ON inbox (bound) WHERE bound IS NOT NULL")

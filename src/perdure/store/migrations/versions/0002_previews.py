"""Previews of growing answers, replies that take their place, and summaries of long conversations."""

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Nothing was previewed and nothing summed up so far."""
    op.execute("ALTER TABLE outbox ADD COLUMN edits TEXT")
    op.execute(
        "CREATE TABLE previews ("
        "delivery_key TEXT PRIMARY KEY, "
        "turn TEXT NOT NULL REFERENCES turns (id), "
        "state TEXT NOT NULL CHECK (state IN ('sending', 'shown', 'settled', 'lost')), "
        "receipt TEXT, "
        "created_at BIGINT NOT NULL, "
        "CHECK (state NOT IN ('shown', 'settled') OR receipt IS NOT NULL))"
    )
    op.execute("CREATE INDEX previews_of_turn ON previews (turn)")
    op.execute("CREATE INDEX journal_summaries ON journal (session, seq) WHERE kind = 'compacted'")

"""What the console and the list of chats show is found without reading all there is."""

from alembic import op

revision = "0007"
down_revision = "0006"

INDEXES = (
    "journal_decided ON journal (at, session, seq) WHERE kind = 'interrupted'",
    "sessions_recent ON sessions (updated_at, id) WHERE state <> 'closed'",
    "sessions_suspended ON sessions (id) WHERE state = 'suspended'",
)


def upgrade() -> None:
    for index in INDEXES:
        op.execute(f"CREATE INDEX IF NOT EXISTS {index}")

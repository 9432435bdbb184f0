"""People by chat, and codes for those whom nobody knows."""

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Whoever is known so far is so on the whole platform."""
    _let_people_have_chats()
    op.execute(PAIRINGS)
    op.execute("CREATE TABLE pair_tries (id TEXT PRIMARY KEY, at BIGINT NOT NULL)")
    op.execute("CREATE INDEX inbox_rejected ON inbox (id) WHERE state = 'rejected' AND key IS NULL")


def _let_people_have_chats() -> None:
    """SQLite cannot change a primary key, so there the table is made anew."""
    if op.get_bind().dialect.name != "sqlite":
        op.execute("ALTER TABLE people ADD COLUMN chat TEXT NOT NULL DEFAULT ''")
        op.execute("ALTER TABLE people DROP CONSTRAINT people_pkey")
        op.execute("ALTER TABLE people ADD PRIMARY KEY (platform, person, chat)")
        return
    op.execute(PEOPLE)
    columns = "platform, person, name, role, added_at"
    op.execute(f"INSERT INTO people_new ({columns}) SELECT {columns} FROM people")
    op.execute("DROP TABLE people")
    op.execute("ALTER TABLE people_new RENAME TO people")


PEOPLE = """
CREATE TABLE people_new (
  platform TEXT NOT NULL,
  person   TEXT NOT NULL,
  name     TEXT NOT NULL,
  role     TEXT NOT NULL CHECK (role IN ('owner', 'member', 'guest')),
  added_at BIGINT NOT NULL,
  chat     TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (platform, person, chat)
)
"""
PAIRINGS = """
CREATE TABLE pairings (
  id         TEXT PRIMARY KEY,
  platform   TEXT NOT NULL,
  person     TEXT NOT NULL,
  name       TEXT NOT NULL,
  key        TEXT NOT NULL,
  digest     TEXT NOT NULL,
  asked_at   BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  UNIQUE (platform, person)
)
"""

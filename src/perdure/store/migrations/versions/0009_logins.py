"""Logins of the HTTP API, with scopes: tokens, and the cookies of browsers."""

from alembic import op

revision = "0009"
down_revision = "0008"

LOGINS = """
CREATE TABLE logins (
  id           TEXT PRIMARY KEY,
  kind         TEXT NOT NULL CHECK (kind IN ('token', 'cookie')),
  name         TEXT NOT NULL,
  digest       TEXT NOT NULL UNIQUE,
  person       TEXT NOT NULL,
  person_name  TEXT NOT NULL,
  scopes       TEXT NOT NULL,
  token        TEXT REFERENCES logins (id),
  created_at   BIGINT NOT NULL,
  expires_at   BIGINT,
  last_used_at BIGINT,
  CHECK (token IS NULL OR kind = 'cookie')
)
"""


def upgrade() -> None:
    op.execute(LOGINS)
    op.execute("CREATE UNIQUE INDEX logins_named ON logins (name) WHERE kind = 'token'")
    op.execute("CREATE INDEX logins_of_token ON logins (token) WHERE token IS NOT NULL")

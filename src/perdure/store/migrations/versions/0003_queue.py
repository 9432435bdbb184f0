"""The queue: what a message does to a busy session, edits of messages, and messages too old to be answered."""

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Whatever waits has no manner, and so a turn of its own, as it was promised."""
    op.execute(f"ALTER TABLE leases ADD COLUMN mode TEXT CHECK (mode IN ({MODES}))")
    op.execute("ALTER TABLE leases ADD COLUMN full_since BIGINT")
    op.execute("ALTER TABLE leases ADD COLUMN untold BIGINT NOT NULL DEFAULT 0")
    op.execute("CREATE INDEX leases_untold ON leases (key) WHERE untold > 0")
    if op.get_bind().dialect.name == "sqlite":
        _make_anew()
    else:
        _alter()
    for name, (columns, condition) in INDEXES.items():
        op.execute(f"CREATE INDEX {name} ON inbox ({columns}) WHERE state = 'waiting'{condition}")


def _alter() -> None:
    for column, check in (("kind", KINDS), ("state", STATES)):
        op.execute(f"ALTER TABLE inbox DROP CONSTRAINT inbox_{column}_check")
        op.execute(f"ALTER TABLE inbox ADD CONSTRAINT inbox_{column}_check CHECK ({check})")
    op.execute(f"ALTER TABLE inbox ADD COLUMN manner TEXT CHECK (manner IN ({MODES}))")
    op.execute("ALTER TABLE inbox ADD COLUMN sent_at BIGINT")
    op.execute("ALTER TABLE inbox ADD CHECK (manner IS NULL OR kind = 'message')")
    op.execute("DROP INDEX inbox_waiting")
    op.execute("DROP INDEX inbox_orders")


def _make_anew() -> None:
    """SQLite cannot change a check."""
    op.execute(INBOX)
    op.execute(f"INSERT INTO inbox_new ({COLUMNS}) SELECT {COLUMNS} FROM inbox")
    op.execute("DROP TABLE inbox")
    op.execute("ALTER TABLE inbox_new RENAME TO inbox")
    op.execute("CREATE INDEX inbox_seen ON inbox (key, position)")


MODES = "'queue', 'steer', 'interrupt', 'collect'"
KINDS = "kind IN ('message', 'command', 'wish', 'report', 'aside', 'change')"
STATES = "state IN ('waiting', 'taken', 'obeyed', 'rejected', 'withdrawn', 'expired', 'deleted')"
COLUMNS = "id, event_key, key, session, kind, state, turn, bound, body, raw, problem, position, received_at"
INDEXES = {
    "inbox_waiting": ("key, state, position", ""),
    "inbox_orders": ("key, state, kind, position", " AND kind = 'command'"),
    "inbox_steering": ("key, state, manner, position", " AND manner = 'steer'"),
    "inbox_pressing": ("key, state, manner, position", " AND manner = 'interrupt'"),
    "inbox_news": ("key, state, kind, position", " AND kind IN ('report', 'aside')"),
}
INBOX = f"""
CREATE TABLE inbox_new (
  id          TEXT PRIMARY KEY,
  event_key   TEXT NOT NULL UNIQUE,
  key         TEXT,
  session     TEXT REFERENCES sessions (id),
  kind        TEXT NOT NULL DEFAULT 'message' CHECK ({KINDS}),
  state       TEXT NOT NULL CHECK ({STATES}),
  turn        TEXT REFERENCES turns (id),
  bound       TEXT REFERENCES turns (id),
  body        TEXT,
  raw         TEXT NOT NULL,
  problem     TEXT,
  position    BIGINT,
  received_at BIGINT NOT NULL,
  manner      TEXT CHECK (manner IN ({MODES})),
  sent_at     BIGINT,
  CHECK (manner IS NULL OR kind = 'message'),
  CHECK ((state = 'taken') = (turn IS NOT NULL)),
  CHECK ((state = 'rejected') = (problem IS NOT NULL)),
  CHECK (state = 'rejected' OR (key IS NOT NULL AND body IS NOT NULL AND position IS NOT NULL))
)
"""

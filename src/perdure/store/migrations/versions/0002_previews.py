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
    op.execute(GOALS)
    op.execute("CREATE UNIQUE INDEX goals_active ON goals (session) WHERE state = 'active'")
    op.execute("CREATE INDEX goals_of_session ON goals (session, id)")
    _let_reports_in()
    _remake_processes()


def _let_reports_in() -> None:
    """The inbox takes reports and asides. SQLite cannot change a check, so there the table is made anew."""
    if op.get_bind().dialect.name != "sqlite":
        op.execute("ALTER TABLE inbox DROP CONSTRAINT inbox_kind_check")
        op.execute(f"ALTER TABLE inbox ADD CONSTRAINT inbox_kind_check CHECK ({KINDS})")
        return
    op.execute(INBOX)
    op.execute(f"INSERT INTO inbox_new ({INBOX_COLUMNS}) SELECT {INBOX_COLUMNS} FROM inbox")
    op.execute("DROP TABLE inbox")
    op.execute("ALTER TABLE inbox_new RENAME TO inbox")
    op.execute("CREATE INDEX inbox_waiting ON inbox (key, position) WHERE state = 'waiting'")
    op.execute("CREATE INDEX inbox_orders ON inbox (key, position) WHERE state = 'waiting' AND kind = 'command'")
    op.execute("CREATE INDEX inbox_seen ON inbox (key, position)")


def _remake_processes() -> None:
    """No version before this one has put anything into the table."""
    op.execute("DROP TABLE processes")
    op.execute(PROCESSES)
    op.execute("CREATE INDEX processes_live ON processes (session) WHERE state = 'live'")
    op.execute("CREATE INDEX processes_of_key ON processes (key, id)")


GOALS = """
CREATE TABLE goals (
  id         TEXT PRIMARY KEY,
  session    TEXT NOT NULL REFERENCES sessions (id),
  text       TEXT NOT NULL,
  person     TEXT NOT NULL,
  message    TEXT NOT NULL,
  since      BIGINT NOT NULL,
  budget     BIGINT NOT NULL,
  turns      BIGINT NOT NULL,
  state      TEXT NOT NULL CHECK (state IN ('active', 'reached', 'given_up', 'spent', 'ended')),
  created_at BIGINT NOT NULL
)
"""
KINDS = "kind IN ('message', 'command', 'wish', 'report', 'aside')"
INBOX_COLUMNS = "id, event_key, key, session, kind, state, turn, bound, body, raw, problem, position, received_at"
INBOX = f"""
CREATE TABLE inbox_new (
  id          TEXT PRIMARY KEY,
  event_key   TEXT NOT NULL UNIQUE,
  key         TEXT,
  session     TEXT REFERENCES sessions (id),
  kind        TEXT NOT NULL DEFAULT 'message' CHECK ({KINDS}),
  state       TEXT NOT NULL CHECK (state IN
                ('waiting', 'taken', 'obeyed', 'rejected', 'withdrawn', 'expired')),
  turn        TEXT REFERENCES turns (id),
  bound       TEXT REFERENCES turns (id),
  body        TEXT,
  raw         TEXT NOT NULL,
  problem     TEXT,
  position    BIGINT,
  received_at BIGINT NOT NULL,
  CHECK ((state = 'taken') = (turn IS NOT NULL)),
  CHECK ((state = 'rejected') = (problem IS NOT NULL)),
  CHECK (state = 'rejected' OR (key IS NOT NULL AND body IS NOT NULL AND position IS NOT NULL))
)
"""
PROCESSES = """
CREATE TABLE processes (
  id         TEXT PRIMARY KEY,
  key        TEXT NOT NULL,
  session    TEXT NOT NULL REFERENCES sessions (id),
  turn       TEXT NOT NULL REFERENCES turns (id),
  call       TEXT NOT NULL,
  generation BIGINT NOT NULL,
  person     TEXT NOT NULL,
  instance   TEXT NOT NULL,
  directory  TEXT NOT NULL UNIQUE,
  command    TEXT NOT NULL,
  notify     BIGINT NOT NULL,
  patterns   TEXT NOT NULL,
  watching   BIGINT NOT NULL,
  scanned    BIGINT NOT NULL,
  notices    BIGINT NOT NULL,
  noticed_at BIGINT,
  unnoticed  BIGINT NOT NULL,
  strikes    BIGINT NOT NULL,
  state      TEXT NOT NULL CHECK (state IN ('live', 'ended', 'lost')),
  exit_code  BIGINT,
  signal     BIGINT,
  started_at BIGINT NOT NULL,
  ended_at   BIGINT,
  told       TEXT CHECK (told IN ('report', 'notice', 'seen', 'nobody')),
  CHECK ((state = 'live') = (ended_at IS NULL)),
  CHECK ((state = 'live') = (told IS NULL)),
  CHECK (state = 'ended' OR (exit_code IS NULL AND signal IS NULL))
)
"""

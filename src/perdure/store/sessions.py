"""Sessions: conversations, each with a stable key and an id until it begins anew; and their recovery state."""

from __future__ import annotations

from msgspec import Struct, json

from perdure.core.address import parent_session_key
from perdure.core.delivery import DeliveryState
from perdure.core.journal import TurnBegan, TurnInterrupted
from perdure.core.states import GoalState, Mark, RecoveryState, SessionState, TurnState, derive_recovery_state
from perdure.store.conditions import GOAL_IS_ACTIVE, SESSION_IS_CURRENT, TURN_IS_OPEN
from perdure.store.database import Database, Row, Tx
from perdure.store.journal import UNDONE_TURNS

_COLUMNS = "id, key, state, auto_reset_reason, created_at, updated_at"
_CURRENT_SESSION = f"SELECT id, state FROM sessions WHERE key = :key AND {SESSION_IS_CURRENT}"
# Two gateways may make the same session at the same moment: the second finds the first one's.
_NEW_LEASE = "INSERT INTO leases (key, epoch, generation, position) VALUES (:key, 0, 0, 0) ON CONFLICT DO NOTHING"
_NEW_SESSION = (
    f"INSERT INTO sessions ({_COLUMNS}) VALUES (:id, :key, '{SessionState.OPEN}', :reset, :now, :now) "
    "ON CONFLICT DO NOTHING"
)


class Session(Struct, frozen=True):
    """A session's row."""

    id: str
    key: str
    state: SessionState
    auto_reset_reason: str | None
    created_at: int
    updated_at: int


class SessionFilter(Struct, frozen=True):
    """Selects sessions by their state, their turn's state or their key; the newest first, or last."""

    state: str = ""
    turn: str = ""
    key: str = ""
    newest: bool = False


class Sessions:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, session: str) -> Session | None:
        return await self._database.read(lambda tx: get(tx, session))

    async def current(self, key: str) -> Session | None:
        """Return the session that the next message to this key belongs to."""
        return await self._database.read(lambda tx: current(tx, key))

    async def page(
        self, after: str = "", limit: int = 100, matching: SessionFilter | None = None
    ) -> list[Session]:
        """Return the sessions that match, in the order of their ids, beginning behind `after`."""
        return await self._database.read(lambda tx: _page(tx, after, limit, matching or SessionFilter()))

    async def of_key(self, key: str) -> list[Session]:
        """Return the sessions that a key has had, the oldest first."""
        sql = f"SELECT {_COLUMNS} FROM sessions WHERE key = :key ORDER BY id"
        return await self._database.read(lambda tx: [_as_session(row) for row in tx.all(sql, key=key)])

    async def keys(self) -> set[str]:
        """Return every key that has a session."""
        return await self._database.read(
            lambda tx: {row[0] for row in tx.all("SELECT DISTINCT key FROM sessions")}
        )

    async def newest_of_key(self, key: str, limit: int = 10) -> list[tuple[Session, str]]:
        """Return the newest sessions of a key, the newest first, each with its first text."""
        sql = f"SELECT {_COLUMNS} FROM sessions WHERE key = :key ORDER BY id DESC LIMIT :limit"
        return await self._database.read(lambda tx: _with_first_texts(tx, tx.all(sql, key=key, limit=limit)))

    async def recent_by_prefix(self, prefix: str, limit: int) -> list[tuple[Session, str]]:
        """Return the current sessions of keys with that prefix, the last used first, each with its first text."""
        sql = (
            f"SELECT {_COLUMNS} FROM sessions WHERE {SESSION_IS_CURRENT} AND substr(key, 1, :length) = :prefix "
            "ORDER BY updated_at DESC, id DESC LIMIT :limit"
        )
        values = {"length": len(prefix), "prefix": prefix, "limit": limit}
        return await self._database.read(lambda tx: _with_first_texts(tx, tx.all(sql, **values)))

    async def find_by_name(self, name: str) -> list[Session]:
        """Return the session of that id, or all sessions that a key has had, background sessions included."""

        def transaction(tx: Tx) -> list[Session]:
            found = get(tx, name)
            if found is not None:
                return [found]
            rows = tx.all(f"SELECT {_COLUMNS} FROM sessions ORDER BY id") if name.startswith("agent:") else []
            return [_as_session(row) for row in rows if name in (row[1], parent_session_key(row[1]))]

        return await self._database.read(transaction)

    async def recovery(self, session: str) -> RecoveryState:
        """Derive the session's recovery state from its journal."""
        return await self._database.read(lambda tx: read_recovery(tx, session))

    async def generation(self, key: str) -> int:
        """Return the number of the key's newest turn."""
        row = await self._database.read(
            lambda tx: tx.one("SELECT generation FROM leases WHERE key = :key", key=key)
        )
        return row[0] if row else 0


def ensure_open(tx: Tx, key: str) -> tuple[str, str | None]:
    """Return the id of the session for a new message, and of the suspended session that it replaces, if any."""
    row = tx.one(_CURRENT_SESSION, key=key)
    if row is None:
        return _create(tx, key, None), None
    if row[1] == SessionState.SUSPENDED:
        return renew(tx, key, reason="suspended"), row[0]
    return row[0], None


def ensure_current(tx: Tx, key: str) -> str:
    """Return the id of the key's current session, which may be suspended."""
    row = tx.one(_CURRENT_SESSION, key=key)
    return row[0] if row is not None else _create(tx, key, None)


def renew(tx: Tx, key: str, *, reason: str | None) -> str:
    """Close the key's session and begin a fresh one; `reason` says why, if no person asked for it."""
    close_current(tx, key)
    return _create(tx, key, reason)


def close_current(tx: Tx, key: str) -> None:
    """Close the key's session; its goal ends with it."""
    tx.run(
        f"UPDATE goals SET state = '{GoalState.ENDED}' WHERE {GOAL_IS_ACTIVE} AND session IN "
        f"(SELECT id FROM sessions WHERE key = :key AND {SESSION_IS_CURRENT})",
        key=key,
    )
    tx.run(
        f"UPDATE sessions SET state = '{SessionState.CLOSED}', updated_at = :now "
        f"WHERE key = :key AND {SESSION_IS_CURRENT}",
        now=tx.time,
        key=key,
    )


def ensure_lease(tx: Tx, key: str) -> None:
    """Make the key's lease if there is none. The lease also counts the positions in the chat."""
    tx.run(_NEW_LEASE, key=key)


def _create(tx: Tx, key: str, reason: str | None) -> str:
    ensure_lease(tx, key)
    tx.run(_NEW_SESSION, id=tx.ids.new("s"), key=key, reset=reason, now=tx.time)
    row = tx.one(_CURRENT_SESSION, key=key)
    assert row is not None, f"no session for {key} right after making it"
    session: str = row[0]
    return session


def next_position(tx: Tx, key: str) -> int:
    """Return the chat's next position, by which its messages are ordered."""
    row = tx.one("UPDATE leases SET position = position + 1 WHERE key = :key RETURNING position", key=key)
    assert row is not None, f"no lease row for {key}"
    position: int = row[0]
    return position


def release_position(tx: Tx, key: str) -> None:
    """Undo `next_position` in the same transaction: the position was not used."""
    tx.run("UPDATE leases SET position = position - 1 WHERE key = :key", key=key)


def suspend(tx: Tx, key: str) -> bool:
    """Suspend the key's open session. False: it has none."""
    sql = (
        f"UPDATE sessions SET state = '{SessionState.SUSPENDED}', updated_at = :now "
        f"WHERE key = :key AND state = '{SessionState.OPEN}'"
    )
    return bool(tx.run(sql, now=tx.time, key=key))


def reopen(tx: Tx, session: str) -> None:
    sql = f"UPDATE sessions SET state = '{SessionState.OPEN}', updated_at = :now WHERE id = :id"
    tx.run(sql, now=tx.time, id=session)


def get(tx: Tx, session: str) -> Session | None:
    return _one(tx, "id = :value", session)


def current(tx: Tx, key: str) -> Session | None:
    """Return the key's session that is not closed."""
    return _one(tx, f"key = :value AND {SESSION_IS_CURRENT}", key)


def _one(tx: Tx, condition: str, value: str) -> Session | None:
    row = tx.one(f"SELECT {_COLUMNS} FROM sessions WHERE {condition}", value=value)
    return _as_session(row) if row else None


def _as_session(row: Row) -> Session:
    return Session(*(*row[:2], SessionState(row[2]), *row[3:]))


def _with_first_texts(tx: Tx, rows: list[Row]) -> list[tuple[Session, str]]:
    return [(session, _first_text(tx, session.id)) for session in map(_as_session, rows)]


def _first_text(tx: Tx, session: str) -> str:
    row = tx.one(
        f"SELECT body FROM journal WHERE session = :session AND kind = 'began' AND turn NOT IN ({UNDONE_TURNS}) "
        "ORDER BY seq LIMIT 1",
        session=session,
    )
    causes = json.decode(row[0], type=TurnBegan).causes if row else ()
    return next((cause.text for cause in causes if cause.text.strip()), "")


def _page(tx: Tx, after: str, limit: int, matching: SessionFilter) -> list[Session]:
    wanted = {
        "id < :after" if matching.newest else "id > :after": bool(after),
        "state = :state": bool(matching.state),
        # The next two repeat "state = :state" in the words of a partial index, which SQLite then uses.
        SESSION_IS_CURRENT: matching.state == SessionState.OPEN,
        f"state = '{SessionState.SUSPENDED}'": matching.state == SessionState.SUSPENDED,
        "key = :key": bool(matching.key),
        f"id IN (SELECT t.session FROM turns t WHERE t.{TURN_IS_OPEN} AND t.state = :turn)": bool(matching.turn),
    }
    conditions = " AND ".join(condition for condition, asked in wanted.items() if asked) or "1 = 1"
    order = "DESC" if matching.newest else "ASC"
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM sessions WHERE {conditions} ORDER BY id {order} LIMIT :limit",
        after=after,
        limit=limit,
        state=matching.state,
        key=matching.key,
        turn=matching.turn,
    )
    return [_as_session(row) for row in rows]


# ── the recovery state ──────────────────────────────────────────────────────────────────────────────────────


def read_recovery(tx: Tx, session: str) -> RecoveryState:
    """Read the marks and, if there are any, the last delivery; nearly every session has no mark."""
    rows = tx.all(
        "SELECT j.seq, j.at, j.body, j.turn, t.state FROM journal j JOIN turns t ON t.id = j.turn "
        f"WHERE j.session = :session AND j.kind = 'interrupted' AND j.turn NOT IN ({UNDONE_TURNS}) ORDER BY j.seq",
        session=session,
    )
    marks = [_mark(tx, session, row) for row in rows]
    return derive_recovery_state(marks, _last_delivered_seq(tx, session)) if marks else RecoveryState()


def _mark(tx: Tx, session: str, row: Row) -> Mark:
    seq, at, body, turn, state = row
    entry = json.decode(body, type=TurnInterrupted)
    return Mark(seq, at if entry.dated else None, entry.reason, _cancel_reason(tx, session, turn, state))


def _cancel_reason(tx: Tx, session: str, turn: str, state: str) -> str | None:
    """Return why the turn was cancelled, if it was."""
    if state != TurnState.CANCELLED:
        return None
    row = tx.one(
        "SELECT body FROM journal WHERE session = :session AND turn = :turn AND kind = 'cancelled'",
        session=session,
        turn=turn,
    )
    return json.decode(row[0])["why"] if row else None


def _last_delivered_seq(tx: Tx, session: str) -> int:
    """Return the seq at which the newest turn with only delivered replies ended; 0 if there is none."""
    row = tx.one(
        "SELECT max(j.seq) FROM turns t JOIN journal j ON j.session = t.session AND j.turn = t.id "
        "AND j.seq >= t.first_seq AND j.kind = 'finished' "
        f"WHERE t.session = :session AND t.state = '{TurnState.DONE}' "
        f"AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.turn = t.id AND o.state <> '{DeliveryState.SENT}')",
        session=session,
    )
    return (row[0] or 0) if row else 0

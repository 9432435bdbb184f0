"""Background sessions: tasks that a person started beside a chat, each in a session of its own.

The key of a background session is the chat's key with a number, and its replies go to that chat. Which background
sessions are unfinished, and the state of each, is read from their turns and messages.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from perdure.core.address import background_number, background_session_key, parent_session_key
from perdure.core.messages import Inbound
from perdure.core.states import TurnState
from perdure.store import attachments, inbox, sessions
from perdure.store.conditions import MESSAGE_WAITS, TURN_IS_OPEN
from perdure.store.database import Database, Transaction, Tx


class BackgroundSession(Struct, frozen=True):
    """A background session that has not ended."""

    number: int
    key: str
    state: TurnState
    turn: str | None  # None: its message still waits for a turn
    text: str


class BackgroundSessions:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def unfinished(self, home: str) -> list[BackgroundSession]:
        """Return the unfinished background sessions of a chat, in the order of their numbers."""
        return await self._database.read(lambda tx: _unfinished(tx, home))

    async def exists(self, key: str) -> bool:
        """Say whether there has ever been a background session of that key."""
        return await self._database.read(lambda tx: _exists(tx, key))


def begin_background_session(
    home: str, inbound: Inbound, event: str, max_unfinished: int
) -> Transaction[int | None]:
    """Store a message as the beginning of a background session of a chat; return the session's number.

    None: the chat has as many unfinished background sessions as it may have.
    """

    def transaction(tx: Tx) -> int | None:
        # Under this lock nobody else takes the same number.
        tx.one(f"SELECT 1 FROM leases WHERE key = :key{tx.for_update}", key=home)
        if len(_unfinished(tx, home)) >= max_unfinished:
            return None
        number = _free_number(tx, home)
        key = background_session_key(home, number)
        session = sessions.ensure_current(tx, key)
        message = inbox.insert(tx, inbound, "", key, session, "message", event=event)
        for ordinal, attachment in enumerate(inbound.attachments if message else ()):
            attachments.record_reference(tx, str(message), ordinal, attachment)
        return number

    return transaction


def _free_number(tx: Tx, home: str) -> int:
    """Return the lowest number after all that the chat has used, found by bisection."""
    taken, free = 0, 1
    while _exists(tx, background_session_key(home, free)):
        taken, free = free, free * 2
    while free - taken > 1:
        middle = (taken + free) // 2
        taken, free = (middle, free) if _exists(tx, background_session_key(home, middle)) else (taken, middle)
    return free


def _exists(tx: Tx, key: str) -> bool:
    return tx.one("SELECT 1 FROM leases WHERE key = :key", key=key) is not None


_OPEN_TURNS = f"SELECT key, state, id FROM turns WHERE {TURN_IS_OPEN}"
_WAITING = f"SELECT DISTINCT key FROM inbox WHERE {MESSAGE_WAITS}"


def _unfinished(tx: Tx, home: str) -> list[BackgroundSession]:
    found: dict[str, tuple[TurnState, str | None]] = {row[0]: (TurnState.QUEUED, None) for row in tx.all(_WAITING)}
    found |= {row[0]: (TurnState(row[1]), row[2]) for row in tx.all(_OPEN_TURNS)}
    unfinished = [
        BackgroundSession(number, key, state, turn, _first_text(tx, key))
        for key, (state, turn) in found.items()
        if (number := background_number(key)) is not None and parent_session_key(key) == home
    ]
    return sorted(unfinished, key=lambda session: session.number)


def _first_text(tx: Tx, key: str) -> str:
    """Return the text of the message that the background session began with."""
    row = tx.one("SELECT body FROM inbox WHERE key = :key ORDER BY position LIMIT 1", key=key)
    return msgspec.json.decode(row[0], type=Inbound).text if row else ""

"""Works: what somebody asked for in the background of a chat, each a session of its own.

The key of a work is that of the chat with a number; its words go to that chat. Which works there are, and what
each is doing, is read from their turns and messages.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from perdure.core.address import background_key, home_of, work_of
from perdure.core.messages import Inbound
from perdure.core.turn import State
from perdure.store import attachments, inbox, sessions
from perdure.store.database import Database, Tx, Work
from perdure.store.ids import Ids


class Going(Struct, frozen=True):
    """A work that has not ended."""

    number: int
    key: str
    state: State
    turn: str | None  # None: its message waits
    text: str


class Works:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def going(self, home: str) -> list[Going]:
        """The works of a chat that have not ended, in the order of their numbers."""
        return await self._database.read(lambda tx: _going(tx, home))

    async def exists(self, key: str) -> bool:
        """Whether there has ever been a work of that key."""
        return await self._database.read(lambda tx: _exists(tx, key))


def begin_work(ids: Ids, home: str, said: Inbound, event: str, now: int, most: int) -> Work[int | None]:
    """Store what is to be done in the background of a chat, as a session of its own; its number.

    None: as many as may go on there at the same time have not ended.
    """

    def work(tx: Tx) -> int | None:
        tx.one(f"SELECT 1 FROM leases WHERE key = :key{tx.hold}", key=home)  # nobody else takes the same number
        if len(_going(tx, home)) >= most:
            return None
        number = _free_number(tx, home)
        key = background_key(home, number)
        session = sessions.known(tx, ids, key, now)
        message = inbox.put(tx, ids, said, "", key, session, now, "message", event=event)
        for ordinal, attachment in enumerate(said.attachments if message else ()):
            attachments.refer(tx, ids, str(message), ordinal, attachment)
        return number

    return work


def _free_number(tx: Tx, home: str) -> int:
    """A number that no work of the chat has: the next one, found in a few looks however many there were."""
    taken, free = 0, 1
    while _exists(tx, background_key(home, free)):
        taken, free = free, free * 2
    while free - taken > 1:
        middle = (taken + free) // 2
        taken, free = (middle, free) if _exists(tx, background_key(home, middle)) else (taken, middle)
    return free


def _exists(tx: Tx, key: str) -> bool:
    return tx.one("SELECT 1 FROM leases WHERE key = :key", key=key) is not None


_BEGUN = "SELECT key, state, id FROM turns WHERE state IN ('queued', 'running', 'waiting', 'interrupted')"
_WAITING = "SELECT DISTINCT key FROM inbox WHERE state = 'waiting'"


def _going(tx: Tx, home: str) -> list[Going]:
    found: dict[str, tuple[State, str | None]] = {row[0]: (State.QUEUED, None) for row in tx.all(_WAITING)}
    found |= {row[0]: (State(row[1]), row[2]) for row in tx.all(_BEGUN)}
    works = [
        Going(number, key, state, turn, _asked(tx, key))
        for key, (state, turn) in found.items()
        if (number := work_of(key)) is not None and home_of(key) == home
    ]
    return sorted(works, key=lambda work: work.number)


def _asked(tx: Tx, key: str) -> str:
    """What the work began with."""
    row = tx.one("SELECT body FROM inbox WHERE key = :key ORDER BY position LIMIT 1", key=key)
    return msgspec.json.decode(row[0], type=Inbound).text if row else ""

"""Queries over a whole database, for checks of a gateway from outside. Each reads one snapshot."""

from __future__ import annotations

from collections import Counter
from typing import Any

from msgspec import Struct

from perdure.core.delivery import DeliveryState
from perdure.core.entries import (
    Entry,
    MessagesJoined,
    ModelAnswered,
    ToolEnded,
    ToolStarted,
    TurnCancelled,
    decode_entry,
)
from perdure.core.states import ProcessState
from perdure.store.conditions import DELIVERY_IS_OPEN, MESSAGE_WAITS, PROCESS_IS_LIVE, TURN_IS_OPEN
from perdure.store.database import Database, Tx
from perdure.store.run_services import WAITING_KEYS

# One query, so that nothing is missed that moves from one table to another.
_UNFINISHED = (
    f"SELECT 1 FROM turns WHERE {TURN_IS_OPEN} "
    f"UNION ALL SELECT 1 FROM outbox WHERE {DELIVERY_IS_OPEN} "
    f"UNION ALL SELECT 1 FROM inbox WHERE {MESSAGE_WAITS} AND kind <> 'aside' "
    f"UNION ALL SELECT 1 FROM processes WHERE {PROCESS_IS_LIVE} LIMIT 1"
)
_ENTRIES = (
    "SELECT turn, kind, version, body FROM journal WHERE turn > :since AND kind IN ({kinds}) ORDER BY session, seq"
)


class AuditedTurn(Struct, frozen=True):
    """A turn and its state."""

    id: str
    key: str
    state: str


class AuditedMessage(Struct, frozen=True):
    """The state of a message, and the turn that it is part of."""

    event_key: str
    state: str
    turn: str | None


class AuditedCall(Struct, frozen=True):
    """A tool call that was started, and its result if there is one."""

    turn: str
    key: str
    tool: str
    ended: ToolEnded | None


class TurnEpochs(Struct, frozen=True):
    """The epoch that a turn has now, and its claims and interruptions in their order."""

    turn: str
    epoch: int
    entries: tuple[Entry, ...]


class StoreAudit:
    """Reads whole tables; a running gateway does not use it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def is_idle(self) -> bool:
        """Say whether nothing is open: no turn, no reply, no message, no process."""
        return not await self._all(_UNFINISHED)

    async def waiting_keys(self) -> list[str]:
        """Return the keys of the chats in which a turn, a message or a reply is open."""
        return [row[0] for row in await self._all(f"SELECT key FROM ({WAITING_KEYS}) w ORDER BY key")]

    async def moved_keys(self) -> list[str]:
        """Return the key of every turn whose agent was told that files and commands stayed on another machine."""
        return [row[0] for row in await self._all("SELECT key FROM inbox WHERE event_key LIKE 'moved:%'")]

    async def turns(self, since: str = "") -> list[AuditedTurn]:
        """Return every turn after the one of that id, in the order of their ids."""
        rows = await self._all("SELECT id, key, state FROM turns WHERE id > :since ORDER BY id", since=since)
        return [AuditedTurn(*row) for row in rows]

    async def messages(self) -> list[AuditedMessage]:
        return [AuditedMessage(*row) for row in await self._all("SELECT event_key, state, turn FROM inbox")]

    async def calls(self, since: str = "") -> list[AuditedCall]:
        """Return every tool call of the turns after the one of that id."""
        begun: dict[tuple[str, str], ToolStarted] = {}
        ends: dict[tuple[str, str], ToolEnded] = {}
        for turn, entry in await self._entries("'tool_started', 'tool_ended'", since):
            if isinstance(entry, ToolStarted):
                begun[turn, entry.call] = entry
            elif isinstance(entry, ToolEnded):
                ends[turn, entry.call] = entry
        return [AuditedCall(at[0], started.key, started.tool, ends.get(at)) for at, started in begun.items()]

    async def final_answers(self, since: str = "") -> Counter[str]:
        """Count a model's final answers by turn, except for turns that further messages have joined."""
        entries = await self._entries("'model_answered', 'joined'", since)
        joined = {turn for turn, entry in entries if isinstance(entry, MessagesJoined)}
        finals = [turn for turn, entry in entries if isinstance(entry, ModelAnswered) and not entry.calls]
        return Counter(turn for turn in finals if turn not in joined)

    async def cancelled_turns(self, why: str) -> set[str]:
        """Return the turns that were cancelled for that reason."""
        entries = await self._entries("'cancelled'")
        return {turn for turn, entry in entries if isinstance(entry, TurnCancelled) and entry.why == why}

    async def turns_with_expired_replies(self) -> set[str]:
        """Return the turns of which a reply, or a part of one, has expired."""
        sql = f"SELECT turn FROM outbox WHERE state = '{DeliveryState.EXPIRED}' AND turn IS NOT NULL"
        rows = await self._all(sql)
        return {row[0] for row in rows}

    async def lost_commands(self) -> list[str]:
        """Return the commands of lost processes."""
        return [
            row[0] for row in await self._all(f"SELECT command FROM processes WHERE state = '{ProcessState.LOST}'")
        ]

    async def interruptions(self) -> list[tuple[str, Entry]]:
        """Return interruptions, notes and model requests in the order of the journal, each with its turn."""
        return await self._entries("'interrupted', 'noted', 'model_asked'")

    async def epochs(self, since: str = "") -> list[TurnEpochs]:
        """Return the epochs of the turns after the one of that id."""

        def transaction(tx: Tx) -> list[TurnEpochs]:
            turns = tx.all("SELECT id, epoch FROM turns WHERE id > :since ORDER BY id", since=since)
            rows = tx.all(_ENTRIES.format(kinds="'claimed', 'interrupted'"), since=since)
            entries: dict[str, list[Entry]] = {}
            for turn, kind, version, body in rows:
                entries.setdefault(turn, []).append(decode_entry(kind, version, body))
            return [TurnEpochs(turn, epoch, tuple(entries.get(turn, ()))) for turn, epoch in turns]

        return await self._database.read(transaction)

    async def _entries(self, kinds: str, since: str = "") -> list[tuple[str, Entry]]:
        rows = await self._all(_ENTRIES.format(kinds=kinds), since=since)
        return [(turn, decode_entry(kind, version, body)) for turn, kind, version, body in rows]

    async def _all(self, sql: str, **values: Any) -> list[tuple[Any, ...]]:
        return await self._database.read(lambda tx: tx.all(sql, **values))

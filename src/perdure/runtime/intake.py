"""From a platform into the inbox: store, only then acknowledge, then wake whoever answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from perdure.core.address import session_key
from perdure.core.commands import read_command
from perdure.core.messages import Inbound, Stored
from perdure.errors import Unavailable
from perdure.logs import Log
from perdure.platforms.api import Event
from perdure.runtime.access import Access
from perdure.store.api import Store
from perdure.store.ids import Clock
from perdure.store.inbox import InboxKind

log = Log("intake")

MOST_AT_ONCE = 256

Taken = Callable[[Stored, Inbound, bool], None]  # where it is, what it was, and whether it is a command


class Intake:
    """Takes events in. Many at once: they share a commit, and keep their order within a session."""

    def __init__(
        self, store: Store, agent: str, access: Access, clock: Clock, taken: Taken, group: asyncio.TaskGroup
    ) -> None:
        self._store = store
        self._agent = agent
        self._access = access
        self._clock = clock
        self._taken = taken
        self._group = group
        self._places = asyncio.Semaphore(MOST_AT_ONCE)
        self._taking: set[asyncio.Task[None]] = set()

    async def take(self, event: Event) -> None:
        """Begin to store an event; returns at once unless very many are being stored."""
        await self._places.acquire()
        task = self._group.create_task(self._take(event))
        self._taking.add(task)
        task.add_done_callback(self._taken_in)

    def _taken_in(self, task: asyncio.Task[None]) -> None:
        self._taking.discard(task)
        self._places.release()

    async def settle(self, at_most: float) -> None:
        """Wait, for a while, until what is being stored is stored and acknowledged."""
        if self._taking:
            await asyncio.wait(self._taking, timeout=at_most)

    async def _take(self, event: Event) -> None:
        try:
            await event.ack(await self._store_event(event))
        except Unavailable as error:
            log.warning("not_received", event_key=event.key, error=error.message)
            await event.fail(error)

    async def _store_event(self, event: Event) -> Stored | None:
        inbound, problem = event.inbound, event.problem
        if inbound is not None and not self._access.may(inbound.address.platform, inbound.sender, "talk"):
            problem = f"{inbound.sender.id} is not allowed here"
        if inbound is None or problem is not None:
            await self._store.inbox.reject(event.key, event.raw, problem or "not understood", self._clock())
            log.warning("rejected", event_key=event.key, problem=problem)
            return None
        return await self._receive(event, inbound)

    async def _receive(self, event: Event, inbound: Inbound) -> Stored:
        key = session_key(self._agent, inbound.address)
        ordered = read_command(inbound.text) is not None
        kind: InboxKind = "command" if ordered else "message"
        stored = await self._store.inbox.receive(inbound, event.raw, key, self._clock(), kind)
        if stored.fresh:
            log.info("received", message=stored.message, key=key, kind=kind)
            self._taken(stored, inbound, ordered)
        return stored

"""From a platform into the inbox: store, only then acknowledge, then wake whoever answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from perdure.core.address import session_key
from perdure.core.messages import Stored
from perdure.errors import Unavailable
from perdure.logs import Log
from perdure.platforms.api import Event
from perdure.store.api import Store
from perdure.store.ids import Clock

log = Log("intake")

MOST_AT_ONCE = 256


class Intake:
    """Takes events in. Many at once: they share a commit, and keep their order within a session."""

    def __init__(
        self, store: Store, agent: str, clock: Clock, stored: Callable[[str], None], group: asyncio.TaskGroup
    ) -> None:
        self._store = store
        self._agent = agent
        self._clock = clock
        self._stored = stored
        self._group = group
        self._places = asyncio.Semaphore(MOST_AT_ONCE)

    async def take(self, event: Event) -> None:
        """Begin to store an event; returns at once unless very many are being stored."""
        await self._places.acquire()
        task = self._group.create_task(self._take(event))
        task.add_done_callback(lambda _: self._places.release())

    async def _take(self, event: Event) -> None:
        try:
            stored = await self._store_event(event)
        except Unavailable as error:
            log.warning("not_received", event_key=event.key, error=error.message)
            await event.fail(error)
            return
        await event.ack(stored)
        if stored is not None and stored.fresh:
            log.info("received", message=stored.message, key=stored.key)
            self._stored(stored.key)

    async def _store_event(self, event: Event) -> Stored | None:
        now = self._clock()
        if event.inbound is None:
            await self._store.inbox.reject(event.key, event.raw, event.problem or "not understood", now)
            log.warning("rejected", event_key=event.key, problem=event.problem)
            return None
        key = session_key(self._agent, event.inbound.address)
        return await self._store.inbox.receive(event.inbound, event.raw, key, now)

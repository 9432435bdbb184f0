"""From a platform into the inbox: store, only then acknowledge, then wake whoever answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from perdure.config import Settings
from perdure.core.address import session_key
from perdure.core.commands import read_command
from perdure.core.messages import Inbound, Stored
from perdure.errors import Unavailable
from perdure.logs import Log
from perdure.platforms.api import Event
from perdure.runtime.access import Access
from perdure.runtime.resets import resets
from perdure.store.api import Store
from perdure.store.database import Tx, Work
from perdure.store.ids import Clock
from perdure.store.inbox import InboxKind
from perdure.store.verbs import renew_if_due

log = Log("intake")

MOST_AT_ONCE = 256

Taken = Callable[[Stored, Inbound, bool], None]  # where it is, what it was, and whether it is a command


class Intake:
    """Takes events in. Many at once: they share a commit, and keep their order within a session."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        access: Access,
        clock: Clock,
        taken: Taken,
        group: asyncio.TaskGroup,
    ) -> None:
        self._store = store
        self._agent = settings.agent.name
        self._session = settings.session
        self._freshness_ms = int(settings.recovery.freshness * 1000)
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
        now = self._clock()
        first = self._renewal(key, now) if not ordered else _nothing
        stored = await self._store.inbox.receive(inbound, event.raw, key, now, kind, first)
        if stored.fresh:
            log.info("received", message=stored.message, key=key, kind=kind)
            self._taken(stored, inbound, ordered)
        return stored

    def _renewal(self, key: str, now: int) -> Work[object]:
        """What begins a fresh conversation if the one so far is too old."""
        rules = resets(self._session, now)
        return renew_if_due(self._store.ids, key, now, rules, self._freshness_ms) if rules else _nothing


def _nothing(_: Tx) -> None: ...

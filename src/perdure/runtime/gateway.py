"""The gateway: opens the store, wires the loops, starts and stops them."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path

from perdure import __version__
from perdure.agents.api import Agent
from perdure.agents.loop import LoopAgent
from perdure.agents.offline import OfflineModel
from perdure.config import Settings
from perdure.core.recovery import Reason, RecoveryPolicy
from perdure.errors import PerdureError, RunEnded, Unavailable
from perdure.logs import Log
from perdure.platforms.api import Adapter
from perdure.platforms.web import WebAdapter
from perdure.runtime.bell import Feed
from perdure.runtime.connections import Connections
from perdure.runtime.drain import drain
from perdure.runtime.intake import Intake
from perdure.runtime.lease import Lease
from perdure.runtime.recoverer import Recoverer
from perdure.runtime.runner import Runner
from perdure.runtime.sender import Sender
from perdure.store.api import Store, open_database
from perdure.store.database import Database
from perdure.store.ids import Clock, wall_clock
from perdure.store.leases import LEASE_MS
from perdure.tools.rehearsal import rehearsal_tools

log = Log("gateway")

HEARTBEAT = 5.0  # seconds; a lease outlives six of them


class Phase(StrEnum):
    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    STOPPED = "stopped"


class Gateway:
    """One running gateway. `run()` returns after an orderly stop and raises after any other."""

    def __init__(
        self,
        settings: Settings,
        *,
        adapters: Sequence[Adapter] | None = None,
        agent: Agent | None = None,
        clock: Clock = wall_clock,
        wrap: Callable[[Database], Database] = lambda database: database,
    ) -> None:
        self.settings = settings
        self.adapters: list[Adapter] = list(adapters) if adapters is not None else [WebAdapter()]
        self._agent = agent or built_in_agent(settings)
        self._clock = clock
        self._wrap = wrap
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()
        self.feed = Feed()
        self.phase = Phase.STARTING
        self._store: Store | None = None
        self._connections: Connections | None = None

    @property
    def store(self) -> Store:
        if self._store is None:
            raise PerdureError("the gateway has not been started")
        return self._store

    def problems(self) -> list[str]:
        """What is wrong now, in words; empty means healthy."""
        store = self._store.problem if self._store else None
        platforms = self._connections.problems if self._connections else {}
        return [*([store] if store else []), *(f"{name}: {problem}" for name, problem in platforms.items())]

    def stop(self) -> None:
        """Ask for an orderly stop; asked again, the stop hurries."""
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()

    async def run(self, on_ready: Callable[[], None] = lambda: None) -> None:
        """Serve until stopped."""
        database = await open_database(self.settings.store_url, home=self.settings.home, clock=self._clock)
        self._store = Store(self._wrap(database), self._clock)
        try:
            run = await self._store.runs.begin(_instance(self.settings.home), __version__)
            log.info("run_began", run=run, version=__version__)
            await self._serve(run, on_ready)
            await self._store.runs.end(run)
            log.info("run_ended", run=run)
        except BaseExceptionGroup as failures:
            raise _first(failures) from failures
        finally:
            self.phase = Phase.STOPPED
            self.feed.ring_all()
            await self._store.close()

    async def _serve(self, run: str, on_ready: Callable[[], None]) -> None:
        async with asyncio.TaskGroup() as group:
            loops = await self._start(run, group)
            self.phase = Phase.READY
            on_ready()
            await self._stop.wait()
            self.phase = Phase.DRAINING
            self.feed.ring_all()
            deadline = self.settings.drain.deadline
            await drain(loops.runner, loops.sender, Reason.SHUTDOWN_TIMEOUT, deadline, self._hurry)
            for task in loops.tasks:
                task.cancel()
        for adapter in self.adapters:
            await adapter.close()

    async def _start(self, run: str, group: asyncio.TaskGroup) -> _Loops:
        """Wire the loops. Lost turns are marked before anything is claimed or connected."""
        store, settings, clock = self.store, self.settings, self._clock
        lease = Lease(None if store.database.sole else LEASE_MS)
        self._connections = connections = Connections(self.adapters, lambda _: on_connected())
        runner = Runner(
            store,
            self._agent,
            run,
            lease=lease,
            clock=clock,
            max_length=connections.max_length,
            changed=lambda key: changed(key),
            group=group,
        )
        sender = Sender(
            store,
            run,
            connections.connected,
            lease=lease,
            clock=clock,
            unknown=settings.delivery.unknown,
            max_age_ms=int(settings.delivery.max_age * 1000),
            sent=self.feed.ring,
            group=group,
        )
        recoverer = Recoverer(
            store,
            run,
            runner,
            policy=recovery_policy(settings),
            at_once=settings.recovery.concurrency,
            clock=clock,
            connected=connections.connected,
            max_length=connections.max_length,
            group=group,
        )

        def changed(key: str) -> None:
            self.feed.ring(key)
            sender.wake()

        def received(key: str) -> None:
            self.feed.ring(key)
            runner.wake(key)

        async def on_connected() -> None:
            sender.wake()
            await recoverer.recover()

        intake = Intake(store, settings.agent.name, clock, received, group)
        await recoverer.mark_lost(Reason.RESTART_INTERRUPTED)
        tasks = [
            *(group.create_task(connections.attend(adapter, intake.take)) for adapter in self.adapters),
            group.create_task(runner.work()),
            group.create_task(sender.work()),
            group.create_task(self._beat(run, lease, recoverer)),
        ]
        return _Loops(runner, sender, tasks)

    async def _beat(self, run: str, lease: Lease, recoverer: Recoverer) -> None:
        """Say that we are alive, and take over from those who are not."""
        while True:
            await asyncio.sleep(HEARTBEAT)
            asked_at = time.clock_gettime(time.CLOCK_BOOTTIME)
            try:
                if not await self.store.runs.beat(run):
                    raise RunEnded(f"run {run} was declared dead by another gateway")
                lease.renew(asked_at)
                if await self.store.runs.reap(run):
                    await recoverer.mark_lost(Reason.LEASE_LOST)
                    await recoverer.recover()
            except Unavailable as error:
                log.warning("heartbeat_missed", error=error.message)


class _Loops:
    def __init__(self, runner: Runner, sender: Sender, tasks: list[asyncio.Task[None]]) -> None:
        self.runner = runner
        self.sender = sender
        self.tasks = tasks


def built_in_agent(settings: Settings) -> LoopAgent:
    """The agent that the settings ask for: the offline model with its rehearsal tools."""
    tools = rehearsal_tools(settings.home / "rehearsal.log")
    return LoopAgent(
        OfflineModel(), tools, system_prompt=settings.agent.system_prompt, max_steps=settings.agent.max_steps
    )


def recovery_policy(settings: Settings) -> RecoveryPolicy:
    recovery = settings.recovery
    return RecoveryPolicy(
        policy=recovery.policy,
        freshness_ms=int(recovery.freshness * 1000),
        max_without_progress=recovery.max_without_progress,
        max_interruptions=recovery.max_interruptions,
        max_tokens=recovery.max_tokens,
    )


def _instance(home: Path) -> str:
    """Names this installation: whoever holds the lock of this home on this host is its only gateway."""
    return f"{socket.gethostname()}:{home.resolve()}"


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first of several failures: the others are its consequences."""
    inner = failures.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner

"""The gateway: opens the store, starts the loops, and stops them in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import StrEnum

from perdure.agents.api import Agent, Model
from perdure.config import Settings
from perdure.containment import refuse_task_exits
from perdure.core import texts
from perdure.core.exit_report import GatewayLaunch
from perdure.core.recovery.decision import InterruptionReason
from perdure.errors import ConfigurationError, PerdureError, RunEnded, Unavailable
from perdure.logs import Log
from perdure.platforms.api import Adapter
from perdure.runtime.agent_factory import AgentFactory
from perdure.runtime.clocks import Clocks, boot_seconds, steady_clock
from perdure.runtime.configured_platforms import configured_adapters
from perdure.runtime.connections import Connections
from perdure.runtime.gateway_run import GatewayRun, Lease
from perdure.runtime.instance import load_instance, wait_for_copies
from perdure.runtime.operator_verbs import OperatorVerbs
from perdure.runtime.tasks import FailureLog, GatewayTasks
from perdure.runtime.wakeups import STORE_RETRY_SECONDS, Feed, Wakeups
from perdure.runtime.wiring import Loops
from perdure.store.api import Store, open_database, open_hints
from perdure.store.conditions import ANY_AGENT
from perdure.store.database import Database
from perdure.store.ids import Clock, wall_clock
from perdure.store.run_services import RunCapabilities, RunService, ServiceDifference
from perdure.store.runs import Instance, RunStart
from perdure.tools.sandbox import SandboxInForce
from perdure.version import __version__

log = Log("gateway")

ADAPTER_CLOSE_SECONDS = 3.0  # seconds that a platform gets to be let go of


class Phase(StrEnum):
    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    STOPPED = "stopped"


class StopKind(StrEnum):
    """What follows an orderly stop: nothing, or another start."""

    STOP = "stop"
    RESTART = "restart"


class _Drained(Exception):
    """Raised when the drain is over, so that the task group cancels the tasks that are left."""


class Gateway:
    """One running gateway. `run()` returns after an orderly stop and raises after any other."""

    def __init__(
        self,
        settings: Settings,
        *,
        adapters: Sequence[Adapter] | None = None,
        agent: Agent | None = None,
        clock: Clock = wall_clock,
        steady: Clock = steady_clock,
        wrap: Callable[[Database], Database] = lambda database: database,
        wrap_model: Callable[[Model], Model] = lambda model: model,
        launch: GatewayLaunch | None = None,
    ) -> None:
        """`clock` tells the time of day; `steady` tells how much time has passed, and nobody sets it.

        `launch` is what the supervisor says of this start and of the exits before it.
        """
        self.settings = settings
        self.adapters: list[Adapter] = list(adapters) if adapters is not None else configured_adapters(settings)
        self._agents = AgentFactory(settings, [adapter.name for adapter in self.adapters], agent, wrap_model)
        self._clocks = Clocks(clock, steady)
        self._wrap = wrap
        self._launch = launch
        # Called at every request to stop, with the seconds until the latest end.
        self.end_by: Callable[[float], None] = _ignore_deadline
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()
        self._failures = FailureLog(log)
        self.feed = Feed()
        self.phase = Phase.STARTING
        self.stopping: InterruptionReason | None = None  # what turns that do not end in time are marked with
        self._stop_kind = StopKind.STOP
        self._store: Store | None = None
        self._hints = open_hints(settings.store_url)
        self._loops: Loops | None = None
        self._operator_verbs: OperatorVerbs | None = None

    @property
    def operator_verbs(self) -> OperatorVerbs:
        if self._operator_verbs is None:
            raise PerdureError("the gateway has not been started")
        return self._operator_verbs

    @property
    def store(self) -> Store:
        if self._store is None:
            raise PerdureError("the gateway has not been started")
        return self._store

    @property
    def loops(self) -> Loops:
        if self._loops is None:
            raise PerdureError("the gateway has not been started")
        return self._loops

    @property
    def sandbox(self) -> SandboxInForce:
        """The sandbox in which commands run; known once the gateway has been started."""
        return self._agents.tools.sandbox

    def problems(self) -> list[str]:
        """Return why some people are not served at the moment, in words; empty means healthy."""
        store = self._store.problem if self._store else None
        heartbeat = self._loops.heartbeat.problem if self._loops else None
        platforms = self._loops.connections.problems if self._loops else {}
        return [
            *(problem for problem in (store, heartbeat) if problem),
            *(f"{name}: {problem}" for name, problem in platforms.items()),
        ]

    def warnings(self) -> list[str]:
        """Return which MCP servers cannot be reached; people are served without them."""
        return [f"tools of {name}: {problem}" for name, problem in self._agents.tools.problems.items()]

    def describe(self) -> list[str]:
        """Return the state of the gateway, one sentence a line."""
        running = len(self.loops.runner.running)
        connected = ", ".join(self.loops.connections.connected) or "no platform"
        lines = [f"The gateway is {self.phase}, connected to {connected}; turns running: {running}."]
        lines.append(self.sandbox.summary)
        if standing_by := sorted(self.loops.connections.standing_by):
            lines.append(f"{texts.gateways.standing_by(standing_by)}.")
        if self.loops.recoverer.paused:
            lines.append(texts.recovery.RESUME_PAUSED)
        return [*lines, *(f"Problem: {problem}." for problem in self.problems() + self.warnings())]

    def stop(self, ending: StopKind = StopKind.STOP) -> bool:
        """Ask for an orderly stop. False: a stop or restart was under way already; a second stop hurries it."""
        if self._stop.is_set():
            if ending is StopKind.STOP:
                self._stop_kind = ending
                self.end_by(self.settings.drain.teardown)
                self._hurry.set()
            return False
        self._stop_kind = ending
        self.stopping = (
            InterruptionReason.RESTART_TIMEOUT
            if ending is StopKind.RESTART
            else InterruptionReason.SHUTDOWN_TIMEOUT
        )
        self.end_by(self.settings.drain.max_seconds)
        self._stop.set()
        return True

    def drain(self) -> bool:
        """Ask for an orderly stop. False: a stop or restart is under way already, and is not hurried."""
        return not self._stop.is_set() and self.stop()

    def restart(self) -> bool:
        """Ask for a restart. False: a stop or restart is under way already."""
        return self.stop(StopKind.RESTART)

    async def run(self, on_ready: Callable[[], None] = lambda: None) -> StopKind:
        """Serve until a stop is asked for; return whether a restart was meant."""
        undo = refuse_task_exits(asyncio.get_running_loop())
        try:
            return await self._run(on_ready)
        finally:
            undo()

    async def _run(self, on_ready: Callable[[], None]) -> StopKind:
        self._agents.tools.prepare()
        log.info("sandbox_chosen", layer=self.sandbox.layer, says=self.sandbox.summary)
        database = await self._open_database()
        if database is None:
            return self._stop_kind
        self._store = Store(self._wrap(database))
        try:
            run = await self._serve_until_stopped(on_ready)
            if run is not None and await self._failures.contain("run_end_not_saved", self._end_run(run), run=run):
                log.info("run_ended", run=run)
        finally:
            self.phase = Phase.STOPPED
            self.feed.publish_all()
            await self._failures.contain("agents_not_closed", self._agents.close())
            if self._hints is not None:
                await self._hints.close()
            await self._store.close()
        return self._stop_kind

    async def _open_database(self) -> Database | None:
        """Open the database, however long its server is away. None: a stop was asked for meanwhile."""
        while not self._stop.is_set():
            try:
                return await open_database(
                    self.settings.store_url, home=self.settings.home, clock=self._clocks.wall
                )
            except Unavailable as error:
                log.warning("database_awaited", error=error.message)
            with suppress(TimeoutError):
                async with asyncio.timeout(STORE_RETRY_SECONDS):
                    await self._stop.wait()
        return None

    async def _serve_until_stopped(self, on_ready: Callable[[], None]) -> str | None:
        """Serve, and return the last run: one that another gateway has declared dead is followed by a new one."""
        while True:
            try:
                return await self._serve(on_ready)
            except BaseExceptionGroup as failures:
                first = _first(failures)
                if not isinstance(first, RunEnded) or self._stop.is_set():
                    raise first from failures
                log.warning("run_replaced", error=first.message)
            self.phase = Phase.STARTING
            self.feed.publish_all()

    async def _serve(self, on_ready: Callable[[], None]) -> str | None:
        """Run until stopped, and return the run; None: a stop was asked for before it could begin."""
        instance, store = load_instance(self.settings.home), self.store
        sole = store.database.exclusive
        if not sole and not await wait_for_copies(store.runs, instance, self.settings.store.lease, self._stop):
            return None
        started, lease = await self._begin_run(instance)
        await self._compare_with_neighbours(started.run)
        log.info("run_began", run=started.run, version=__version__, unclean=started.unclean_in_a_row)
        try:
            async with asyncio.TaskGroup() as group:
                await self._run_loops(started, lease, group, on_ready)
        except* _Drained:
            log.info("drained", run=started.run)
        for adapter in self.adapters:
            await self._failures.contain("platform_not_closed", _close_adapter(adapter), platform=adapter.name)
        return started.run

    async def _begin_run(self, instance: Instance) -> tuple[RunStart, Lease]:
        """Record that this run begins, however long the store is away."""
        begun: list[tuple[RunStart, Lease]] = []
        length_ms = self.settings.lease_ms

        async def begin() -> None:
            lease = Lease(None if self.store.database.exclusive else length_ms, boot_seconds())
            capabilities = self._capabilities()
            started = await self.store.runs.begin(
                instance, __version__, self._launch, capabilities, lease_ms=length_ms
            )
            begun.append((started, lease))

        if not await self._failures.retry("run_delayed", begin):
            raise PerdureError("the start of this run could not be recorded; the log says why")
        return begun[-1]

    async def _compare_with_neighbours(self, run: str) -> None:
        """Say what other gateways on the database serve and this one does not, and the other way round.

        End the run if another one has a platform by another account: chats say only the platform.
        """
        found: list[tuple[tuple[str, str, str] | None, ServiceDifference]] = []
        services = self.store.run_services

        async def look() -> None:
            found.append((await services.account_conflict(run), await services.difference(run)))

        await self._failures.retry("start_delayed", look)
        for conflict, difference in found:
            if conflict is not None:
                await self.store.runs.end(run)
                raise ConfigurationError(
                    texts.platforms.another_account(*conflict), hint=texts.platforms.ANOTHER_ACCOUNT_HINT
                )
            if difference.elsewhere:
                log.warning("gateways_differ", says=texts.recovery.served_elsewhere(difference.elsewhere))
            if difference.here_alone:
                log.warning("gateways_differ", says=texts.recovery.served_here_alone(difference.here_alone))

    async def _end_run(self, run: str) -> None:
        wait_ms = 0 if self.store.database.exclusive else int(self.settings.handover.wait * 1000)
        await self.store.runs.end(run, wait_ms)

    def _capabilities(self) -> RunCapabilities:
        """What this gateway can serve: its agent on each of its platforms."""
        agent = ANY_AGENT if self.store.database.exclusive else self.settings.agent.name
        return RunCapabilities(tuple(RunService(each.name, agent, each.account) for each in self.adapters))

    async def _run_loops(
        self, started: RunStart, lease: Lease, group: asyncio.TaskGroup, on_ready: Callable[[], None]
    ) -> None:
        """Run the loops until a stop is asked for, then drain them; the task group ends the other tasks."""
        run = GatewayRun(
            self.store,
            started.run,
            self._clocks,
            lease,
            GatewayTasks(group),
            Connections(self.adapters),
            Wakeups(self.feed, self.settings.store.poll),
            self._hints,
        )
        self._loops = Loops(self.settings, run, started, self._agents, self.adapters, self)
        self._operator_verbs = OperatorVerbs(self.store, self._loops, started.run, self._clocks.wall)
        await self._loops.start()
        self.phase = Phase.READY
        on_ready()
        await self._stop.wait()
        self.phase = Phase.DRAINING
        self.feed.publish_all()
        await self._loops.drain(self.stopping or InterruptionReason.SHUTDOWN_TIMEOUT, self._hurry)
        raise _Drained


def _ignore_deadline(_: float) -> None: ...


async def _close_adapter(adapter: Adapter) -> None:
    async with asyncio.timeout(ADAPTER_CLOSE_SECONDS):
        await adapter.close()


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error of a group: the others are its consequences."""
    inner = failures.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner

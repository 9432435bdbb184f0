"""The loops of a running gateway, wired to each other: who wakes whom."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from functools import partial

from perdure.config import Settings
from perdure.core import notes
from perdure.core.address import Address, home_of
from perdure.core.messages import Inbound, Stored
from perdure.core.patience import Patience
from perdure.core.queueing import Fate
from perdure.core.recovery import Reason, RecoveryPolicy
from perdure.errors import RunEnded
from perdure.logs import Log
from perdure.platforms.api import Adapter, MenuEntry
from perdure.runtime.access import Access
from perdure.runtime.agents import Agents
from perdure.runtime.bell import Feed
from perdure.runtime.commands import Commands, Control
from perdure.runtime.connections import Connections
from perdure.runtime.drain import Notices, drain
from perdure.runtime.eraser import Eraser
from perdure.runtime.fetcher import Fetcher
from perdure.runtime.intake import Intake
from perdure.runtime.keepers import Keepers
from perdure.runtime.lease import Lease
from perdure.runtime.ledger import Records
from perdure.runtime.processes import Background
from perdure.runtime.queueing import Expiry
from perdure.runtime.recoverer import Limits, Recoverer
from perdure.runtime.retention import Retention
from perdure.runtime.runner import Runner
from perdure.runtime.sender import Sender
from perdure.runtime.tasks import Failures, Tasks
from perdure.runtime.uploads import Uploads
from perdure.runtime.watchers import Watchers
from perdure.store.api import Store
from perdure.store.ids import Clock
from perdure.store.runs import LEASE_MS, Started
from perdure.tools.cabinet import Cabinet

log = Log("loops")

HEARTBEAT = 5.0  # seconds; a lease outlives six of them
TAKING_IN = 2.0  # seconds that events get which were handed over when everything else had ended
OWED_FIRST = 5.0  # how long recoveries of a platform wait for the replies that are owed there


class Loops:
    """Everything that moves while a gateway runs."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        started: Started,
        agents: Agents,
        adapters: list[Adapter],
        control: Control,
        feed: Feed,
        clock: Clock,
        steady: Clock,
        group: Tasks,
    ) -> None:
        self._settings = settings
        self._store = store
        self._run = started.run
        self._control = control
        self._feed = feed
        self._group = group
        self._adapters = adapters
        self._agents = agents
        self._clock = clock
        self._lease = Lease(None if store.database.sole else LEASE_MS)
        self.cabinet = Cabinet(settings.home)
        self.uploads = Uploads(store, self.cabinet, clock, settings.max_file)
        self._tasks: list[asyncio.Task[None]] = []
        self._failures = Failures(log)
        self._published: set[str] = set()  # platforms that show the menu of commands
        self.access = access = Access(settings, store)
        self.connections = connections = Connections(adapters, self._connected)
        silent = [adapter.name for adapter in adapters if not settings.platform(adapter.name).banner]
        self.notices = Notices(connections.connected, silent)
        self.runner = self._make_runner(steady)
        self.watchers = Watchers(
            self.runner,
            connections.connected,
            _patience(settings),
            lease=self._lease,
            clock=clock,
            steady=steady,
            group=group,
        )
        self.sender = Sender(
            store,
            self._run,
            connections.connected,
            lease=self._lease,
            clock=clock,
            unknown=settings.delivery.unknown,
            max_age_ms=int(settings.delivery.max_age * 1000),
            cabinet=self.cabinet,
            sent=feed.ring,
            group=group,
        )
        self.fetcher = Fetcher(
            store,
            self._run,
            connections.connected,
            self.cabinet,
            most=settings.max_file,
            clock=clock,
            settled=self._told,
            group=group,
        )
        self.keepers = Keepers(store, settings.home / "keepers", clock)
        self.background = Background(
            store, settings.home / "keepers", self._run, access=access, clock=clock, told=self._told, group=group
        )
        agents.bind(Records(store, self._run, clock, self.background))
        self.eraser = Eraser(store, settings.home, clock, self._cut_off)
        self._retention = Retention(self.eraser, settings.retention.age, self.uploads.sweep)
        self.recoverer = self._make_recoverer(started)
        self.commands = self._make_commands()
        self._expiry = Expiry(store, settings.queue_rules, clock, self._changed)
        self._intake = Intake(store, settings, access, clock, self._taken, self._changed, self.keepers.wake, group)

    def _make_runner(self, steady: Clock) -> Runner:
        return Runner(
            self._store,
            self._agents.on,
            self._run,
            lease=self._lease,
            clock=self._clock,
            steady=steady,
            connected=self.connections.connected,
            max_length=self.connections.max_length,
            max_tokens=self._settings.recovery.max_tokens,
            approval_ms=int(self._settings.tools.approval_expires * 1000),
            rules=self._settings.queue_rules,
            cabinet=self.cabinet,
            ended=lambda: self.keepers.wake(),  # it may have left a command behind
            changed=self._feed.ring,
            owes=self._changed,
            group=self._group,
        )

    def _make_recoverer(self, started: Started) -> Recoverer:
        return Recoverer(
            self._store,
            started,
            self.runner,
            limits=Limits(self._policy, self._settings.recovery.concurrency),
            access=self.access,
            clock=self._clock,
            served={adapter.name for adapter in self._adapters},
            alive=self.keepers.alive,
            connected=self.connections.connected,
            max_length=self.connections.max_length,
            changed=self._changed,
            group=self._group,
        )

    def _make_commands(self) -> Commands:
        return Commands(
            self._store,
            self._run,
            self.runner,
            self._control,
            self.access,
            clock=self._clock,
            began_at=self._clock(),
            goal_turns=self._settings.goal.max_turns,
            works=self._settings.background.at_once,
            rules=self._settings.queue_rules,
            max_length=self.connections.max_length,
            answered=self._changed,
        )

    async def start(self) -> None:
        """Mark lost turns and obey old commands, before anything is connected; then let everything move."""
        for step in (
            self._mark_lost,
            self._expiry.sweep,
            partial(self.access.sweep, self._clock),
            self.commands.catch_up,
            self.background.catch_up,
        ):
            await self._failures.retry("start_delayed", step)
        for adapter in self._adapters:
            self._repeat(partial(self.connections.attend, adapter, self._intake.take))
        for loop in (
            self._agents.work,
            self.keepers.work,
            self.background.work,
            self.runner.work,
            self.sender.work,
            self.fetcher.work,
            self.commands.work,
            self.watchers.work,
            self._retention.work,
            self._expiry.work,
            self._beat,
        ):
            self._repeat(loop)

    async def _mark_lost(self) -> None:
        self.recoverer.pause_if_crashing(await self.recoverer.mark_lost(Reason.RESTART_INTERRUPTED))

    async def drain(self, reason: Reason, hurry: asyncio.Event) -> None:
        """Come to an orderly end."""
        deadline = self._settings.drain.deadline
        self.recoverer.stop()
        draining = drain(self.runner, self.sender, self.notices, reason, deadline, hurry)
        await self._failures.contain("not_drained", draining)
        for task in self._tasks:
            task.cancel()
        self.background.stop()
        self.fetcher.stop()
        await self._intake.settle(TAKING_IN)

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        self._tasks.append(self._group.create_task(work))

    def _repeat(self, loop: Callable[[], Coroutine[None, None, None]]) -> None:
        self._tasks.append(self._group.repeat(loop))

    async def _cut_off(self, turn: str) -> None:
        """End the attempt at a turn that was ended by somebody else, and wait until it has ended."""
        over = self.runner.over(turn)
        self.runner.cut_off(turn)
        await over.wait()

    # ── who wakes whom ──────────────────────────────────────────────────────────────────────────────────────

    def tell(self, key: str) -> None:
        """Say that something is owed to the chat of a key."""
        self._changed(key)

    def _changed(self, key: str) -> None:
        self._feed.ring(key)
        self.sender.wake()

    def _told(self, key: str) -> None:
        """There is news of a process: a turn for it, or a notice."""
        self._changed(key)
        self.runner.wake(key)

    def _taken(self, stored: Stored, inbound: Inbound, ordered: bool) -> None:
        match stored.fate:
            case Fate.FULL:
                self._changed(stored.key)
            case Fate.EXPIRED:
                self._expiry.wake()
            case _:
                self._let_in(stored, inbound, ordered)

    def _let_in(self, stored: Stored, inbound: Inbound, ordered: bool) -> None:
        self._feed.ring(home_of(stored.key))
        if stored.ended is not None:
            self.runner.cut_off(stored.ended)
        if ordered:
            self.commands.wake()
            return
        self.runner.wake(stored.key)
        if inbound.attachments:
            self.fetcher.wake()
        if stored.quiet:
            self.runner.wake_later(stored.key)
        if self._control.stopping is not None and stored.fate is Fate.WAITS:
            restart = self._control.stopping is Reason.RESTART_TIMEOUT
            self.notices.tell(inbound.address, notes.kept_for_later(restart=restart))

    async def _connected(self, platform: str) -> None:
        """A platform is there: its owed replies go first, then its recoveries; nobody waits for either."""
        self.sender.wake()
        self.fetcher.wake()
        self._begin(self._publish(platform))
        self._begin(self._recover(platform))

    async def _publish(self, platform: str) -> None:
        """Let the platform show which commands there are, once. One that fails to works without."""
        adapter = self.connections.connected.get(platform)
        if adapter is None or platform in self._published:
            return
        self._published.add(platform)
        commands = self.commands.registry.values()
        menu = [MenuEntry(each.name, each.usage, each.summary) for each in commands]
        if not await self._failures.contain("menu_not_published", adapter.menu(menu), platform=platform):
            self._published.discard(platform)  # it is tried again with the next connection

    async def _recover(self, platform: str) -> None:
        await self._failures.contain(
            "replies_not_awaited", self.sender.settle(OWED_FIRST, platform), platform=platform
        )
        if not await self._failures.contain(
            "recovery_postponed", self.recoverer.recover(platform), platform=platform
        ):
            self.recoverer.unfinished = True  # the next heartbeat tries again

    def _policy(self, address: Address) -> RecoveryPolicy:
        recovery = self._settings.recovery
        return RecoveryPolicy(
            policy=self._settings.recovery_policy(address.platform, address.chat),
            freshness_ms=int(recovery.freshness * 1000),
            max_without_progress=recovery.max_without_progress,
            max_interruptions=recovery.max_interruptions,
            max_tokens=recovery.max_tokens,
        )

    async def _beat(self) -> None:
        """Say that we are alive, and take over from those who are not."""
        while True:
            await asyncio.sleep(HEARTBEAT)
            if await self._failures.contain("heartbeat_missed", self._beat_once()):
                await self._failures.contain("not_taken_over", self._take_over())

    async def _beat_once(self) -> None:
        asked_at = time.clock_gettime(time.CLOCK_BOOTTIME)
        if not await self._store.runs.beat(self._run):
            raise RunEnded(f"run {self._run} was declared dead by another gateway")
        self._lease.renew(asked_at)

    async def _take_over(self) -> None:
        """Take over from gateways that have died, and try again what failed before."""
        self.recoverer.untaken |= bool(await self._store.runs.reap(self._run))
        if self.recoverer.untaken:
            await self.recoverer.mark_lost(Reason.LEASE_LOST)
            self.recoverer.unfinished = True
        if self.recoverer.unfinished:
            await self.recoverer.recover()


def _patience(settings: Settings) -> Patience:
    turn = settings.turn
    seconds = (settings.notify.still_working, turn.inactivity_warning, turn.inactivity_limit)
    return Patience(*(int(length * 1000) for length in seconds))

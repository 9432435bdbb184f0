"""The loops of a running gateway, wired to each other: who wakes whom."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from functools import partial

from perdure.config import Settings
from perdure.core import texts
from perdure.core.address import Address, parent_session_key
from perdure.core.inactivity import InactivityLimits
from perdure.core.messages import Inbound, Stored
from perdure.core.queue import Fate
from perdure.core.recovery.decision import InterruptionReason, RecoveryPolicy
from perdure.errors import RunEnded
from perdure.logs import Log
from perdure.platforms.api import Adapter, MenuEntry
from perdure.runtime.access import Access
from perdure.runtime.agent_factory import AgentFactory
from perdure.runtime.attachment_fetcher import AttachmentFetcher
from perdure.runtime.command_cleanup import CommandCleanup
from perdure.runtime.commands.queue import MessageExpiry
from perdure.runtime.commands.registry import CommandLoop, GatewayControl
from perdure.runtime.connections import Connections
from perdure.runtime.delivery import DeliveryLoop
from perdure.runtime.drain import TransientNotices, drain
from perdure.runtime.erasure import Eraser
from perdure.runtime.inactivity_watch import InactivityWatch
from perdure.runtime.intake import Intake
from perdure.runtime.lease import Lease
from perdure.runtime.process_records import StoredProcessRecords
from perdure.runtime.process_watcher import ProcessWatcher
from perdure.runtime.recovery import Recoverer, RecoveryLimits
from perdure.runtime.recovery_slots import RecoverySlots
from perdure.runtime.retention import RetentionLoop
from perdure.runtime.runner import TurnRunner
from perdure.runtime.tasks import FailureLog, GatewayTasks
from perdure.runtime.uploads import Uploads
from perdure.runtime.wakeups import Feed
from perdure.store.api import Store
from perdure.store.ids import Clock
from perdure.store.runs import LEASE_MS, RunStart
from perdure.tools.attachments import AttachmentFiles

log = Log("loops")

SERIAL_AFTER_UNCLEAN_STARTS = 2  # unclean starts in a row: then a crash counts only for the turn that ran alone
HEARTBEAT_SECONDS = 5.0  # seconds; a lease outlives six of them
INTAKE_FLUSH_SECONDS = 2.0  # seconds that events get which were handed over when everything else had ended
OUTBOX_FIRST_SECONDS = 5.0  # how long recoveries of a platform wait for the replies that are owed there


class Loops:
    """Everything that moves while a gateway runs."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        started: RunStart,
        agents: AgentFactory,
        adapters: list[Adapter],
        control: GatewayControl,
        feed: Feed,
        clock: Clock,
        steady: Clock,
        group: GatewayTasks,
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
        self._lease = Lease(None if store.database.exclusive else LEASE_MS)
        self.attachments = AttachmentFiles(settings.home)
        self.uploads = Uploads(store, self.attachments, clock, settings.max_file_bytes)
        self._tasks: list[asyncio.Task[None]] = []
        self._failures = FailureLog(log)
        self._menus_published: set[str] = set()  # platforms that show the menu of commands
        self.access = access = Access(settings, store)
        self.connections = connections = Connections(adapters, self._start_platform)
        silent = [adapter.name for adapter in adapters if not settings.platform(adapter.name).banner]
        self.notices = TransientNotices(connections.connected, silent)
        self.slots = RecoverySlots(
            settings.recovery.concurrency,
            one_at_a_time=started.unclean_in_a_row >= SERIAL_AFTER_UNCLEAN_STARTS,
        )
        self.runner = self._make_runner(steady)
        self.inactivity_watch = InactivityWatch(
            self.runner,
            connections.connected,
            _inactivity_limits(settings),
            lease=self._lease,
            clock=clock,
            steady=steady,
            group=group,
        )
        self.delivery = DeliveryLoop(
            store,
            self._run,
            connections.connected,
            lease=self._lease,
            clock=clock,
            steady=steady,
            unknown_choice=settings.delivery.unknown,
            max_age_ms=int(settings.delivery.max_age * 1000),
            attachments=self.attachments,
            publish_change=feed.publish,
            group=group,
        )
        self.fetcher = AttachmentFetcher(
            store,
            self._run,
            connections.connected,
            self.attachments,
            max_bytes=settings.max_file_bytes,
            clock=clock,
            steady=steady,
            wake_runner=self._wake_runner,
            group=group,
        )
        self.command_cleanup = CommandCleanup(store, settings.home / "keepers", clock)
        self.process_watcher = ProcessWatcher(
            store,
            settings.home / "keepers",
            self._run,
            access=access,
            clock=clock,
            wake_runner=self._wake_runner,
            group=group,
        )
        agents.bind_process_records(StoredProcessRecords(store, self._run, clock, self.process_watcher))
        self.eraser = Eraser(store, settings.home, clock, self._stop_attempt)
        self._retention = RetentionLoop(self.eraser, settings.retention.age, self.uploads.sweep)
        self.recoverer = self._make_recoverer(started)
        self.commands = self._make_commands()
        self._message_expiry = MessageExpiry(store, settings.queue_rules, clock, self._publish_and_wake_delivery)
        self._intake = Intake(
            store,
            settings,
            access,
            clock,
            self._wake_for_message,
            self._publish_and_wake_delivery,
            self.command_cleanup.wake,
            group,
        )

    def _make_runner(self, steady: Clock) -> TurnRunner:
        return TurnRunner(
            self._store,
            self._agents.agent_for,
            self._run,
            lease=self._lease,
            clock=self._clock,
            steady=steady,
            connected=self.connections.connected,
            max_length=self.connections.max_length,
            max_tokens=self._settings.recovery.max_tokens,
            approval_ms=int(self._settings.tools.approval_expires * 1000),
            freshness_ms=int(self._settings.recovery.freshness * 1000),
            rules=self._settings.queue_rules,
            attachments=self.attachments,
            slots=self.slots,
            wake_cleanup=lambda: self.command_cleanup.wake(),  # it may have left a command behind
            publish_change=self._feed.publish,
            wake_delivery=self._publish_and_wake_delivery,
            group=self._group,
        )

    def _make_recoverer(self, started: RunStart) -> Recoverer:
        return Recoverer(
            self._store,
            started,
            self.runner,
            limits=RecoveryLimits(self._policy, int(self._settings.tools.approval_expires * 1000)),
            slots=self.slots,
            access=self.access,
            clock=self._clock,
            served={adapter.name for adapter in self._adapters},
            has_running_command=self.command_cleanup.has_running_command,
            connected=self.connections.connected,
            max_length=self.connections.max_length,
            wake_delivery=self._publish_and_wake_delivery,
            group=self._group,
        )

    def _make_commands(self) -> CommandLoop:
        return CommandLoop(
            self._store,
            self._run,
            self.runner,
            self._control,
            self.access,
            clock=self._clock,
            goal_turns=self._settings.goal.max_turns,
            max_background_sessions=self._settings.background.at_once,
            rules=self._settings.queue_rules,
            max_length=self.connections.max_length,
            wake_delivery=self._publish_and_wake_delivery,
        )

    async def start(self) -> None:
        """Mark lost turns and obey old commands, before anything is connected; then let everything move."""
        for step in (
            self._mark_lost,
            self._message_expiry.sweep,
            partial(self.access.reject_unauthorised, self._clock),
            self.commands.catch_up,
            self.process_watcher.catch_up,
        ):
            await self._failures.retry("start_delayed", step)
        for adapter in self._adapters:
            self._start_loop(partial(self.connections.keep_connected, adapter, self._intake.accept))
        for loop in (
            self._agents.run,
            self.command_cleanup.run,
            self.process_watcher.run,
            self.runner.run,
            self.delivery.run,
            self.fetcher.run,
            self.commands.run,
            self.inactivity_watch.run,
            self._retention.run,
            self._message_expiry.run,
            self._run_heartbeat,
        ):
            self._start_loop(loop)

    async def _mark_lost(self) -> None:
        self.recoverer.pause_if_crashing(await self.recoverer.mark_lost(InterruptionReason.RESTART_INTERRUPTED))

    async def drain(self, reason: InterruptionReason, hurry: asyncio.Event) -> None:
        """Come to an orderly end."""
        deadline = self._settings.drain.deadline
        self.recoverer.stop()
        draining = drain(self.runner, self.delivery, self.notices, reason, deadline, hurry)
        await self._failures.contain("not_drained", draining)
        for task in self._tasks:
            task.cancel()
        self.process_watcher.stop()
        self.fetcher.stop()
        await self._intake.wait_until_idle(INTAKE_FLUSH_SECONDS)

    def _start_task(self, work: Coroutine[None, None, None]) -> None:
        self._tasks.append(self._group.create_task(work))

    def _start_loop(self, loop: Callable[[], Coroutine[None, None, None]]) -> None:
        self._tasks.append(self._group.run_loop(loop))

    async def _stop_attempt(self, turn: str) -> None:
        """End the attempt at a turn that was ended by somebody else, and wait until it has ended."""
        over = self.runner.end_event(turn)
        self.runner.stop_attempt(turn)
        await over.wait()

    # ── who wakes whom ──────────────────────────────────────────────────────────────────────────────────────

    def wake_delivery(self, key: str) -> None:
        """Say that something is owed to the chat of a key."""
        self._publish_and_wake_delivery(key)

    def publish_all(self) -> None:
        """Say to everybody who follows a chat that the gateway stands differently."""
        self._feed.publish_all()

    def _publish_and_wake_delivery(self, key: str) -> None:
        self._feed.publish(key)
        self.delivery.wake()

    def _wake_runner(self, key: str) -> None:
        """There is news of a process: a turn for it, or a notice."""
        self._publish_and_wake_delivery(key)
        self.runner.wake(key)

    def _wake_for_message(self, stored: Stored, inbound: Inbound, is_command: bool) -> None:
        match stored.fate:
            case Fate.FULL:
                self._publish_and_wake_delivery(stored.key)
            case Fate.EXPIRED:
                self._message_expiry.wake()
            case _:
                self._wake_for_accepted(stored, inbound, is_command)

    def _wake_for_accepted(self, stored: Stored, inbound: Inbound, is_command: bool) -> None:
        self._feed.publish(parent_session_key(stored.key))
        if stored.ended is not None:
            self.runner.stop_attempt(stored.ended)
        if is_command:
            self.commands.wake()
            return
        self.slots.prioritise(stored.key)
        self.runner.wake(stored.key)
        if inbound.attachments:
            self.fetcher.wake()
        if stored.quiet:
            self.runner.wake_after_quiet(stored.key)
        if self._control.stopping is not None and stored.fate is Fate.WAITS:
            restart = self._control.stopping is InterruptionReason.RESTART_TIMEOUT
            self.notices.notify(inbound.address, texts.recovery.message_stored(restart=restart))

    async def _start_platform(self, platform: str) -> None:
        """A platform is there: its owed replies go first, then its recoveries; nobody waits for either."""
        self.delivery.wake()
        self.fetcher.wake()
        self._start_task(self._publish_menu(platform))
        self._start_task(self._recover(platform))

    async def _publish_menu(self, platform: str) -> None:
        """Let the platform show which commands there are, once. One that fails to works without."""
        adapter = self.connections.connected.get(platform)
        if adapter is None or platform in self._menus_published:
            return
        self._menus_published.add(platform)
        commands = self.commands.registry.values()
        menu = [MenuEntry(each.name, each.usage, each.summary) for each in commands]
        if not await self._failures.contain("menu_not_published", adapter.menu(menu), platform=platform):
            self._menus_published.discard(platform)  # it is tried again with the next connection

    async def _recover(self, platform: str) -> None:
        await self._failures.contain(
            "replies_not_awaited", self.delivery.flush(OUTBOX_FIRST_SECONDS, platform), platform=platform
        )
        if not await self._failures.contain(
            "recovery_postponed", self.recoverer.recover(platform), platform=platform
        ):
            self.recoverer.decisions_incomplete = True  # the next heartbeat tries again

    def _policy(self, address: Address) -> RecoveryPolicy:
        recovery = self._settings.recovery
        return RecoveryPolicy(
            policy=self._settings.recovery_policy(address.platform, address.chat),
            freshness_ms=int(recovery.freshness * 1000),
            max_without_progress=recovery.max_without_progress,
            max_interruptions=recovery.max_interruptions,
            max_tokens=recovery.max_tokens,
        )

    async def _run_heartbeat(self) -> None:
        """Say that we are alive, and take over from those who are not."""
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            if await self._failures.contain("heartbeat_missed", self._record_heartbeat()):
                await self._failures.contain("not_taken_over", self._take_over_dead_runs())

    async def _record_heartbeat(self) -> None:
        asked_at = time.clock_gettime(time.CLOCK_BOOTTIME)
        if not await self._store.runs.record_heartbeat(self._run):
            raise RunEnded(f"run {self._run} was declared dead by another gateway")
        self._lease.renew(asked_at)

    async def _take_over_dead_runs(self) -> None:
        """Take over from gateways that have died, and try again what failed before."""
        self.recoverer.takeover_incomplete |= bool(await self._store.runs.reap(self._run))
        if self.recoverer.takeover_incomplete:
            await self.recoverer.mark_lost(InterruptionReason.LEASE_LOST)
            self.recoverer.decisions_incomplete = True
        if self.recoverer.decisions_incomplete:
            await self.recoverer.recover()


def _inactivity_limits(settings: Settings) -> InactivityLimits:
    turn = settings.turn
    seconds = (settings.notify.still_working, turn.inactivity_warning, turn.inactivity_limit)
    return InactivityLimits(*(int(length * 1000) for length in seconds))

"""Makes the loops of a running gateway, starts them in order, and stops them."""

from __future__ import annotations

import asyncio
from functools import partial

from perdure.config import Settings
from perdure.core.address import Address
from perdure.core.inactivity import InactivityLimits
from perdure.core.recovery.decision import InterruptionReason, RecoveryPolicy, resumes_one_at_a_time
from perdure.logs import Log
from perdure.platforms.api import Adapter
from perdure.runtime.access import Access
from perdure.runtime.agent_factory import AgentFactory
from perdure.runtime.attachment_cache import AttachmentCache
from perdure.runtime.attachments import AttachmentFetcher, FileLimits, Uploads
from perdure.runtime.attempt import TurnLimits
from perdure.runtime.attempt_stops import AttemptStops
from perdure.runtime.command_cleanup import CommandCleanup
from perdure.runtime.commands.loop import CommandLoop
from perdure.runtime.commands.registry import CommandLimits
from perdure.runtime.commands.spec import GatewayControl
from perdure.runtime.delivery import DeliveryLoop, DeliveryRules
from perdure.runtime.drain import TransientNotices, drain
from perdure.runtime.erasure import Eraser, RetentionLoop
from perdure.runtime.gateway_run import GatewayRun
from perdure.runtime.heartbeat import Heartbeat
from perdure.runtime.inactivity_watch import InactivityWatch
from perdure.runtime.instance import load_instance
from perdure.runtime.intake import Intake, MessageRouter
from perdure.runtime.message_expiry import MessageExpiry
from perdure.runtime.platform_start import PlatformStart
from perdure.runtime.process_records import StoredProcessRecords
from perdure.runtime.process_relay import ProcessRelayLoop
from perdure.runtime.process_watcher import ProcessWatcher
from perdure.runtime.receiving import EventReceiver
from perdure.runtime.recovery import Recoverer, RecoveryLimits
from perdure.runtime.recovery_slots import RecoverySlots
from perdure.runtime.runner import TurnRunner
from perdure.runtime.tasks import FailureLog, TaskSet
from perdure.runtime.wakeup_relay import WakeupRelay
from perdure.store.runs import RunStart

log = Log("wiring")

RELEASE_SECONDS = 2.0  # for recording that this run drains; without it, its chats are free when it has ended
INTAKE_FLUSH_SECONDS = 2.0  # for storing events that were handed over when everything else had ended


class Loops:
    """The loops of a running gateway, and what they share."""

    def __init__(
        self,
        settings: Settings,
        run: GatewayRun,
        started: RunStart,
        agents: AgentFactory,
        adapters: list[Adapter],
        control: GatewayControl,
    ) -> None:
        store, clock, self.wakeups = run.store, run.clocks.wall, run.wakeups
        self._settings = settings
        self._run = run
        self._adapters = adapters
        self._agents = agents
        self._tasks = TaskSet(run.tasks)
        self._failures = FailureLog(log)
        self.connections = run.connections
        self._relay = WakeupRelay(run, run.hints) if run.hints is not None else None
        if self._relay is not None:
            run.wakeups.relay = self._relay
        instance = load_instance(settings.home).id
        self.attachments = AttachmentCache(store, settings, run.id, instance)
        self.uploads = Uploads(store, self.attachments, clock, settings.max_file_bytes)
        self.access = Access(settings, store)
        silent = [adapter.name for adapter in adapters if not settings.platform(adapter.name).banner]
        self.notices = TransientNotices(run.connections.connected, silent, run.wakeups.relay)
        self.slots = RecoverySlots(
            settings.recovery.concurrency,
            one_at_a_time=resumes_one_at_a_time(started.unclean_in_a_row),
        )
        self.runner = TurnRunner(
            run, agents.agent_for, _turn_limits(settings), self.attachments, self.slots, self.access
        )
        self.inactivity_watch = InactivityWatch(run, self.runner, _inactivity_limits(settings))
        self.delivery = DeliveryLoop(run, _delivery_rules(settings), self.attachments)
        file_limits = FileLimits(settings.max_file_bytes, settings.attachments.max_per_chat * 1_000_000)
        self.fetcher = AttachmentFetcher(run, self.attachments, file_limits)
        self.command_cleanup = CommandCleanup(run, settings.home / "keepers")
        self.process_watcher = ProcessWatcher(run, settings.home / "keepers", self.access)
        self._process_relay = ProcessRelayLoop(run, self.process_watcher)
        agents.tools.bind_process_records(StoredProcessRecords(store, run.id, clock, self.process_watcher))
        agents.tools.bind_attachments(self.attachments)
        self.attempt_stops = AttemptStops(run, self.runner, self.command_cleanup, self._relay)
        self.eraser = Eraser(store, settings.home, clock, self._stop_attempt)
        self._retention = RetentionLoop(self.eraser, settings.retention.age, self.uploads.sweep)
        self.recoverer = Recoverer(
            run,
            started,
            self.runner,
            limits=RecoveryLimits(self._policy, int(settings.tools.approval_expires * 1000)),
            slots=self.slots,
            access=self.access,
            has_running_command=self.command_cleanup.has_running_command,
        )
        self.heartbeat = Heartbeat(run, self.recoverer, settings.store.lease, control.drain)
        self.commands = CommandLoop(run, self.runner, control, self.access, _command_limits(settings))
        self._message_expiry = MessageExpiry(run, settings.queue_rules, int(settings.delivery.max_age * 1000))
        self._router = MessageRouter(run.wakeups, self.runner, self.slots, self.notices, control)
        self._intake = Intake(run, settings, self.access, self._router)
        self._receivers = [EventReceiver(run, adapter, self._intake.accept) for adapter in adapters]
        self._platform_start = PlatformStart(
            run, self.delivery, self.recoverer, self.commands.registry.values(), self._tasks
        )

    async def start(self) -> None:
        """Mark lost turns and carry out old commands before anything is connected; then start every loop."""
        for step in (
            self._mark_lost,
            self._message_expiry.sweep,
            partial(self.access.reject_unauthorised, self._run.clocks.wall),
            self.commands.catch_up,
            self.process_watcher.catch_up,
        ):
            await self._failures.retry("start_delayed", step)
        connect, start_platform = self.connections.keep_connected, self._platform_start.start
        for adapter, receiver in zip(self._adapters, self._receivers, strict=True):
            self._tasks.run_loop(partial(connect, adapter, receiver.receive, start_platform))
        for loop in (
            self._agents.tools.run,
            self.command_cleanup.run,
            self.process_watcher.run,
            self._process_relay.run,
            self.runner.run,
            self.delivery.run,
            self.fetcher.run,
            self.commands.run,
            self.inactivity_watch.run,
            self._retention.run,
            self._message_expiry.run,
            self.heartbeat.run,
            self.heartbeat.take_over,
            *((self._relay.listen, self._relay.send) if self._relay is not None else ()),
        ):
            self._tasks.run_loop(loop)

    async def _mark_lost(self) -> None:
        self.recoverer.pause_if_crashing(await self.recoverer.mark_lost(InterruptionReason.RESTART_INTERRUPTED))

    async def drain(self, reason: InterruptionReason, hurry: asyncio.Event) -> None:
        """End the running turns in order, then every loop."""
        deadline = self._settings.drain.deadline
        self.recoverer.stop()
        await self._failures.contain("drain_not_recorded", self._release_idle())
        draining = drain(self.runner, self.delivery, self.notices, reason, deadline, hurry)
        handing_over = asyncio.ensure_future(self._hand_receiving_over())  # chats are told of the drain meanwhile
        await self._failures.contain("drain_failed", draining)
        await handing_over
        self._tasks.cancel_all()
        self.process_watcher.stop()
        self.fetcher.stop()
        await self._intake.wait_until_idle(INTAKE_FLUSH_SECONDS)

    async def _release_idle(self) -> None:
        """Let other gateways have the chats in which no turn is open, now and as more turns end."""
        await self.runner.stop_claiming()
        async with asyncio.timeout(RELEASE_SECONDS):
            await self._run.store.runs.start_draining(self._run.id)

    async def _hand_receiving_over(self) -> None:
        """Let other gateways receive, as far as they stand by; no platform waits for a slow one."""

        async def hand_over(receiver: EventReceiver) -> None:
            async with asyncio.timeout(RELEASE_SECONDS):
                await receiver.hand_over()

        contain = self._failures.contain
        await asyncio.gather(*(contain("receiving_not_handed_over", hand_over(each)) for each in self._receivers))

    async def _stop_attempt(self, turn: str, key: str) -> None:
        """Stop the attempt at a turn that somebody else has ended, wherever it runs, and wait for its end."""
        await self.attempt_stops.stop(turn, await self._run.store.turns.holder(key))

    def _policy(self, address: Address) -> RecoveryPolicy:
        recovery = self._settings.recovery
        return RecoveryPolicy(
            policy=self._settings.recovery_policy(address.platform, address.chat),
            freshness_ms=int(recovery.freshness * 1000),
            max_without_progress=recovery.max_without_progress,
            max_interruptions=recovery.max_interruptions,
            max_tokens=recovery.max_tokens,
        )


def _turn_limits(settings: Settings) -> TurnLimits:
    return TurnLimits(
        settings.recovery.max_tokens,
        approval_ms=int(settings.tools.approval_expires * 1000),
        freshness_ms=int(settings.recovery.freshness * 1000),
        rules=settings.queue_rules,
    )


def _delivery_rules(settings: Settings) -> DeliveryRules:
    return DeliveryRules(settings.delivery.unknown, max_age_ms=int(settings.delivery.max_age * 1000))


def _command_limits(settings: Settings) -> CommandLimits:
    return CommandLimits(settings.goal.max_turns, settings.background.at_once, settings.queue_rules)


def _inactivity_limits(settings: Settings) -> InactivityLimits:
    turn = settings.turn
    seconds = (settings.notify.still_working, turn.inactivity_warning, turn.inactivity_limit)
    return InactivityLimits(*(int(length * 1000) for length in seconds))

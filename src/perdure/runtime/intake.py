"""The intake: stores each event of a platform, and wakes whoever acts on it."""

from __future__ import annotations

import asyncio

import msgspec
from msgspec.structs import replace

from perdure.config import Settings
from perdure.containment import raise_uncontained
from perdure.core import texts
from perdure.core.address import parent_session_key
from perdure.core.commands import read_command
from perdure.core.messages import Inbound, Pick, Stored
from perdure.core.printable_text import printable_line
from perdure.core.queue import Fate
from perdure.core.recovery.decision import InterruptionReason
from perdure.core.storable_text import make_storable, validate_struct
from perdure.errors import NotStored, PerdureError, Unavailable
from perdure.logs import Log
from perdure.platforms.api import Event
from perdure.runtime.access import Access
from perdure.runtime.commands.spec import GatewayControl
from perdure.runtime.drain import TransientNotices
from perdure.runtime.gateway_run import GatewayRun
from perdure.runtime.recovery_slots import RecoverySlots
from perdure.runtime.runner import TurnRunner
from perdure.runtime.session_resets import active_resets
from perdure.runtime.tasks import FailureLog
from perdure.runtime.wakeups import Wakeups
from perdure.store.authorisation import not_allowed_reason
from perdure.store.database import Transaction, Tx
from perdure.store.inbox import InboxKind
from perdure.store.pairings import PairingRefusal, new_code, reject_unknown_person
from perdure.store.session_verbs import renew_if_due

log = Log("intake")


class MessageRouter:
    """Wakes the loops that a stored message concerns."""

    def __init__(
        self,
        wakeups: Wakeups,
        runner: TurnRunner,
        slots: RecoverySlots,
        notices: TransientNotices,
        control: GatewayControl,
    ) -> None:
        self._wakeups = wakeups
        self._runner = runner
        self._slots = slots
        self._notices = notices
        self._control = control

    def route(self, stored: Stored, inbound: Inbound, *, is_command: bool) -> None:
        match stored.fate:
            case Fate.FULL:
                self._wakeups.wake_delivery(stored.key)
            case Fate.EXPIRED:
                self._wakeups.wake_expiry()
            case _:
                self._route_accepted(stored, inbound, is_command=is_command)

    def _route_accepted(self, stored: Stored, inbound: Inbound, *, is_command: bool) -> None:
        self._wakeups.publish(parent_session_key(stored.key))
        if stored.ended is not None:
            self._runner.stop_attempt(stored.ended)
        if is_command:
            self._wakeups.wake_commands()
            return
        self._slots.prioritise(stored.key)
        self._wakeups.wake_runner(stored.key)
        if inbound.attachments:
            self._wakeups.wake_attachments()
        if stored.quiet:
            self._wakeups.wake_runner_after_quiet(stored.key)
        self._notify_while_stopping(stored, inbound)

    def _notify_while_stopping(self, stored: Stored, inbound: Inbound) -> None:
        """Tell the sender, while the gateway stops, that the message is stored and answered after the start."""
        if self._control.stopping is not None and stored.fate is Fate.WAITS:
            restart = self._control.stopping is InterruptionReason.RESTART_TIMEOUT
            self._notices.notify(inbound.address, texts.recovery.message_stored(restart=restart))


MAX_CONCURRENT_EVENTS = 256
MAX_SENDER_NAME_CHARACTERS = 200


class Intake:
    """Stores the events of platforms. Many at once share a commit, and those of one session keep their order."""

    def __init__(self, run: GatewayRun, settings: Settings, access: Access, router: MessageRouter) -> None:
        self._run = run
        self._store = run.store
        self._clock = run.clocks.wall
        self._pairs = settings.access.unknown == "pair"
        self._session = settings.session
        self._rules = settings.queue_rules
        self._freshness_ms = int(settings.recovery.freshness * 1000)
        self._agent = settings.agent.name
        self._authorisation = access.authorisation
        self._router = router
        self._failures = FailureLog(log)
        self._permits = asyncio.Semaphore(MAX_CONCURRENT_EVENTS)
        self._tasks: set[asyncio.Task[None]] = set()

    async def accept(self, event: Event) -> None:
        """Begin to store an event; return at once unless very many events are being stored."""
        await self._permits.acquire()
        task = self._run.tasks.create_task(self._store_and_acknowledge(event))
        self._tasks.add(task)
        task.add_done_callback(self._release_permit)

    def _release_permit(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._permits.release()

    async def wait_until_idle(self, timeout_seconds: float) -> None:
        """Wait, up to the timeout, until the events under way are stored and acknowledged."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_seconds)

    async def _store_and_acknowledge(self, event: Event) -> None:
        """Store one event and tell its platform. A failure concerns this event alone, which may come again."""
        try:
            stored = await self._store_event(event)
        except BaseException as error:  # noqa: BLE001 reason: whatever it is, only this event is concerned
            raise_uncontained(error)
            self._failures.report("not_received", error, event_key=event.key)
            telling = self._report_problem(
                event, error if isinstance(error, Unavailable) else NotStored(texts.platforms.EVENT_NOT_STORED)
            )
        else:
            telling = self._acknowledge(event, stored)
        # What the platform was not told, it hands over again, and we know it.
        await self._failures.contain("event_not_acknowledged", telling, event_key=event.key)

    async def _report_problem(self, event: Event, problem: PerdureError) -> None:
        await event.fail(problem)

    async def _acknowledge(self, event: Event, stored: Stored | None) -> None:
        await event.ack(stored)

    async def _store_event(self, event: Event) -> Stored | None:
        event = _clean_event(event)
        inbound, problem = event.inbound, event.problem
        if inbound is None or problem is not None:
            await self._store.inbox.reject(event.key, event.raw, problem or "not understood", self._clock())
            log.warning("rejected", event_key=event.key, problem=problem)
            return None
        if inbound.pick is not None:
            return await self._answer_by_button(event, inbound, inbound.pick)
        changes = inbound.kind in ("edit", "delete")
        return await (self._apply_edit(event, inbound) if changes else self._receive(event, inbound))

    async def _answer_by_button(self, event: Event, inbound: Inbound, pick: Pick) -> Stored | None:
        """Let a pressed button answer the question under which it stands; a closed question stays as it is."""
        key, now = self._usual_key(inbound), self._clock()
        refuse = self._refuse_unknown_person(event, inbound, key, now)
        stored = await self._store.answers.answer_by_button(
            inbound,
            pick,
            event.raw,
            key,
            now,
            resolve_key=self._resolve_key(inbound),
            refuse=refuse,
            may_join=self._authorisation.may_join,
        )
        if not isinstance(stored, Stored):
            self._report_refusal(event, inbound, key, stored)
            return None
        log.info("pressed", message=stored.message, key=stored.key, fate=stored.fate)
        if stored.fresh:
            self._router.route(stored, inbound, is_command=False)
        return stored

    async def _apply_edit(self, event: Event, inbound: Inbound) -> Stored:
        """Apply an edit or a deletion to the message that it names, if that message still waits."""
        key, now = self._usual_key(inbound), self._clock()
        stored = await self._store.queue.amend(
            inbound, event.raw, key, now, resolve_key=self._resolve_key(inbound), rules=self._rules
        )
        log.info("amended", message=stored.message, key=stored.key, fate=stored.fate)
        if stored.fresh:
            is_command = inbound.kind == "edit" and read_command(inbound.text) is not None
            self._router.route(stored, inbound, is_command=is_command)
        return stored

    async def _receive(self, event: Event, inbound: Inbound) -> Stored | None:
        key, now = self._usual_key(inbound), self._clock()
        is_command = read_command(inbound.text) is not None
        kind: InboxKind = "command" if is_command else "message"
        renewed: list[str] = []
        stored = await self._store.inbox.receive_if_allowed(
            inbound,
            event.raw,
            key,
            now,
            kind,
            resolve_key=self._resolve_key(inbound),
            prepare=lambda there: self._reset_if_due(there, now, renewed) if not is_command else _do_nothing,
            refuse=self._refuse_unknown_person(event, inbound, key, now),
            rules=self._rules,
        )
        for there in renewed:
            self._run.wakeups.wake_delivery(there)
            self._run.wakeups.wake_cleanup()
        if not isinstance(stored, Stored):
            self._report_refusal(event, inbound, key, stored)
            return None
        if stored.fresh:
            log.info("received", message=stored.message, key=stored.key, kind=kind, fate=stored.fate)
            self._router.route(stored, inbound, is_command=is_command)
        return stored

    def _usual_key(self, inbound: Inbound) -> str:
        """Return the key that a message belongs to, unless its sender is a guest."""
        return self._authorisation.usual_key(self._agent, inbound.address, inbound.sender)

    def _resolve_key(self, inbound: Inbound) -> Transaction[str | None]:
        """Return the transaction that finds the key of a message; its None: the sender may not talk."""
        return self._authorisation.resolve_key(self._agent, inbound.address, inbound.sender)

    def _refuse_unknown_person(
        self, event: Event, inbound: Inbound, key: str, now: int
    ) -> Transaction[PairingRefusal]:
        """Return the transaction that rejects an unknown person's message, or begins a pairing."""
        asks = self._pairs and inbound.address.kind == "dm" and inbound.kind == "message"
        problem = not_allowed_reason(inbound.sender)
        make_code = new_code if asks else None
        return reject_unknown_person(event.key, event.raw, inbound, key, problem, make_code=make_code)

    def _report_refusal(self, event: Event, inbound: Inbound, key: str, refusal: PairingRefusal) -> None:
        log.warning("rejected", event_key=event.key, problem=not_allowed_reason(inbound.sender), told=refusal)
        if refusal == "told":
            self._run.wakeups.wake_delivery(key)
        elif refusal == "full":
            log.warning("too_many_pairing_requests", platform=inbound.address.platform, person=inbound.sender.id)

    def _reset_if_due(self, key: str, now: int, renewed: list[str]) -> Transaction[object]:
        """Return the transaction that begins a fresh session if a reset is due, and adds its key to `renewed`."""
        rules = active_resets(self._session, now)
        if not rules:
            return _do_nothing
        renew = renew_if_due(key, rules, self._freshness_ms)

        def transaction(tx: Tx) -> None:
            if renew(tx) is not None:
                renewed.append(key)

        return transaction


def _do_nothing(_: Tx) -> None: ...


def _with_harmless_name(inbound: Inbound) -> Inbound:
    """Return the message with its sender's name as one short line, as notices, lists and prompts show it."""
    name = printable_line(inbound.sender.name)[:MAX_SENDER_NAME_CHARACTERS]
    return inbound if name == inbound.sender.name else replace(inbound, sender=replace(inbound.sender, name=name))


def _clean_event(event: Event) -> Event:
    """Return the event with storable texts; if a field has a wrong type, with a problem and no content."""
    inbound, problem = event.inbound, event.problem
    try:
        inbound = _with_harmless_name(validate_struct(inbound)) if inbound is not None else None
    except (msgspec.MsgspecError, TypeError, AttributeError, RecursionError) as error:
        inbound, problem = None, texts.platforms.unreadable_event(str(error))
    return replace(
        event,
        raw=make_storable(str(event.raw)),
        key=make_storable(str(event.key)),
        inbound=inbound,
        problem=problem,
    )

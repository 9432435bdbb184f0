"""Delivery: takes the first due row of every lane from the outbox, sends it, and records the outcome."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from perdure.containment import raise_uncontained
from perdure.core import texts
from perdure.core.delivery import (
    RESOLUTION_REMARKS,
    DeliveryState,
    Resolution,
    UnknownSendPolicy,
    resolve_unknown_send,
    retry_delay_ms,
    split_reply,
)
from perdure.core.messages import LocalFile, Outbound, Receipt, SentFile
from perdure.errors import NotConnected, SendRefused, SendRetry, Unavailable
from perdure.logs import Log
from perdure.platforms.api import Adapter, Capabilities
from perdure.runtime.backoff import Backoff, retry_while_unavailable
from perdure.runtime.clocks import DueTimes
from perdure.runtime.gateway_run import GatewayRun
from perdure.runtime.tasks import FailureLog
from perdure.runtime.wakeups import POLL_SECONDS, STORE_RETRY_SECONDS
from perdure.store.outbox import OutboxDelivery, OutboxReply
from perdure.store.outbox_verbs import split_notice
from perdure.tools.attachments import AttachmentFiles

send_log = Log("delivery_send")

DISCONNECTED_RETRY_MS = 1_000  # between tries while the platform cannot be reached


class DeliverySent(Struct, frozen=True):
    """The platform has the message."""

    receipt: str
    resolved: str | None = None  # how the unknown outcome of an earlier send was resolved


class DeliveryPostponed(Struct, frozen=True):
    """Nothing was sent, and the row is to be sent later."""

    due_at: int
    problem: str
    counts: bool  # whether the try used up an attempt
    disconnected: bool = False  # the platform could not be reached


class DeliveryUnknown(Struct, frozen=True):
    """Nobody knows whether the message arrived."""

    due_at: int
    problem: str


class DeliveryRefused(Struct, frozen=True):
    """The platform will never take the message as it is."""

    problem: str


DeliveryOutcome = DeliverySent | DeliveryPostponed | DeliveryUnknown | DeliveryRefused


class DeliverySend:
    """One row on its way to its platform."""

    def __init__(
        self,
        run: GatewayRun,
        adapter: Adapter,
        row: OutboxDelivery,
        attachments: AttachmentFiles,
        failures: FailureLog,
    ) -> None:
        self._run = run
        self._store = run.store
        self._clock = run.clocks.wall
        self._adapter = adapter
        self.row = row
        self._attachments = attachments
        self._failures = failures

    async def resend(self, how: Resolution) -> Receipt:
        """Send a row that may have arrived before, unless the platform finds it."""
        adapter, row = self._adapter, self.row
        if how is Resolution.READ_BACK and (found := await adapter.find_sent(row.delivery_key)) is not None:
            return found
        text = texts.delivery.maybe_duplicate(row.text) if how is Resolution.RESEND else row.text
        return await self.send_or_edit(text)

    async def send_or_edit(self, text: str | None = None) -> Receipt:
        """Send the row, or edit the message whose place it takes; an edit may be made twice."""
        adapter, row = self._adapter, self.row
        text = row.text if text is None else text
        file = row.sent_file
        if file is not None:
            place = self._attachments.find(file.path)
            return await adapter.send(_outbound_with_file(row, text, file, place, adapter.capabilities))
        if row.edits is None:
            return await adapter.send(row.outbound(text))
        receipt = Receipt(row.edits)
        await adapter.edit(receipt, row.outbound(text))
        return receipt

    async def outcome(self, put: Callable[[], Awaitable[Receipt]], resolved: str | None) -> DeliveryOutcome:
        """Let `put` send the row, and return the outcome; after an unexpected error it is unknown."""
        row = self.row
        try:
            return DeliverySent(str((await put()).message), resolved)
        except NotConnected as error:
            return DeliveryPostponed(
                self._clock() + DISCONNECTED_RETRY_MS, error.message, counts=False, disconnected=True
            )
        except SendRetry as error:
            due = max(self._retry_at(), self._clock() + int(error.after * 1000))
            # A platform that names a time is busy, not broken: the wait uses up no attempt.
            return DeliveryPostponed(due, error.message, counts=error.after <= 0)
        except SendRefused as error:
            send_log.warning("refused", row=row.id, lane=row.lane, error=error.message)
            return DeliveryRefused(error.message)
        except BaseException as error:  # noqa: BLE001 reason: after any other error nobody knows whether it was sent
            raise_uncontained(error)
            self._failures.report("outcome_unknown", error, row=row.id, lane=row.lane)
            return DeliveryUnknown(self._retry_at(), str(error))

    def _retry_at(self) -> int:
        return self._clock() + retry_delay_ms(self.row.attempts + 1)

    async def record(self, outcome: DeliveryOutcome) -> None:
        """Record the outcome, however long the store takes. Until then no other row of the lane is sent."""
        row = self.row
        await retry_while_unavailable(lambda: self._store_outcome(outcome))
        if isinstance(outcome, DeliverySent):
            send_log.info("sent", row=row.id, lane=row.lane)
            self._run.wakeups.publish(row.key)

    async def _store_outcome(self, outcome: DeliveryOutcome) -> None:
        row, outbox, now = self.row, self._store.outbox, self._clock()
        match outcome:
            case DeliverySent(receipt, resolved):
                await outbox.record_sent(row, receipt, now, resolved=resolved)
            case DeliveryPostponed(due_at, problem, counts):
                await outbox.retry_later(row, due_at, now, problem=problem, counts=counts)
            case DeliveryUnknown(due_at, problem):
                await outbox.record_unknown(row, due_at, now, problem=problem)
            case DeliveryRefused(problem):
                await self._apply_refusal(problem)

    async def _apply_refusal(self, problem: str) -> None:
        """Send a refused edit as a new message, and a refused file as text; give up any other refused row."""
        row, file, now = self.row, self.row.sent_file, self._clock()
        if row.edits is not None:
            await self._store.outbox.send_as_new_message(row, now, problem=problem)
        elif file is not None:
            place = self._attachments.find(file.path)
            words = texts.files.files_cannot_be_sent_here(row.text, file.name, str(place)) if place else ""
            words = words or texts.files.file_lost_before_sending(row.text, file.name)
            await self._store.outbox.replace_file_with_text(row, words, now, problem=problem)
        else:
            await self._store.outbox.record_refused(row, now, problem=problem)


def _outbound_with_file(
    row: OutboxDelivery, text: str, file: SentFile, path: Path | None, can: Capabilities
) -> Outbound:
    """Return the message with the file; where the file cannot be sent, a text that says where the file is."""
    if path is None:
        return row.outbound(texts.files.file_lost_before_sending(text, file.name))
    if not can.files or (can.max_file is not None and file.size > can.max_file):
        return row.outbound(texts.files.files_cannot_be_sent_here(text, file.name, str(path)))
    return replace(row.outbound(text), file=LocalFile(str(path), file.name, file.media_type, file.size))


log = Log("delivery")


class DeliveryRules(Struct, frozen=True):
    """How replies are delivered, by the configuration."""

    unknown_choice: UnknownSendPolicy  # for a reply that may have arrived, where the platform cannot tell
    max_age_ms: int  # an older reply is not sent


class DeliveryLoop:
    """Sends the rows of the outbox to the connected platforms, the rows of one lane in order."""

    def __init__(self, run: GatewayRun, rules: DeliveryRules, attachments: AttachmentFiles) -> None:
        self._run = run
        self._store = run.store
        self._clock = run.clocks.wall
        self._rules = rules
        self._attachments = attachments
        self.resolved: Counter[Resolution] = Counter()  # unknown sends, by what was done about them
        self._failures = FailureLog(log)
        self._due_times = DueTimes(run.clocks)
        self._backoff = Backoff(run.clocks.steady, first_seconds=STORE_RETRY_SECONDS, max_seconds=POLL_SECONDS)
        self._lanes: dict[str, asyncio.Task[None]] = {}  # sends under way, by lane
        self._finished_rows: set[str] = set()  # rows whose sending has ended since the last look began

    async def run(self) -> None:
        """Send the first open row of every lane, as soon as it is due."""
        while True:
            await self._run.wakeups.delivery.wait(await self._send_due())

    async def flush(self, timeout_seconds: float, platform: str | None = None) -> None:
        """Wait, up to the timeout, until every row that is due has been sent."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._send_due()
                while sending := self._tasks_of_platform(platform):
                    await asyncio.wait(sending, return_when=asyncio.FIRST_COMPLETED)
                    await self._send_due()
        except TimeoutError:
            if self._lanes:
                log.warning("sends_under_way", lanes=len(self._lanes))

    def _tasks_of_platform(self, platform: str | None) -> list[asyncio.Task[None]]:
        return [task for lane, task in self._lanes.items() if platform is None or lane.startswith(f"{platform}:")]

    async def _send_due(self) -> float:
        """Begin to send every row that is due. Returns the seconds until the next look."""
        while True:
            ended = self._finished_rows = set()
            try:
                heads = await self._store.outbox.lane_heads(self._run.id, list(self._run.connections.connected))
            except Unavailable as error:
                log.warning("outbox_not_read", error=error.message)
                return POLL_SECONDS
            wait = self._begin_due([row for row in heads if row.id not in ended])
            if not ended:  # otherwise other rows may be first in their lanes by now
                return wait

    def _begin_due(self, heads: Sequence[OutboxDelivery]) -> float:
        wait, names = POLL_SECONDS, {row.id for row in heads}
        self._due_times.forget_all_but(names)
        self._backoff.forget_all_but(names)
        for row in heads:
            if row.lane in self._lanes:
                continue
            if left := max(
                self._due_times.remaining_ms(row.id, row.due_at, row.delay_ms), self._backoff.remaining_ms(row.id)
            ):
                wait = min(wait, left / 1000)
                continue
            self._lanes[row.lane] = self._run.tasks.create_task(self._deliver(row))
        return wait

    async def _deliver(self, row: OutboxDelivery) -> None:
        try:
            await self._failures.contain("not_sent", self._deliver_with_backoff(row), row=row.id, lane=row.lane)
        finally:
            del self._lanes[row.lane]
            self._finished_rows.add(row.id)
            self._run.wakeups.delivery.wake()

    async def _deliver_with_backoff(self, row: OutboxDelivery) -> None:
        progress = False
        try:
            adapter = self._run.connections.connected.get(row.address.platform)
            if adapter is None:
                raise Unavailable("the platform is not connected any more")
            progress = await self._resolve_or_send(row, adapter)
        finally:
            (self._backoff.succeeded if progress else self._backoff.failed)(row.id)

    async def _resolve_or_send(self, row: OutboxDelivery, adapter: Adapter) -> bool:
        """Move the row by one state. False: its state has not changed."""
        now = self._clock()
        if row.state is DeliveryState.SENDING:
            return await self._mark_unknown(row)
        if now - row.created_at > self._rules.max_age_ms:
            return await self._expire(row, now)
        if row.state is not DeliveryState.UNKNOWN:
            row = await self._split_notice(row, adapter)
            send = DeliverySend(self._run, adapter, row, self._attachments, self._failures)
            return await self._send(send, send.send_or_edit)
        can = adapter.capabilities
        how = resolve_unknown_send(
            idempotent=can.idempotent_send or row.edits is not None,
            read_back=can.read_back,
            policy=self._rules.unknown_choice,
        )
        self.resolved[how] += 1
        if how is Resolution.DROP:
            return await self._drop(row, now)
        send = DeliverySend(self._run, adapter, row, self._attachments, self._failures)
        return await self._send(send, lambda: send.resend(how), RESOLUTION_REMARKS[how])

    async def _mark_unknown(self, row: OutboxDelivery) -> bool:
        """Mark a row as unknown that is `sending` though no task of this run sends it: that task has died.

        The lease of its session is ours, so the sender was this run, or a run that is dead.
        """
        log.warning("sending_abandoned", row=row.id, lane=row.lane)
        due_at = self._clock() + retry_delay_ms(row.attempts + 1)
        return await self._store.outbox.record_unknown(
            row, due_at, self._clock(), problem=texts.delivery.INTERNAL_ERROR
        )

    async def _split_notice(self, row: OutboxDelivery, adapter: Adapter) -> OutboxDelivery:
        """Return the row, or its first part: a notice may be longer than a message of its platform."""
        notice = row.turn is None and row.edits is None
        parts = split_reply(row.text, adapter.capabilities.max_length) if notice else []
        if len(parts) < 2 or not await self._store.outbox.execute_verb(
            row.key, split_notice(row, parts), at=self._clock()
        ):
            return row
        return replace(row, text=parts[0], buttons=None)

    async def _send(
        self, send: DeliverySend, put: Callable[[], Awaitable[Receipt]], resolved: str | None = None
    ) -> bool:
        """Record that the row is about to be sent, send it, and record the outcome.

        False: the row has not changed, because another run has its lease or its platform cannot be reached.
        """
        if not await self._store.outbox.start_sending(send.row, self._run.id, self._clock()):
            return False
        await self._run.lease.wait_until_valid()
        outcome = await send.outcome(put, resolved)
        await send.record(outcome)
        return not (isinstance(outcome, DeliveryPostponed) and outcome.disconnected)

    async def _expire(self, row: OutboxDelivery, now: int) -> bool:
        """Give up a row that is too old; if it was an answer, tell the chat."""
        notice = (
            OutboxReply(row.address, f"{row.reply}.expired", (texts.delivery.REPLY_EXPIRED,)) if row.turn else None
        )
        log.warning("expired", row=row.id, lane=row.lane)
        return await self._store.outbox.expire(row, now, problem="too old to send", notice=notice)

    async def _drop(self, row: OutboxDelivery, now: int) -> bool:
        notice = OutboxReply(row.address, f"{row.reply}.dropped", (texts.delivery.REPLY_DROPPED,))
        log.warning("dropped", row=row.id, lane=row.lane)
        return await self._store.outbox.expire(
            row, now, problem=RESOLUTION_REMARKS[Resolution.DROP], notice=notice
        )

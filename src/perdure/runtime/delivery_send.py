"""Sends one row of the outbox to its platform, and records the outcome."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from perdure.containment import raise_uncontained
from perdure.core import texts
from perdure.core.delivery import (
    Resolution,
    retry_delay_ms,
)
from perdure.core.messages import LocalFile, Outbound, Receipt, SentFile
from perdure.errors import NotConnected, SendRefused, SendRetry
from perdure.logs import Log
from perdure.platforms.api import Adapter, Capabilities
from perdure.runtime.backoff import retry_while_unavailable
from perdure.runtime.gateway_run import GatewayRun
from perdure.runtime.tasks import FailureLog
from perdure.store.outbox import OutboxDelivery
from perdure.tools.attachments import AttachmentFiles

log = Log("delivery_send")

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
            log.warning("refused", row=row.id, lane=row.lane, error=error.message)
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
            log.info("sent", row=row.id, lane=row.lane)
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

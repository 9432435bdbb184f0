"""The delivery loop: takes the first due row of every lane from the outbox and has it sent."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

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
from perdure.core.messages import Receipt
from perdure.errors import Unavailable
from perdure.logs import Log
from perdure.platforms.api import Adapter
from perdure.runtime.backoff import Backoff
from perdure.runtime.clocks import DueTimes
from perdure.runtime.delivery_send import DeliveryPostponed, DeliverySend
from perdure.runtime.gateway_run import GatewayRun
from perdure.runtime.tasks import FailureLog
from perdure.runtime.wakeups import POLL_SECONDS, STORE_RETRY_SECONDS
from perdure.store.outbox import OutboxDelivery, OutboxReply
from perdure.store.outbox_verbs import split_notice
from perdure.tools.attachments import AttachmentFiles

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
                return self._run.wakeups.poll_seconds
            wait = self._begin_due([row for row in heads if row.id not in ended])
            if not ended:  # otherwise other rows may be first in their lanes by now
                return wait

    def _begin_due(self, heads: Sequence[OutboxDelivery]) -> float:
        wait, names = self._run.wakeups.poll_seconds, {row.id for row in heads}
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

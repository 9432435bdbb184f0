"""From the outbox to the platforms: one lane per address, in order, each message recorded before it is sent."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from perdure.boundary import raise_uncontained
from perdure.core import notes
from perdure.core.delivery import RESOLVED, Delivery, Resolution, UnknownChoice, resolution, retry_in, split
from perdure.core.messages import LocalFile, Outbound, Receipt, SentFile
from perdure.errors import NotConnected, SendRefused, SendRetry, Unavailable
from perdure.logs import Log
from perdure.platforms.api import Adapter, Capabilities
from perdure.runtime.bell import POLL, STORE_PAUSE, Bell
from perdure.runtime.lease import Lease
from perdure.runtime.tasks import Failures, Pauses, Tasks
from perdure.store.api import Store
from perdure.store.dividing import divided
from perdure.store.ids import Clock
from perdure.store.outbox import Delivering, Owed
from perdure.tools.cabinet import Cabinet

log = Log("sender")


class Sender:
    """Sends what is owed to the platforms that are connected."""

    def __init__(
        self,
        store: Store,
        run: str,
        connected: Mapping[str, Adapter],
        *,
        lease: Lease,
        clock: Clock,
        unknown: UnknownChoice,
        max_age_ms: int,
        cabinet: Cabinet,
        sent: Callable[[str], None],
        group: Tasks,
    ) -> None:
        self._store = store
        self._run = run
        self._connected = connected
        self._lease = lease
        self._clock = clock
        self._unknown = unknown
        self._max_age_ms = max_age_ms
        self._cabinet = cabinet
        self._sent = sent
        self._group = group
        self.resolved: Counter[Resolution] = Counter()  # unknown sends, by what was done about them
        self._failures = Failures(log)
        self._pauses = Pauses()  # by lane
        self._bell = Bell()
        self._lanes: dict[str, asyncio.Task[None]] = {}  # what is being sent now, by lane
        self._ended: set[str] = set()  # rows whose sending has ended since the last look began

    def wake(self) -> None:
        self._bell.ring()

    async def work(self) -> None:
        """Send the first open row of every lane, as soon as it is due."""
        while True:
            await self._bell.wait(await self._send_due())

    async def settle(self, at_most: float, platform: str | None = None) -> None:
        """Wait, for a while, until what is being sent has been sent, and what is due behind it."""
        try:
            async with asyncio.timeout(at_most):
                await self._send_due()
                while sending := self._sending_to(platform):
                    await asyncio.wait(sending, return_when=asyncio.FIRST_COMPLETED)
                    await self._send_due()
        except TimeoutError:
            if self._lanes:
                log.warning("sends_under_way", lanes=len(self._lanes))

    def _sending_to(self, platform: str | None) -> list[asyncio.Task[None]]:
        return [task for lane, task in self._lanes.items() if platform is None or lane.startswith(f"{platform}:")]

    async def _send_due(self) -> float:
        """Begin what is due; return in how many seconds to look again."""
        while True:
            ended = self._ended = set()
            try:
                heads = await self._store.outbox.heads(self._run, list(self._connected))
            except Unavailable as error:
                log.warning("cannot_look_for_replies", error=error.message)
                return POLL
            wait = self._begin_due([row for row in heads if row.id not in ended])
            if not ended:  # otherwise others may stand first in their lanes by now
                return wait

    def _begin_due(self, heads: Sequence[Delivering]) -> float:
        now, wait = self._clock(), POLL
        for row in heads:
            if row.lane in self._lanes:
                continue
            if row.due_at > now:
                wait = min(wait, (row.due_at - now) / 1000)
                continue
            self._lanes[row.lane] = self._group.create_task(self._deliver(row))
        return wait

    async def _deliver(self, row: Delivering) -> None:
        try:
            sending = self._deliver_now(row)
            pause = await self._failures.pause_after("not_sent", sending, self._pauses, row.lane, row=row.id)
            if pause:
                await self._failures.contain("not_put_back", self._leave_unknown(row), row=row.id)
                await asyncio.sleep(pause)
        finally:
            del self._lanes[row.lane]
            self._ended.add(row.id)
            self._bell.ring()

    async def _deliver_now(self, row: Delivering) -> None:
        adapter = self._connected.get(row.address.platform)
        if adapter is None:
            raise Unavailable("the platform is not connected any more")
        await self._resolve_or_send(row, adapter)

    async def _leave_unknown(self, row: Delivering) -> None:
        """After a failure nobody knows whether a row was sent whose sending had begun on record."""
        now = self._clock()
        await self._store.outbox.unknown(row, now, now, problem=notes.SENDING_FAILED)

    async def _resolve_or_send(self, row: Delivering, adapter: Adapter) -> None:
        now = self._clock()
        if now - row.created_at > self._max_age_ms:
            await self._expire(row, now)
            return
        if row.state is not Delivery.UNKNOWN:
            row = await self._fitting(row, adapter)
            await self._send(row, adapter, row.text)
            return
        can = adapter.capabilities
        how = resolution(
            idempotent=can.idempotent_send or row.edits is not None, read_back=can.read_back, choice=self._unknown
        )
        self.resolved[how] += 1
        match how:
            case Resolution.SAME_KEY:
                await self._send(row, adapter, row.text, RESOLVED[how])
            case Resolution.READ_BACK:
                receipt = await adapter.find_sent(row.delivery_key)
                if receipt is None:
                    await self._send(row, adapter, row.text, RESOLVED[how])
                else:
                    await self._record(row, receipt, RESOLVED[how])
            case Resolution.RESEND:
                await self._send(row, adapter, notes.maybe_duplicate(row.text), RESOLVED[how])
            case Resolution.DROP:
                await self._drop(row, now)

    async def _fitting(self, row: Delivering, adapter: Adapter) -> Delivering:
        """The row, or its first part: a notice was made by whoever did not know how much its platform takes."""
        notice = row.turn is None and row.edits is None
        parts = split(row.text, adapter.capabilities.max_length) if notice else []
        if len(parts) < 2 or not await self._store.outbox.mend(row.key, divided(row, parts, self._clock())):
            return row
        return replace(row, text=parts[0], buttons=None)

    async def _send(self, row: Delivering, adapter: Adapter, text: str, resolved: str | None = None) -> None:
        if not await self._store.outbox.start(row, self._run, self._clock()):
            return
        outbox = self._store.outbox
        try:
            await self._lease.confirmed()
            receipt = await self._put(adapter, row, text)
        except NotConnected as error:
            due = self._clock() + 1_000
            await outbox.put_back(row, due, self._clock(), problem=error.message, counts=False)
        except SendRetry as error:
            due = self._clock() + max(int(error.after * 1000), retry_in(row.attempts + 1))
            # Who names the time is busy, not broken: waiting for that long uses up no attempt.
            await outbox.put_back(row, due, self._clock(), problem=error.message, counts=error.after <= 0)
        except SendRefused as error:
            log.warning("refused", row=row.id, lane=row.lane, error=error.message)
            await self._take_refusal(row, error.message)
        except BaseException as error:  # noqa: BLE001 reason: after any other error nobody knows whether it was sent
            raise_uncontained(error)
            self._failures.report("outcome_unknown", error, row=row.id, lane=row.lane)
            due = self._clock() + retry_in(row.attempts + 1)
            await outbox.unknown(row, due, self._clock(), problem=str(error))
        else:
            await self._record(row, receipt, resolved)

    async def _take_refusal(self, row: Delivering, problem: str) -> None:
        """What is not taken as it is may be taken as a message of its own, or in words; or else it is dropped."""
        file, now = row.sends, self._clock()
        if row.edits is not None:
            await self._store.outbox.send_instead(row, now, problem=problem)
        elif file is not None:
            place = self._cabinet.find(file.path)
            words = notes.file_left_here(row.text, file.name, str(place)) if place else ""
            words = words or notes.file_lost(row.text, file.name)
            await self._store.outbox.send_words(row, words, now, problem=problem)
        else:
            await self._store.outbox.refuse(row, now, problem=problem)

    async def _record(self, row: Delivering, receipt: Receipt, resolved: str | None = None) -> None:
        """The message is there: say so, however long the store takes. Until then nothing follows it."""
        while True:
            try:
                await self._store.outbox.sent(row, receipt.message, self._clock(), resolved=resolved)
                break
            except Unavailable as error:
                log.warning("waiting_for_store", row=row.id, error=error.message)
                await asyncio.sleep(STORE_PAUSE)
        log.info("sent", row=row.id, lane=row.lane)
        self._sent(row.key)

    async def _expire(self, row: Delivering, now: int) -> None:
        """What is too old is not sent; of an answer the chat is told so, of a notice nothing."""
        notice = Owed(row.address, f"{row.reply}.expired", (notes.EXPIRED_REPLY,)) if row.turn else None
        await self._store.outbox.expire(row, now, problem="too old to send", notice=notice)
        log.warning("expired", row=row.id, lane=row.lane)

    async def _drop(self, row: Delivering, now: int) -> None:
        notice = Owed(row.address, f"{row.reply}.dropped", (notes.DROPPED_REPLY,))
        await self._store.outbox.expire(row, now, problem=RESOLVED[Resolution.DROP], notice=notice)
        log.warning("dropped", row=row.id, lane=row.lane)

    async def _put(self, adapter: Adapter, row: Delivering, text: str) -> Receipt:
        """Send the row, or let it take the place of the message that it edits; an edit may be made twice."""
        file = row.sends
        if file is not None:
            place = self._cabinet.find(file.path)
            return await adapter.send(_with_file(row, text, file, place, adapter.capabilities))
        if row.edits is None:
            return await adapter.send(row.outbound(text))
        receipt = Receipt(row.edits)
        await adapter.edit(receipt, row.outbound(text))
        return receipt


def _with_file(row: Delivering, text: str, file: SentFile, place: Path | None, can: Capabilities) -> Outbound:
    """The file itself, or, where it cannot be sent, words that say where it is."""
    if place is None:
        return row.outbound(notes.file_lost(text, file.name))
    if not can.files or (can.max_file is not None and file.size > can.max_file):
        return row.outbound(notes.file_left_here(text, file.name, str(place)))
    return replace(row.outbound(text), file=LocalFile(str(place), file.name, file.media_type, file.size))

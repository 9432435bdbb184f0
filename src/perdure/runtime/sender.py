"""From the outbox to the platforms: one lane per address, in order, each message recorded before it is sent."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from perdure.boundary import raise_uncontained
from perdure.core import notes
from perdure.core.delivery import RESOLVED, Delivery, Resolution, UnknownChoice, resolution, retry_in, split
from perdure.core.messages import LocalFile, Outbound, Receipt, SentFile
from perdure.errors import NotConnected, SendRefused, SendRetry, Unavailable
from perdure.logs import Log
from perdure.platforms.api import Adapter, Capabilities
from perdure.runtime.bell import POLL, Bell
from perdure.runtime.delays import Backoff, DueTimes
from perdure.runtime.lease import Lease
from perdure.runtime.ledger import patiently
from perdure.runtime.tasks import Failures, Tasks
from perdure.store.api import Store
from perdure.store.dividing import divided
from perdure.store.ids import Clock
from perdure.store.outbox import Delivering, Owed
from perdure.tools.cabinet import Cabinet

log = Log("sender")

AWAY_MS = 1_000  # between tries while the platform cannot be reached


class Sent(Struct, frozen=True):
    """The platform has the message."""

    receipt: str
    resolved: str | None = None  # what was done because nobody knew whether it had arrived before


class Later(Struct, frozen=True):
    """Nothing was sent, and it is to be tried again."""

    due_at: int
    problem: str
    counts: bool  # whether it used up an attempt
    away: bool = False  # the platform could not be reached


class Unknown(Struct, frozen=True):
    """Nobody knows whether the message arrived."""

    due_at: int
    problem: str


class Refused(Struct, frozen=True):
    """The platform will never take it as it is."""

    problem: str


Outcome = Sent | Later | Unknown | Refused


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
        steady: Clock,
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
        self._bell = Bell()
        self._due_times = DueTimes(clock, steady)
        self._backoff = Backoff(steady)
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
        wait, names = POLL, {row.id for row in heads}
        self._due_times.forget_all_but(names)
        self._backoff.forget_all_but(names)
        for row in heads:
            if row.lane in self._lanes:
                continue
            if left := max(self._due_times.left(row.id, row.due_at, row.delay), self._backoff.left(row.id)):
                wait = min(wait, left / 1000)
                continue
            self._lanes[row.lane] = self._group.create_task(self._deliver(row))
        return wait

    async def _deliver(self, row: Delivering) -> None:
        try:
            await self._failures.contain("not_sent", self._deliver_now(row), row=row.id, lane=row.lane)
        finally:
            del self._lanes[row.lane]
            self._ended.add(row.id)
            self._bell.ring()

    async def _deliver_now(self, row: Delivering) -> None:
        progress = False
        try:
            adapter = self._connected.get(row.address.platform)
            if adapter is None:
                raise Unavailable("the platform is not connected any more")
            progress = await self._resolve_or_send(row, adapter)
        finally:
            self._backoff.note(row.id, progress=progress)

    async def _resolve_or_send(self, row: Delivering, adapter: Adapter) -> bool:
        """Take the row one step on. False: it is where it was."""
        now = self._clock()
        if row.state is Delivery.SENDING:
            return await self._abandon(row)
        if now - row.created_at > self._max_age_ms:
            return await self._expire(row, now)
        if row.state is not Delivery.UNKNOWN:
            row = await self._fitting(row, adapter)
            return await self._send(row, lambda: self._put(adapter, row, row.text))
        can = adapter.capabilities
        how = resolution(
            idempotent=can.idempotent_send or row.edits is not None, read_back=can.read_back, choice=self._unknown
        )
        self.resolved[how] += 1
        if how is Resolution.DROP:
            return await self._drop(row, now)
        return await self._send(row, lambda: self._put_again(adapter, row, how), RESOLVED[how])

    async def _abandon(self, row: Delivering) -> bool:
        """Call a row unknown that was being sent, though no task of ours sends it: that task has died.

        Its lane, and so its conversation, is ours: whoever sent it was we, or a run that is dead.
        """
        log.warning("sending_abandoned", row=row.id, lane=row.lane)
        due_at = self._retry_at(row)
        return await self._store.outbox.unknown(row, due_at, self._clock(), problem=notes.SENDING_FAILED)

    async def _fitting(self, row: Delivering, adapter: Adapter) -> Delivering:
        """The row, or its first part: a notice was made by whoever did not know how much its platform takes."""
        notice = row.turn is None and row.edits is None
        parts = split(row.text, adapter.capabilities.max_length) if notice else []
        if len(parts) < 2 or not await self._store.outbox.mend(row.key, divided(row, parts, self._clock())):
            return row
        return replace(row, text=parts[0], buttons=None)

    async def _send(
        self, row: Delivering, put: Callable[[], Awaitable[Receipt]], resolved: str | None = None
    ) -> bool:
        """Say that the row is about to be sent, send it, and record what came of that.

        False: it is where it was, because it is not ours to send, or its platform cannot be reached.
        """
        if not await self._store.outbox.start(row, self._run, self._clock()):
            return False
        await self._lease.confirmed()
        outcome = await self._outcome(row, put, resolved)
        await self._record(row, outcome)
        return not (isinstance(outcome, Later) and outcome.away)

    async def _outcome(
        self, row: Delivering, put: Callable[[], Awaitable[Receipt]], resolved: str | None
    ) -> Outcome:
        try:
            return Sent(str((await put()).message), resolved)
        except NotConnected as error:
            return Later(self._clock() + AWAY_MS, error.message, counts=False, away=True)
        except SendRetry as error:
            due = max(self._retry_at(row), self._clock() + int(error.after * 1000))
            # Who names the time is busy, not broken: waiting for that long uses up no attempt.
            return Later(due, error.message, counts=error.after <= 0)
        except SendRefused as error:
            log.warning("refused", row=row.id, lane=row.lane, error=error.message)
            return Refused(error.message)
        except BaseException as error:  # noqa: BLE001 reason: after any other error nobody knows whether it was sent
            raise_uncontained(error)
            self._failures.report("outcome_unknown", error, row=row.id, lane=row.lane)
            return Unknown(self._retry_at(row), str(error))

    def _retry_at(self, row: Delivering) -> int:
        return self._clock() + retry_in(row.attempts + 1)

    async def _record(self, row: Delivering, outcome: Outcome) -> None:
        """Record what came of a send, however long the store takes. Until then nothing follows it."""
        await patiently(lambda: self._write(row, outcome))
        if isinstance(outcome, Sent):
            log.info("sent", row=row.id, lane=row.lane)
            self._sent(row.key)

    async def _write(self, row: Delivering, outcome: Outcome) -> None:
        outbox, now = self._store.outbox, self._clock()
        match outcome:
            case Sent(receipt, resolved):
                await outbox.sent(row, receipt, now, resolved=resolved)
            case Later(due_at, problem, counts):
                await outbox.put_back(row, due_at, now, problem=problem, counts=counts)
            case Unknown(due_at, problem):
                await outbox.unknown(row, due_at, now, problem=problem)
            case Refused(problem):
                await self._take_refusal(row, problem)

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

    async def _expire(self, row: Delivering, now: int) -> bool:
        """What is too old is not sent; of an answer the chat is told so, of a notice nothing."""
        notice = Owed(row.address, f"{row.reply}.expired", (notes.EXPIRED_REPLY,)) if row.turn else None
        log.warning("expired", row=row.id, lane=row.lane)
        return await self._store.outbox.expire(row, now, problem="too old to send", notice=notice)

    async def _drop(self, row: Delivering, now: int) -> bool:
        notice = Owed(row.address, f"{row.reply}.dropped", (notes.DROPPED_REPLY,))
        log.warning("dropped", row=row.id, lane=row.lane)
        return await self._store.outbox.expire(row, now, problem=RESOLVED[Resolution.DROP], notice=notice)

    async def _put_again(self, adapter: Adapter, row: Delivering, how: Resolution) -> Receipt:
        """Send a row that may have arrived before, unless the platform finds it."""
        if how is Resolution.READ_BACK and (found := await adapter.find_sent(row.delivery_key)) is not None:
            return found
        text = notes.maybe_duplicate(row.text) if how is Resolution.RESEND else row.text
        return await self._put(adapter, row, text)

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

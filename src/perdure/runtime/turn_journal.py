"""The journal of one attempt: appends its entries, and waits while the store takes no writes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from perdure.core.conversation import turn_views, visible_turns
from perdure.core.journal import Entry, JournalRecord, TurnInterrupted, TurnView, fold
from perdure.core.queue import QueueRules
from perdure.errors import TurnMoved
from perdure.runtime.gateway_run import GatewayRun
from perdure.runtime.store_retry import retry_while_unavailable
from perdure.store.claims import Claim
from perdure.store.outbox import OutboxReply

T = TypeVar("T")


class TurnJournal:
    """The entries of a claimed turn. `TurnMoved` says that the turn no longer belongs to this attempt."""

    def __init__(self, run: GatewayRun, claim: Claim) -> None:
        self._run = run
        self._store = run.store
        self._turn = claim.turn
        self.active_at = run.clocks.steady()  # the last sign of life of the attempt
        self.view = fold(claim.records)
        self.history: Sequence[TurnView] = visible_turns(turn_views(claim.earlier or ()))
        self._history_loaded = claim.earlier is not None

    def alive(self) -> None:
        """Note a sign of life: something was stored, or the store is awaited."""
        self.active_at = self._run.clocks.steady()

    async def load_history(self) -> None:
        """Read the earlier turns of the session, if they were too many to come with the claim."""
        if not self._history_loaded:
            turn = self._turn
            records = await self._when_available(
                lambda: self._store.journal.read_before(turn.session, turn.first_seq)
            )
            self.history, self._history_loaded = visible_turns(turn_views(records)), True

    async def append(self, entries: Sequence[Entry], replies: Sequence[OutboxReply] = (), *, late: bool) -> None:
        """Store entries and replies in one transaction."""
        clock, wakeups = self._run.clocks.wall, self._run.wakeups
        self._apply(
            await self._when_available(
                lambda: self._store.turns.append(self._turn, entries, clock(), replies=replies, late=late)
            )
        )
        (wakeups.wake_delivery if replies else wakeups.publish)(self._turn.key)

    async def join_waiting(self, rules: QueueRules) -> bool:
        """Let the messages that wait to be heard join the turn. Returns whether there were any."""

        async def join() -> list[JournalRecord] | None:
            if not await self._store.queue.has_steering_message(self._turn.key):
                return []
            return await self._store.queue.join(self._turn, rules, self._run.clocks.wall())

        records = await self._when_available(join)
        if records == []:
            return False
        self._apply(records)
        self._run.wakeups.publish(self._turn.key)
        return True

    async def interrupt(self, reason: str) -> bool:
        """Mark the turn as interrupted. False: the turn had ended already."""
        entries = [TurnInterrupted(reason)]
        return await self._store.turns.append(self._turn, entries, self._run.clocks.wall()) is not None

    def _apply(self, records: Sequence[JournalRecord] | None) -> None:
        if records is None:
            raise TurnMoved(f"turn {self._turn.id} is no longer ours")
        self.alive()
        for record in records:
            self.view.apply(record)

    def _when_available(self, operation: Callable[[], Awaitable[T]]) -> Awaitable[T]:
        """Await an operation of the store as long as it takes; waiting counts as a sign of life."""
        return retry_while_unavailable(operation, on_wait=self.alive, turn=self._turn.id)

"""Finds interrupted turns, and has a recovery decision made and applied for each. It never runs a turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from perdure.containment import contain
from perdure.core import texts
from perdure.core.address import Address, split_session_key
from perdure.core.journal import (
    TurnView,
    fold,
)
from perdure.core.recovery.decision import (
    InterruptionReason,
    RecoveryPolicy,
    decide,
    pauses_recovery,
    pending_request,
)
from perdure.core.roles import OPERATOR
from perdure.core.states import TurnState
from perdure.errors import NewerEntry, Unavailable
from perdure.logs import Log
from perdure.runtime.access import Access
from perdure.runtime.gateway_run import GatewayRun
from perdure.runtime.lost_turns import LostTurns
from perdure.runtime.recovery_apply import DecisionApplier, RecoveryContextReader
from perdure.runtime.recovery_slots import RecoverySlots
from perdure.runtime.runner import TurnRunner
from perdure.runtime.session_repair import SessionRepair
from perdure.runtime.tasks import FailureLog
from perdure.runtime.turn_journal import question_reply
from perdure.store.database import Tx
from perdure.store.runs import RunStart
from perdure.store.transitions import RequestOutcome, Turn

log = Log("recovery")

RETRY_TAKEOVER_MS = 60_000  # until a take-over that failed is tried again


class RecoveryLimits(Struct, frozen=True):
    """What recovery may do, by the configuration."""

    policy_for: Callable[[Address], RecoveryPolicy]
    approval_ms: int = 0  # how long an approval that is asked for again may be given


class Recoverer:
    """Decides about interrupted turns, platform by platform as each is connected."""

    def __init__(
        self,
        run: GatewayRun,
        started: RunStart,
        runner: TurnRunner,
        *,
        limits: RecoveryLimits,
        slots: RecoverySlots,
        access: Access,
        has_running_command: Callable[[TurnView], bool],
    ) -> None:
        self._run = run
        self._store = run.store
        self._clock = run.clocks.wall
        self._started = started
        self._repair = SessionRepair(run)
        self._lost_turns = LostTurns(run)
        self._stopped = False
        self._limits = limits
        self._slots = slots
        self._authorisation = access.authorisation
        self._context = RecoveryContextReader(run, access, has_running_command)
        self._applier = DecisionApplier(run, runner, slots, self._context)
        self._deciding: dict[str, asyncio.Task[None]] = {}  # by turn
        self.paused = False
        self._failures = FailureLog(log)
        self.takeover_incomplete = True  # some turns of dead runs may not be taken over yet
        self.decisions_incomplete = False  # a decision could not be written, and must be made again

    async def mark_lost(self, reason: InterruptionReason) -> int:
        """Take over our share of the turns of dead runs, and mark every send of a dead run as unknown."""
        if self._stopped:
            return 0
        if not self._store.database.exclusive:
            await self._store.turns.release_unreadable(self._run.id)
        lost = [each.turn for each in await self._lost_turns.next_share()]
        taken = await asyncio.gather(*(self._try_take_over(turn, reason) for turn in lost))  # they share commits
        await self._store.outbox.mark_orphans_unknown(self._clock())
        # Where gateways share a database, one of them may end at any time.
        self.takeover_incomplete = not (self._store.database.exclusive and all(taken))
        return len(lost)

    async def _try_take_over(self, turn: Turn, reason: InterruptionReason) -> bool:
        """Take over one turn. A failure keeps no other turn waiting; it is tried again later."""
        errors: list[BaseException] = []

        def report(error: BaseException) -> None:
            self._failures.report("not_taken_over", error, turn=turn.id)
            errors.append(error)

        taken = await contain(self._take_over(turn, reason), report)
        for error in errors:
            await self._failures.contain("not_put_aside", self._put_aside(turn, error), turn=turn.id)
        return taken

    async def _take_over(self, turn: Turn, reason: InterruptionReason) -> None:
        run, now = self._run.id, self._clock()
        taken = await self._store.turns.take_over(turn.id, turn.key, reason, run, now, self._pending_request)
        if taken is not None:
            log.info("taken_over", turn=turn.id, key=turn.key, state=taken.state)
            if taken.state is not TurnState.INTERRUPTED:
                self._run.wakeups.wake_runner(turn.key)  # it is queued, or its question may be answered

    async def _put_aside(self, turn: Turn, error: BaseException) -> None:
        """Leave a turn that cannot be taken over alone for a while, so that it takes no other turn's place."""
        if isinstance(error, NewerEntry):
            await self._repair.leave_to_newer(turn.session)
        elif not isinstance(error, Unavailable):
            problem = f"{type(error).__name__}: {error}"
            await self._store.turns.put_aside(turn, self._clock() + RETRY_TAKEOVER_MS, problem)

    def _pending_request(self, tx: Tx, turn: Turn, view: TurnView) -> RequestOutcome | None:
        """Carry out what a person asked for before the interruption, whatever the policy, or ask again."""
        request, address, now = pending_request(view), split_session_key(turn.key)[1], self._clock()
        if request is None:
            return None
        window = self._limits.policy_for(address).freshness_ms
        fresh = not window or now - request.at <= window
        allowed = request.by == OPERATOR or self._authorisation.may_still(
            tx, turn.key, request.by, request.right, request.platform
        )
        if fresh and allowed:
            return RequestOutcome()
        asked = request.question
        if asked is None:
            return None
        until = now + self._limits.approval_ms if asked.approves else 0
        again = replace(asked, until=until)
        why = texts.recovery.ask_again(fresh=fresh)
        max_length = self._run.connections.max_length(address.platform)
        owed = question_reply(turn.id, turn.key, again, view, max_length, why)
        return RequestOutcome(again, (owed,))

    def pause_if_crashing(self, lost: int) -> None:
        """Pause automatic resumes for this run, if the gateway keeps crashing; everybody is served meanwhile."""
        self.paused = bool(lost) and pauses_recovery(self._started.unclean_lately)
        if self.paused:
            log.warning("automatic_resume_paused", unclean_starts=self._started.unclean_lately)

    async def lift_pause(self) -> None:
        """Lift the pause of the crash-loop breaker, and decide about every interrupted turn."""
        self.paused = False
        await self.recover()

    async def recover(self, platform: str | None = None) -> None:
        """Decide about every interrupted turn, or those of one platform, and apply what was decided.

        Those of platforms that this gateway does not have are always among them: nothing else wakes them.
        """
        if platform is None:
            # Only here: the recovery of one platform does not make up for the failure of another.
            self.decisions_incomplete = False
        try:
            interrupted = await self._store.turns.interrupted(self._run.id)
        except BaseException:
            self.decisions_incomplete = True  # the next heartbeat tries again
            raise
        for turn in interrupted:
            there = split_session_key(turn.key)[1].platform
            wanted = platform in (None, there) or not self._run.connections.serves(there)
            if not wanted:
                continue
            if turn.id in self._deciding and self._slots.is_waiting(turn.id):
                self._deciding.pop(turn.id).cancel()  # decide anew: much may have changed while the turn waited
            if turn.id not in self._deciding:
                self._deciding[turn.id] = self._run.tasks.create_task(self._recover(turn))

    def stop(self) -> None:
        """Recover no more turns: whoever takes them over finds those that wait for a slot interrupted."""
        self._stopped = True
        for task in self._deciding.values():
            task.cancel()

    async def _recover(self, turn: Turn) -> None:
        """Recover one turn. The next heartbeat retries a failure; the chat is told of unreadable entries."""

        def report(error: BaseException) -> None:
            self._failures.report("not_recovered", error, turn=turn.id)
            self.decisions_incomplete |= not isinstance(error, NewerEntry)

        try:
            if not await contain(self._decide_and_apply(turn), report):
                await self._repair.notify_if_unreadable(turn.key)
        finally:
            if self._deciding.get(turn.id) is asyncio.current_task():
                del self._deciding[turn.id]

    async def _decide_and_apply(self, turn: Turn) -> None:
        view = fold(await self._store.journal.of_turn(turn.session, turn.id))
        address = split_session_key(turn.key)[1]
        context = replace(await self._context.read(turn, view, address), paused=self.paused)
        decision = decide(view, context, self._limits.policy_for(address), self._clock())
        if not await self._applier.apply(turn, view, address, decision):
            # Somebody lost their rights while the turn waited for its slot: decide anew.
            self.decisions_incomplete = True

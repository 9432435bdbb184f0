"""Finds turns that were lost, decides about them, and applies the decision. It never executes anything."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from perdure.containment import contain
from perdure.core import texts
from perdure.core.address import Address, background_number, split_session_key
from perdure.core.delivery import split_reply
from perdure.core.inactivity import only_waits_for_commands
from perdure.core.journal import (
    Entry,
    Interruption,
    MessagesReturned,
    RecoveryDecided,
    TurnCancelled,
    TurnFinished,
    TurnRequeued,
    TurnView,
    fold,
    joined_messages,
    return_entries,
)
from perdure.core.messages import Button
from perdure.core.recovery.decision import (
    ALONE_EVIDENCE,
    HELD_BACK_RULES,
    InterruptionReason,
    RecoveryChoice,
    RecoveryContext,
    RecoveryDecision,
    RecoveryPolicy,
    RecoveryRule,
    decide,
)
from perdure.core.recovery.pending_requests import pending_request
from perdure.core.session import CancelReason, SessionState
from perdure.errors import NewerEntry
from perdure.logs import Log
from perdure.runtime.access import OPERATOR, Access
from perdure.runtime.gateway_run import GatewayRun
from perdure.runtime.question_message import question_reply
from perdure.runtime.recovery_slots import RecoverySlots
from perdure.runtime.runner import TurnRunner
from perdure.runtime.session_repair import SessionRepair
from perdure.runtime.tasks import FailureLog
from perdure.store.claims import RESUMED_BY_MESSAGE
from perdure.store.database import Tx
from perdure.store.outbox import OutboxReply
from perdure.store.runs import RunStart
from perdure.store.transitions import RequestOutcome, Turn

log = Log("recoverer")

PAUSE_AFTER_UNCLEAN_STARTS = 3  # unclean starts within a few minutes, with work to resume
# Nobody is told of these: the person may not talk to us, was told when the session was set aside, or is nowhere.
SILENT_RULES = frozenset((RecoveryRule.UNAUTHORISED, RecoveryRule.NOT_OPEN, RecoveryRule.NO_ADDRESS))


# Why a turn is left as it is though messages have joined it, which then wait again for a turn of their own.
RETURNING_RULES = HELD_BACK_RULES - {RecoveryRule.NO_ADDRESS}


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
        self._runner = runner
        self._limits = limits
        self._slots = slots
        self._access = access
        self._has_running_command = has_running_command  # whether a command that a turn waits for still runs
        self._deciding: dict[str, asyncio.Task[None]] = {}  # by turn
        self.paused = False
        self._failures = FailureLog(log)
        self.takeover_incomplete = True  # turns of dead runs may not all be taken over
        self.decisions_incomplete = False  # a decision could not be written, and must be made again

    async def mark_lost(self, reason: InterruptionReason) -> int:
        """Take over every turn whose run is dead, and call every send of a dead run unknown."""
        lost = await self._store.turns.lost()
        taken = await asyncio.gather(*(self._try_take_over(turn, reason) for turn in lost))  # they share commits
        await self._store.outbox.mark_orphans_unknown(self._clock())
        self.takeover_incomplete = not all(taken)
        return len(lost)

    async def _try_take_over(self, turn: Turn, reason: InterruptionReason) -> bool:
        """Take one turn over. One that fails is tried again with the next heartbeat, and keeps no other."""
        return await self._failures.contain("not_taken_over", self._take_over(turn, reason), turn=turn.id)

    async def _take_over(self, turn: Turn, reason: InterruptionReason) -> None:
        run, now = self._run.id, self._clock()
        taken = await self._store.turns.take_over(turn.id, turn.key, reason, run, now, self._pending_request)
        if taken is not None:
            log.info("taken_over", turn=turn.id, key=turn.key, state=taken.state)

    def _pending_request(self, tx: Tx, turn: Turn, view: TurnView) -> RequestOutcome | None:
        """What a person asked for and nobody has taken up is carried out, whatever the policy, or asked again."""
        request, address, now = pending_request(view), split_session_key(turn.key)[1], self._clock()
        if request is None:
            return None
        window = self._limits.policy_for(address).freshness_ms
        fresh = not window or now - request.at <= window
        if fresh and self._access.is_still_allowed(tx, turn.key, request.by, request.right):
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
        """The crash-loop breaker: for this run nothing goes on by itself, but everybody is served."""
        self.paused = bool(lost) and self._started.unclean_lately >= PAUSE_AFTER_UNCLEAN_STARTS
        if self.paused:
            log.warning("automatic_resume_paused", unclean_starts=self._started.unclean_lately)

    async def lift_pause(self) -> None:
        """Let recoveries go on in spite of the crashes."""
        self.paused = False
        await self.recover()

    async def recover(self, platform: str | None = None) -> None:
        """Decide about every interrupted turn, or those of one platform, and apply what was decided.

        Those of platforms that this gateway does not have are always among them: nothing else wakes them.
        """
        interrupted = await self._store.turns.interrupted(self._run.id)
        self.decisions_incomplete = False
        for turn in interrupted:
            there = split_session_key(turn.key)[1].platform
            wanted = platform in (None, there) or not self._run.connections.serves(there)
            if not wanted:
                continue
            if turn.id in self._deciding and self._slots.is_waiting(turn.id):
                self._deciding.pop(turn.id).cancel()  # decided anew: much may have changed while it waited
            if turn.id not in self._deciding:
                self._deciding[turn.id] = self._run.tasks.create_task(self._recover(turn))

    def stop(self) -> None:
        """Begin nothing more: whatever waits for its place is found interrupted at the next start."""
        for task in self._deciding.values():
            task.cancel()

    async def _recover(self, turn: Turn) -> None:
        """Decide about one turn. After a failure the next heartbeat tries again; unreadable entries are told."""

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
        around = await self._surroundings(turn, view, address)
        decision = decide(view, around, self._limits.policy_for(address), self._clock())
        await self._apply(turn, view, address, decision)

    async def _surroundings(self, turn: Turn, view: TurnView, address: Address) -> RecoveryContext:
        session = await self._store.sessions.get(turn.session)
        return RecoveryContext(
            session=session.state if session else SessionState.CLOSED,
            last_sign_of_life=await self._last_sign_of_life(view),
            has_address=self._run.connections.serves(address.platform),
            authorised=await self._is_authorised(turn, view),
            connected=address.platform in self._run.connections.connected,
            attached_alive=self._has_running_command(view),
            paused=self.paused,
        )

    async def _is_authorised(self, turn: Turn, view: TurnView) -> bool:
        """Whether everybody whose words the turn is about may talk here, as things are now."""
        # News of a process counts only where nobody has written: a turn that took it along is not about it.
        causes = [cause for cause in view.causes if not cause.note] or view.causes
        senders = {cause.sender for cause in causes if not (cause.wish and cause.sender == OPERATOR)}
        return all([await self._access.may(turn.key, sender, "talk") for sender in senders])

    async def _last_sign_of_life(self, view: TurnView) -> int | None:
        """The newest content, or the last heartbeat of the run that wrote it."""
        content = view.content[-1].at if view.content else None
        run = await self._store.runs.get(view.content_run) if view.content_run else None
        signs = [content, run.heartbeat_at if run else None]
        return max((at for at in signs if at is not None), default=None)

    # ── applying ────────────────────────────────────────────────────────────────────────────────────────────

    async def _apply(self, turn: Turn, view: TurnView, address: Address, decision: RecoveryDecision) -> None:
        log.info("decided", turn=turn.id, key=turn.key, decision=decision.choice, rule=decision.rule)
        decided = RecoveryDecided(decision.choice, decision.why, decision.evidence, decision.rule)
        match decision.choice:
            case RecoveryChoice.RESUME:
                await self._resume(turn, view, decided)
            case RecoveryChoice.DELIVER:
                await self._deliver_response(turn, view, address, decided)
            case RecoveryChoice.CLEAR:
                await self._write(turn, [decided, TurnCancelled(CancelReason.CLEARED)])
            case RecoveryChoice.WAIT_FOR_USER if view.question is not None:
                await self._write(turn, [decided, view.question])
            case RecoveryChoice.SUSPEND:
                text = texts.background.suspended(background_number(turn.key), decision.why)
                told = OutboxReply(address, f"{turn.id}.suspended", (text,))
                if await self._write(
                    turn, [decided, *return_entries(view), TurnCancelled(CancelReason.SUSPENDED)], [told]
                ):
                    self._runner.stop_attempt(turn.id)
            case _:
                await self._hold(turn, view, address, decided)
        self._runner.wake(turn.key)  # messages may wait behind it
        self._run.wakeups.wake_delivery(turn.key)

    async def _resume(self, turn: Turn, view: TurnView, decided: RecoveryDecided) -> None:
        """Put the turn back in the queue when there is a slot; the runner claims it like any other."""
        try:
            first = await self._wait_for_slot(turn, view, decided)
            if not await self._is_authorised(turn, view):
                self.decisions_incomplete = True  # somebody was removed while it waited for its slot: decided anew
                return
            over = self._runner.ends.expect(turn.id)
            if await self._write(turn, [*first, TurnRequeued()]):
                self._runner.wake(turn.key)
                await over.wait()
        finally:
            self._slots.remove(turn.id)

    async def _wait_for_slot(self, turn: Turn, view: TurnView, decided: RecoveryDecided) -> list[RecoveryDecided]:
        """Wait for a slot, if the turn needs one; what is then still to be put on record.

        While it waits, the decision is on record already, so that a message can take the turn.
        """
        if only_waits_for_commands(view):
            self._slots.register(turn.id)
            return [decided]
        must_wait, position = self._slots.full, view.last_interruption.position if view.last_interruption else 0
        granted = self._slots.request(turn)
        if must_wait:
            alone = {ALONE_EVIDENCE: True} if self._slots.one_at_a_time else {}
            await self._write(turn, [replace(decided, evidence=decided.evidence | alone)])
            self._runner.wake(turn.key)  # somebody may have written already
            if await self._store.inbox.count_waiting(turn.key, position):
                self._slots.prioritise(turn.key)
        await asyncio.wait({granted})
        if not must_wait:
            return [decided]
        return [RESUMED_BY_MESSAGE] if await self._store.inbox.count_waiting(turn.key, position) else []

    async def _deliver_response(
        self, turn: Turn, view: TurnView, address: Address, decided: RecoveryDecided
    ) -> None:
        text = view.responses[-1].text
        max_length = self._run.connections.max_length(address.platform)
        parts = tuple(split_reply(texts.background.label(background_number(turn.key), text), max_length))
        owed = [OutboxReply(address, turn.id, parts, view.reply_to)]
        await self._write(turn, [decided, TurnFinished(text)], owed if any(parts) else [])

    async def _hold(self, turn: Turn, view: TurnView, address: Address, decided: RecoveryDecided) -> None:
        """The turn stays as it is. The same decision again is not journalled again, and told only once."""
        last = view.last_decision
        if last is None or (last.decision, last.rule) != (decided.decision, decided.rule):
            left = await self._returned_messages(turn, view) if decided.rule in RETURNING_RULES else []
            told = (
                await self._held_notices(turn, view.last_interruption, address, decided, left)
                if view.last_interruption
                else []
            )
            await self._write(turn, [decided, *left], told)

    async def _returned_messages(self, turn: Turn, view: TurnView) -> list[MessagesReturned]:
        """The messages that joined a turn which is set aside wait again, if their senders may still talk here."""
        joined = joined_messages(view)
        allowed = [one for one, by in joined.items() if await self._access.may(turn.key, by, "talk")]
        return [MessagesReturned(tuple(allowed))] if allowed else []

    async def _held_notices(
        self,
        turn: Turn,
        mark: Interruption,
        address: Address,
        decided: RecoveryDecided,
        returned: Sequence[MessagesReturned],
    ) -> list[OutboxReply]:
        """What the chat is told: nothing where nobody may hear it, or where a message joins the turn at once."""
        superseded = decided.rule in HELD_BACK_RULES
        waiting = await self._store.inbox.count_waiting(turn.key) + sum(len(entry.messages) for entry in returned)
        if not superseded and await self._store.inbox.count_waiting(turn.key, mark.position):
            return []
        if decided.decision == RecoveryChoice.ASK_USER:
            text = texts.recovery.ask_to_resume(mark.reason)
            # They name the turn: pressed later, they still mean this one, whatever was cut off since.
            verbs = [
                (verb, texts.background.command(verb, background_number(turn.key), turn.id))
                for verb in ("resume", "drop")
            ]
            buttons = tuple(Button(verb.capitalize(), command) for verb, command in verbs)
            return [self._notice(turn, address, f"ask.{mark.seq}", text, buttons)]
        if decided.decision != RecoveryChoice.SKIP or decided.rule in SILENT_RULES:
            return []
        left = superseded and waiting  # a message takes its place at once, and /resume comes too late
        text = (
            texts.recovery.left_unfinished(decided.why)
            if left
            else texts.recovery.not_resumed(decided.why, waiting)
        )
        return [self._notice(turn, address, f"held.{mark.seq}", text)]

    def _notice(
        self, turn: Turn, address: Address, name: str, text: str, buttons: tuple[Button, ...] = ()
    ) -> OutboxReply:
        return OutboxReply(
            address,
            f"{turn.id}.{name}",
            (texts.background.notice(background_number(turn.key), text),),
            buttons=buttons,
        )

    async def _write(self, turn: Turn, entries: Sequence[Entry], replies: Sequence[OutboxReply] = ()) -> bool:
        return await self._store.turns.append(turn, entries, self._clock(), replies=replies) is not None

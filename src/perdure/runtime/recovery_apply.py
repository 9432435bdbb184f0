"""Reads the facts around an interrupted turn that a decision needs, and applies it. It never runs a turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from perdure.core import texts
from perdure.core.address import Address, background_number
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
    joined_messages,
    return_entries,
)
from perdure.core.messages import Button
from perdure.core.recovery.decision import (
    ALONE_EVIDENCE,
    HELD_BACK_RULES,
    RecoveryChoice,
    RecoveryContext,
    RecoveryDecision,
    RecoveryRule,
)
from perdure.core.roles import OPERATOR
from perdure.core.states import CancelReason, RunEnding, SessionState
from perdure.logs import Log
from perdure.runtime.access import Access
from perdure.runtime.gateway_run import GatewayRun
from perdure.runtime.recovery_slots import RecoverySlots
from perdure.runtime.runner import TurnRunner
from perdure.store.claims import RESUMED_BY_MESSAGE
from perdure.store.outbox import OutboxReply
from perdure.store.transitions import Turn

log = Log("recovery_apply")

# No notice is sent: the person may not talk here, was told when the session was suspended, or has no address.
SILENT_RULES = frozenset((RecoveryRule.UNAUTHORISED, RecoveryRule.NOT_OPEN, RecoveryRule.NO_ADDRESS))


# The turn is left as it is, and the messages that joined it wait again for a turn of their own.
RETURNING_RULES = HELD_BACK_RULES - {RecoveryRule.NO_ADDRESS}


class RecoveryContextReader:
    """Reads the session, the platform, the people and the commands of a turn, as they are now."""

    def __init__(self, run: GatewayRun, access: Access, has_running_command: Callable[[TurnView], bool]) -> None:
        """`has_running_command` says whether a shell command that the turn waits for still runs."""
        self._run = run
        self._store = run.store
        self.access = access
        self._has_running_command = has_running_command

    async def read(self, turn: Turn, view: TurnView, address: Address) -> RecoveryContext:
        session = await self._store.sessions.get(turn.session)
        return RecoveryContext(
            session=session.state if session else SessionState.CLOSED,
            last_sign_of_life=await self._last_sign_of_life(view),
            has_address=self._run.connections.serves(address.platform),
            authorised=await self.is_authorised(turn, view),
            connected=address.platform in self._run.connections.connected,
            attached_alive=self._has_running_command(view),
            handed_over=await self._was_handed_over(view),
        )

    async def _was_handed_over(self, view: TurnView) -> bool:
        """Whether another gateway had the turn before, and was stopped in order."""
        runs = self._store.runs
        last, ours = await runs.get(view.claimed_by or ""), await runs.get(self._run.id)
        return (
            last is not None
            and ours is not None
            and last.ending == RunEnding.CLEAN
            and last.instance != ours.instance
        )

    async def is_authorised(self, turn: Turn, view: TurnView) -> bool:
        """Say whether everybody whose messages the turn answers may talk there at present."""
        # A report of a process counts only if no person has written: otherwise the turn answers the person.
        causes = [cause for cause in view.causes if not cause.note] or view.causes
        senders = {cause.sender for cause in causes if not (cause.wish and cause.sender == OPERATOR)}
        return all([await self.access.may(turn.key, sender, "talk") for sender in senders])

    async def has_joining_message(self, turn: Turn, position: int) -> bool:
        """Whether a message waits, after a position in the chat, that will join the turn."""
        return await self._store.queue.has_joining_message(turn, position, self.access.authorisation.may_join)

    async def _last_sign_of_life(self, view: TurnView) -> int | None:
        """Return the time of the turn's newest content, or of the last heartbeat of the run that wrote it."""
        content = view.content[-1].at if view.content else None
        run = await self._store.runs.get(view.content_run) if view.content_run else None
        signs = [content, run.heartbeat_at if run else None]
        return max((at for at in signs if at is not None), default=None)


class DecisionApplier:
    """Applies decisions about interrupted turns; the runner claims a turn that is put back in the queue."""

    def __init__(
        self, run: GatewayRun, runner: TurnRunner, slots: RecoverySlots, context: RecoveryContextReader
    ) -> None:
        self._run = run
        self._store = run.store
        self._clock = run.clocks.wall
        self._runner = runner
        self._slots = slots
        self._context = context

    async def apply(self, turn: Turn, view: TurnView, address: Address, decision: RecoveryDecision) -> bool:
        """Write the decision, and carry it out. False: the decision holds no longer, and must be made anew."""
        log.info("decided", turn=turn.id, key=turn.key, decision=decision.choice, rule=decision.rule)
        decided = RecoveryDecided(decision.choice, decision.why, decision.evidence, decision.rule)
        applied = True
        match decision.choice:
            case RecoveryChoice.RESUME:
                applied = await self._resume(turn, view, decided)
            case RecoveryChoice.DELIVER:
                await self._deliver_response(turn, view, address, decided)
            case RecoveryChoice.CLEAR:
                await self._write(turn, [decided, TurnCancelled(CancelReason.CLEARED)])
            case RecoveryChoice.WAIT_FOR_USER if view.question is not None:
                await self._write(turn, [decided, view.question])
            case RecoveryChoice.SUSPEND:
                text = texts.chat_commands.background_suspended(background_number(turn.key), decision.why)
                told = OutboxReply(address, f"{turn.id}.suspended", (text,))
                if await self._write(
                    turn, [decided, *return_entries(view), TurnCancelled(CancelReason.SUSPENDED)], [told]
                ):
                    self._runner.stop_attempt(turn.id)
            case _:
                await self._hold(turn, view, address, decided)
        self._run.wakeups.wake_runner(turn.key)  # messages may wait behind it
        self._run.wakeups.wake_delivery(turn.key)
        return applied

    async def _resume(self, turn: Turn, view: TurnView, decided: RecoveryDecided) -> bool:
        """Put the turn back in the queue when there is a slot, and wait until its attempt has ended.

        False: a sender has lost the right to talk while the turn waited for its slot.
        """
        try:
            first = await self._wait_for_slot(turn, view, decided)
            if not await self._context.is_authorised(turn, view):
                return False
            over = self._runner.ends.expect(turn.id)
            if await self._write(turn, [*first, TurnRequeued()]):
                self._run.wakeups.wake_runner(turn.key)
                await over.wait()
            return True
        finally:
            self._slots.remove(turn.id)

    async def _wait_for_slot(self, turn: Turn, view: TurnView, decided: RecoveryDecided) -> list[RecoveryDecided]:
        """Wait for a slot, if the turn needs one. Returns the decisions that are still to be written.

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
            self._run.wakeups.wake_runner(turn.key)  # somebody may have written already
            if await self._context.has_joining_message(turn, position):
                self._slots.prioritise(turn.key)
        await asyncio.wait({granted})
        if not must_wait:
            return [decided]
        return [RESUMED_BY_MESSAGE] if await self._context.has_joining_message(turn, position) else []

    async def _deliver_response(
        self, turn: Turn, view: TurnView, address: Address, decided: RecoveryDecided
    ) -> None:
        text = view.responses[-1].text
        max_length = self._run.connections.max_length(address.platform)
        parts = tuple(
            split_reply(texts.chat_commands.background_label(background_number(turn.key), text), max_length)
        )
        owed = [OutboxReply(address, turn.id, parts, view.reply_to)]
        await self._write(turn, [decided, TurnFinished(text)], owed if any(parts) else [])

    async def _hold(self, turn: Turn, view: TurnView, address: Address, decided: RecoveryDecided) -> None:
        """Leave the turn as it is. The same decision made again is neither journalled nor told again."""
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
        """Return the messages that joined a held turn to the queue, if their senders may still talk here."""
        joined = joined_messages(view)
        allowed = [one for one, by in joined.items() if await self._context.access.may(turn.key, by, "talk")]
        return [MessagesReturned(tuple(allowed))] if allowed else []

    async def _held_notices(
        self,
        turn: Turn,
        mark: Interruption,
        address: Address,
        decided: RecoveryDecided,
        returned: Sequence[MessagesReturned],
    ) -> list[OutboxReply]:
        """Return the notices for the chat: none if nobody may read them, or a message joins the turn at once."""
        superseded = decided.rule in HELD_BACK_RULES
        waiting = await self._store.inbox.count_waiting(turn.key) + sum(len(entry.messages) for entry in returned)
        if not superseded and await self._context.has_joining_message(turn, mark.position):
            return []
        if decided.decision == RecoveryChoice.ASK_USER:
            text = texts.recovery.ask_to_resume(mark.reason)
            # The buttons name the turn: pressed later, they still mean this turn, whatever was interrupted since.
            verbs = [
                (verb, texts.chat_commands.background_command(verb, background_number(turn.key), turn.id))
                for verb in ("resume", "drop")
            ]
            buttons = tuple(Button(verb.capitalize(), command) for verb, command in verbs)
            return [self._notice(turn, address, f"ask.{mark.seq}", text, buttons)]
        if decided.decision != RecoveryChoice.SKIP or decided.rule in SILENT_RULES:
            return []
        left = superseded and waiting  # a waiting message begins the next turn at once, and /resume comes too late
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
            (texts.chat_commands.background_notice(background_number(turn.key), text),),
            buttons=buttons,
        )

    async def _write(self, turn: Turn, entries: Sequence[Entry], replies: Sequence[OutboxReply] = ()) -> bool:
        return await self._store.turns.append(turn, entries, self._clock(), replies=replies) is not None

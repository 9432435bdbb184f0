"""The verbs of an operator for sessions, deliveries and people of a running gateway."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

from perdure.core.address import split_session_key
from perdure.core.logins import Login
from perdure.core.messages import Inbound
from perdure.core.roles import OPERATOR, Right
from perdure.core.states import SessionState
from perdure.runtime.wiring import Loops
from perdure.store import answers, outbox_verbs, session_verbs
from perdure.store.api import Store
from perdure.store.database import Transaction
from perdure.store.erasure import ErasedSession
from perdure.store.ids import Clock
from perdure.store.outbox import OutboxDelivery
from perdure.store.outbox_verbs import OutboxVerbResult
from perdure.store.sessions import Session
from perdure.store.transitions import Turn

T = TypeVar("T")


class VerbOutcome(StrEnum):
    """What came of a verb; false if there was nothing to do."""

    NOTHING = ""
    DONE = "done"
    ASKED = "asked"  # it is on record, and the attempt at the turn is not known to have ended yet


class OperatorVerbs:
    """Carries out an operator's verbs; each returns whether it has changed anything."""

    def __init__(self, store: Store, loops: Loops, run: str, clock: Clock) -> None:
        self._store = store
        self._loops = loops
        self.run = run
        self._clock = self.clock = clock

    async def resume(self, session: Session) -> VerbOutcome:
        """Resume an interrupted turn or a suspended session, whatever recovery has decided."""
        request = Inbound(split_session_key(session.key)[1], self._store.ids.new("wish"), OPERATOR, "")
        named = session.id if session.state is SessionState.CLOSED else ""
        resume = session_verbs.resume(
            session.key,
            request,
            session=named,
            may_take=lambda _, there: there == session.key,  # it goes on where it is
        )
        resumed = await self._store.chat_commands.execute_verb(session.key, resume)
        self._loops.wakeups.wake_runner(session.key)
        return VerbOutcome.DONE if resumed.outcome in ("turn", "session") else VerbOutcome.NOTHING

    async def drop(self, session: Session) -> VerbOutcome:
        """Cancel the interrupted turn of a session."""
        if session.state is SessionState.CLOSED:  # a turn that is open at its key is of a later session
            return VerbOutcome.NOTHING
        run, dropped = await self._execute(session.key, session_verbs.drop(session.key))
        stopped = await self._stop_attempt(dropped.turn, run, session.key)
        return stopped if dropped.turn else VerbOutcome.NOTHING

    async def stop(self, session: Session) -> VerbOutcome:
        """Cancel the current turn of a session, and withdraw its unsent replies."""
        if session.state is SessionState.CLOSED:
            return VerbOutcome.NOTHING
        run, done = await self._execute(session.key, session_verbs.stop(session.key, None))
        stopped = await self._stop_attempt(done.turn, run, session.key)
        return stopped if done.turn is not None or done.withdrawn > 0 else VerbOutcome.NOTHING

    async def suspend(self, session: Session) -> VerbOutcome:
        """Suspend a session: its next message begins a fresh one."""
        if session.state is SessionState.CLOSED:
            return VerbOutcome.NOTHING
        run, suspended = await self._execute(session.key, session_verbs.suspend(session.key))
        if suspended.turn:
            # A message that had joined the turn waits again; unless its sender may still talk, it is rejected.
            await self._loops.access.reject_unauthorised(self._clock)
        stopped = await self._stop_attempt(suspended.turn, run, session.key)
        return stopped if suspended.changed else VerbOutcome.NOTHING

    async def _execute(self, key: str, verb: Transaction[T]) -> tuple[str | None, T]:
        """Execute a verb on a key; also return the run at which the key's turn ran until then."""
        return await self._store.chat_commands.execute_verb(key, session_verbs.with_running_run(key, verb))

    async def _stop_attempt(self, turn: str | None, run: str | None, key: str) -> VerbOutcome:
        """Stop the attempt at a turn that a verb has ended, wherever it runs, and let the next turn begin."""
        stopped = turn is None or await self._loops.attempt_stops.stop(turn, run)
        self._loops.wakeups.wake_runner_and_delivery(key)
        return VerbOutcome.DONE if stopped else VerbOutcome.ASKED

    async def resend_delivery(self, row: OutboxDelivery) -> OutboxVerbResult:
        """Send a delivery again, or at once; it may arrive twice where the platform cannot say what it has."""
        can = self._loops.connections.capabilities(row.address.platform)
        certain = can.idempotent_send or can.read_back or row.edits is not None
        resend = outbox_verbs.resend(row.id, can_verify=certain)
        result = await self._store.outbox.execute_verb(row.key, resend)
        self._loops.wakeups.wake_delivery(row.key)
        return result

    async def drop_delivery(self, row: OutboxDelivery) -> OutboxVerbResult:
        """Withdraw a delivery that the platform has not confirmed."""
        result = await self._store.outbox.execute_verb(row.key, outbox_verbs.drop(row.id))
        self._loops.wakeups.wake_delivery(row.key)
        return result

    async def erase(self, name: str) -> list[ErasedSession]:
        """Erase the session of an id, or every session that a key ever had."""
        erased = await self._loops.eraser.erase(name)
        for one in erased:
            self._loops.wakeups.wake_delivery(one.key)
        return erased

    async def lift_recovery_pause(self) -> bool:
        """Lift the pause of the crash-loop breaker. False: recovery was not paused."""
        paused = self._loops.recoverer.paused
        await self._loops.recoverer.lift_pause()
        self._loops.wakeups.publish_all()
        return paused

    async def apply_people_change(self, key: str = "") -> None:
        """Tell the chat of `key` about a change of rights, and decide anew about interrupted turns."""
        if key:
            self._loops.wakeups.wake_delivery(key)
        await self._loops.recoverer.recover()

    async def answer_question(self, name: str, text: str, login: Login) -> bool:
        """Answer the question of an id, for the person of a login. False: no such question waits for an answer."""
        turn = await self._store.turns.get(name.partition(".")[0])
        if turn is None:
            return False
        answer = answers.answer_question(turn.key, login.person, text, name=name, given=_source(login))
        done = await self._store.chat_commands.execute_verb(
            turn.key, self._if_allowed(turn, login, "talk", answer, refused=False)
        )
        self._loops.wakeups.wake_runner(turn.key)
        return done

    async def decide_approval(self, name: str, login: Login, *, approve: bool) -> str:
        """Approve or deny the call that waits for the approval of an id; return the outcome."""
        turn = await self._store.turns.get(name.partition(".")[0])
        if turn is None:
            return "nothing"
        decide = answers.decide_approval(turn.key, login.person, _source(login), approve=approve, name=name)
        outcome = await self._store.chat_commands.execute_verb(
            turn.key, self._if_allowed(turn, login, "approve", decide, refused="nothing")
        )
        self._loops.wakeups.wake_runner(turn.key)
        return outcome

    def _if_allowed(
        self, turn: Turn, login: Login, right: Right, verb: Transaction[T], *, refused: T
    ) -> Transaction[T]:
        """Return the transaction of a verb, which does nothing for a login that may not answer this turn."""
        may_answer = self._loops.access.authorisation.may_by_login
        return lambda tx: verb(tx) if may_answer(tx, turn, login.person, right) else refused


def _source(login: Login) -> answers.AnswerSource:
    return answers.AnswerSource("web", login=login.name)

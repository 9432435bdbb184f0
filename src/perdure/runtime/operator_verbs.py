"""The verbs of an operator for sessions, deliveries and people of a running gateway."""

from __future__ import annotations

from perdure.core.address import split_session_key
from perdure.core.logins import Login
from perdure.core.messages import Inbound
from perdure.core.roles import OPERATOR
from perdure.core.states import SessionState
from perdure.runtime.wiring import Loops
from perdure.store import answers, outbox_verbs, session_verbs
from perdure.store.api import Store
from perdure.store.erasure import ErasedSession
from perdure.store.ids import Clock
from perdure.store.outbox import OutboxDelivery
from perdure.store.outbox_verbs import OutboxVerbResult
from perdure.store.sessions import Session


class OperatorVerbs:
    """Carries out an operator's verbs; each returns whether it has changed anything."""

    def __init__(self, store: Store, loops: Loops, run: str, clock: Clock) -> None:
        self._store = store
        self._loops = loops
        self.run = run
        self._clock = self.clock = clock

    async def resume(self, session: Session) -> bool:
        """Resume an interrupted turn or a suspended session, whatever recovery has decided."""
        request = Inbound(split_session_key(session.key)[1], self._store.ids.new("wish"), OPERATOR, "")
        named = session.id if session.state is SessionState.CLOSED else ""
        resume = session_verbs.resume(session.key, self.run, request, session=named)
        resumed = await self._store.chat_commands.execute_verb(session.key, resume)
        self._loops.runner.wake(session.key)
        return resumed.outcome in ("turn", "session")

    async def drop(self, session: Session) -> bool:
        """Cancel the interrupted turn of a session."""
        if session.state is SessionState.CLOSED:  # a turn that is open at its key is of a later session
            return False
        drop = session_verbs.drop(session.key)
        dropped = await self._store.chat_commands.execute_verb(session.key, drop)
        if dropped.turn:
            self._loops.runner.stop_attempt(dropped.turn)
        self._loops.runner.wake(session.key)
        return dropped.turn is not None

    async def stop(self, session: Session) -> bool:
        """Cancel the current turn of a session, and withdraw its unsent replies."""
        if session.state is SessionState.CLOSED:
            return False
        stop = session_verbs.stop(session.key, None)
        stopped = await self._store.chat_commands.execute_verb(session.key, stop)
        if stopped.turn:
            self._loops.runner.stop_attempt(stopped.turn)
        return stopped.turn is not None or stopped.withdrawn > 0

    async def suspend(self, session: Session) -> bool:
        """Suspend a session: its next message begins a fresh one."""
        if session.state is SessionState.CLOSED:
            return False
        suspended = await self._store.chat_commands.execute_verb(session.key, session_verbs.suspend(session.key))
        if suspended.turn:
            self._loops.runner.stop_attempt(suspended.turn)
            # A message that had joined the turn waits again; unless its sender may still talk, it is rejected.
            await self._loops.access.reject_unauthorised(self._clock)
            self._loops.runner.wake(session.key)
        return suspended.changed

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
        done = await self._store.chat_commands.execute_verb(turn.key, answer)
        self._loops.runner.wake(turn.key)
        return done

    async def decide_approval(self, name: str, login: Login, *, approve: bool) -> str:
        """Approve or deny the call that waits for the approval of an id; return the outcome."""
        turn = await self._store.turns.get(name.partition(".")[0])
        if turn is None:
            return "nothing"
        decide = answers.decide_approval(turn.key, login.person, _source(login), approve=approve, name=name)
        outcome = await self._store.chat_commands.execute_verb(turn.key, decide)
        self._loops.runner.wake(turn.key)
        return outcome


def _source(login: Login) -> answers.AnswerSource:
    return answers.AnswerSource("web", login=login.name)

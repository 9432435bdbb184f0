"""What an operator may do to the sessions of a running gateway: the same verbs as in the chat."""

from __future__ import annotations

from perdure.core.address import split_session_key
from perdure.core.messages import Inbound
from perdure.core.roles import OPERATOR
from perdure.core.session import SessionState
from perdure.runtime.wiring import Loops
from perdure.store import answers, outbox_verbs, session_verbs
from perdure.store.api import Store
from perdure.store.erasure import ErasedSession
from perdure.store.ids import Clock
from perdure.store.outbox import OutboxDelivery
from perdure.store.outbox_verbs import OutboxVerbResult
from perdure.store.sessions import Session


class OperatorVerbs:
    """Each verb says whether it changed anything."""

    def __init__(self, store: Store, loops: Loops, run: str, clock: Clock) -> None:
        self._store = store
        self._loops = loops
        self.run = run
        self._clock = self.clock = clock

    async def resume(self, session: Session) -> bool:
        """Continue what was interrupted or suspended, whatever was decided before."""
        wish = Inbound(split_session_key(session.key)[1], self._store.ids.new("wish"), OPERATOR, "")
        named = session.id if session.state is SessionState.CLOSED else ""
        resume = session_verbs.resume(session.key, self.run, wish, session=named)
        resumed = await self._store.chat_commands.execute_verb(session.key, resume)
        self._loops.runner.wake(session.key)
        return resumed.outcome in ("turn", "session")

    async def drop(self, session: Session) -> bool:
        """Give up the interrupted turn."""
        if session.state is SessionState.CLOSED:  # a turn that is open at its key is of a later session
            return False
        drop = session_verbs.drop(session.key)
        dropped = await self._store.chat_commands.execute_verb(session.key, drop)
        if dropped.turn:
            self._loops.runner.stop_attempt(dropped.turn)
        self._loops.runner.wake(session.key)
        return dropped.turn is not None

    async def stop(self, session: Session) -> bool:
        """End the current turn for good."""
        if session.state is SessionState.CLOSED:
            return False
        stop = session_verbs.stop(session.key, None)
        stopped = await self._store.chat_commands.execute_verb(session.key, stop)
        if stopped.turn:
            self._loops.runner.stop_attempt(stopped.turn)
        return stopped.turn is not None or stopped.withdrawn > 0

    async def suspend(self, session: Session) -> bool:
        """Set the session aside."""
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
        """Send a reply again, or at once; only where the platform cannot tell, at the risk of a duplicate."""
        can = self._loops.connections.capabilities(row.address.platform)
        certain = can.idempotent_send or can.read_back or row.edits is not None
        work = outbox_verbs.resend(row.id, can_verify=certain)
        mended = await self._store.outbox.execute_verb(row.key, work)
        self._loops.wakeups.wake_delivery(row.key)
        return mended

    async def drop_delivery(self, row: OutboxDelivery) -> OutboxVerbResult:
        """Give up a reply that was not confirmed."""
        mended = await self._store.outbox.execute_verb(row.key, outbox_verbs.drop(row.id))
        self._loops.wakeups.wake_delivery(row.key)
        return mended

    async def erase(self, name: str) -> list[ErasedSession]:
        """Erase the session of that id, or all that a key ever had."""
        erased = await self._loops.eraser.erase(name)
        for one in erased:
            self._loops.wakeups.wake_delivery(one.key)
        return erased

    async def lift_recovery_pause(self) -> bool:
        """Lift the pause that the crash-loop breaker set."""
        paused = self._loops.recoverer.paused
        await self._loops.recoverer.lift_pause()
        self._loops.wakeups.publish_all()
        return paused

    async def apply_people_change(self, key: str = "") -> None:
        """Somebody was let in, or lost rights: the chat of `key` is told, and what was cut off is judged anew."""
        if key:
            self._loops.wakeups.wake_delivery(key)
        await self._loops.recoverer.recover()

    async def answer_question(self, name: str, text: str) -> bool:
        """Answer the question of that name. False: none such waits for an answer."""
        turn = await self._store.turns.get(name.partition(".")[0])
        if turn is None:
            return False
        answering = answers.answer_question(turn.key, OPERATOR, text, name=name)
        done = await self._store.chat_commands.execute_verb(turn.key, answering)
        self._loops.runner.wake(turn.key)
        return done

    async def decide_approval(self, name: str, *, approve: bool) -> str:
        """Approve or deny the call that waits under that name."""
        turn = await self._store.turns.get(name.partition(".")[0])
        if turn is None:
            return "nothing"
        judging = answers.decide_approval(turn.key, OPERATOR, approve=approve, name=name)
        verdict = await self._store.chat_commands.execute_verb(turn.key, judging)
        self._loops.runner.wake(turn.key)
        return verdict

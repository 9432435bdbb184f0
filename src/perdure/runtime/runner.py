"""The turn runner: claims turns and runs their attempts; it knows every turn that runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec import Struct

from perdure.agents.api import Agent
from perdure.errors import Unavailable
from perdure.logs import Log
from perdure.runtime.access import Access
from perdure.runtime.attachment_cache import AttachmentCache
from perdure.runtime.attempt import Attempt, TurnLimits, fail_turn, has_used_commands, run_agent
from perdure.runtime.backoff import Backoff
from perdure.runtime.gateway_run import GatewayRun
from perdure.runtime.recovery_slots import RecoverySlots
from perdure.runtime.session_repair import SessionRepair
from perdure.runtime.tasks import FailureLog
from perdure.runtime.wakeups import WakeEvent
from perdure.store.claims import Claim

log = Log("runner")


class RunningTurn(Struct, eq=False):
    """A turn whose attempt runs now."""

    attempt: Attempt
    task: asyncio.Task[None]  # in which the agent runs
    abandoned: asyncio.Event  # set when the runner no longer waits for an attempt that was stopped


class ServedSession(Struct, eq=False):
    """A session that may have a turn to claim, or whose turns are being run."""

    woken: bool = False  # the session may have a turn that the last claim did not see
    task: asyncio.Task[None] | None = None  # in which its turns are claimed and run
    running: RunningTurn | None = None


class ClaimGate:
    """Sessions between a claim and the first moment of its attempt, and turns that were ended meanwhile.

    A turn that somebody ends while its claim is under way has no attempt yet that could be stopped: the runner
    asks `was_stopped` before it begins one.
    """

    def __init__(self) -> None:
        self._keys: set[str] = set()
        self._stopped: set[str] = set()  # turns
        self._left = WakeEvent()

    def enter(self, key: str) -> None:
        self._keys.add(key)

    def leave(self, key: str) -> None:
        self._keys.discard(key)
        if not self._keys:
            self._stopped.clear()
        self._left.wake()

    def stop(self, turn: str) -> None:
        """Remember that a turn has been ended, if it may be the turn of a claim under way."""
        if self._keys:
            self._stopped.add(turn)

    def was_stopped(self, turn: str) -> bool:
        return turn in self._stopped

    async def wait_until_empty(self) -> None:
        while self._keys:
            await self._left.wait()


class AttemptEnds:
    """Events for those who wait until the next attempt of a turn has ended."""

    def __init__(self) -> None:
        self._events: dict[str, asyncio.Event] = {}  # by turn

    def expect(self, turn: str) -> asyncio.Event:
        return self._events.setdefault(turn, asyncio.Event())

    @property
    def expected(self) -> list[str]:
        """The turns for whose end somebody waits."""
        return list(self._events)

    def signal(self, turn: str) -> None:
        """Tell those who wait that the attempt of a turn has ended, or that there will be none."""
        event = self._events.pop(turn, None)
        if event is not None:
            event.set()


ATTEMPT_STOP_SECONDS = 3.0  # for an attempt to end after it was stopped
CLOCK_MARGIN_SECONDS = 0.02  # by which one clock may be ahead of another


class TurnRunner:
    """Serves each session that may have a turn in a task of its own; the turns of one session run in order."""

    def __init__(
        self,
        run: GatewayRun,
        agent_for: Callable[[str], Agent],
        limits: TurnLimits,
        attachments: AttachmentCache,
        slots: RecoverySlots,
        access: Access,
    ) -> None:
        self._run = run
        self._access = access
        self._store = run.store
        self._wakeups = run.wakeups
        self._agent_for = agent_for
        self._limits = limits
        self._attachments = attachments
        self._slots = slots
        self._repair = SessionRepair(run)
        self._loop_task: asyncio.Task[None] | None = None  # of `run`; no session is served without it
        self._claiming = True
        self._gate = ClaimGate()
        self._sessions: dict[str, ServedSession] = {}  # by key; an idle session has no record
        self._abandoned: set[asyncio.Task[None]] = set()
        self._failures = FailureLog(log)
        self._backoff = Backoff()  # by key
        self.running: dict[str, RunningTurn] = {}  # by turn
        self.ends = AttemptEnds()
        run.wakeups.attach_runner(self.wake, self.wake_after_quiet, self._runs)

    def wake(self, key: str) -> None:
        """Serve a session that may have a turn to claim, or whose running turn may have a message to take in."""
        session = self._session(key)
        session.woken = True
        if session.running is not None:
            session.running.attempt.may_have_messages = True
        self._serve_if_woken(key, session)

    def _runs(self, key: str) -> bool:
        """Say whether a turn of a session runs here, so that its lease is ours."""
        session = self._sessions.get(key)
        return session is not None and session.running is not None

    def wake_after_quiet(self, key: str) -> None:
        """Wake a key when the quiet period of `collect` mode is over."""
        quiet_seconds = self._limits.rules.quiet_ms / 1000
        asyncio.get_running_loop().call_later(quiet_seconds + CLOCK_MARGIN_SECONDS, self.wake, key)

    async def stop_claiming(self) -> None:
        """Claim no more turns. After return: every turn that was being claimed is in `running`."""
        self._claiming = False
        await self._gate.wait_until_empty()

    def stop_attempt(self, turn: str) -> None:
        """Stop the attempt at a turn that somebody else has ended."""
        running = self.running.get(turn)
        if running is not None:
            running.attempt.display.silence()
            running.task.cancel()
            asyncio.get_running_loop().call_later(ATTEMPT_STOP_SECONDS, running.abandoned.set)
        else:
            self._gate.stop(turn)
            self.ends.signal(turn)
            self._wakeups.wake_cleanup()
            self._wakeups.relay.stop_attempt(turn)

    async def fail_attempt(self, attempt: Attempt, error: str) -> None:
        """End the turn of a running attempt as failed, and stop the attempt; a later attempt is left alone."""
        if not await fail_turn(attempt, error):
            return
        running = self.running.get(attempt.turn)
        if running is not None and running.attempt is attempt:
            self.stop_attempt(attempt.turn)

    async def run(self) -> None:
        """Serve every session as soon as it is woken, and look for claimable and ended turns regularly."""
        self._loop_task = asyncio.current_task()
        while True:
            await self._find_claimable()
            if not self._store.database.exclusive:
                await self._failures.contain("ended_turns_not_read", self._stop_ended())
            await self._wakeups.claims.wait()

    async def _stop_ended(self) -> None:
        """Stop the attempts at turns that another gateway has ended, and tell those who wait for such an end."""
        epochs = dict.fromkeys(self.ends.expected, 0) | {
            turn: running.attempt.epoch for turn, running in self.running.items()
        }
        for turn in await self._store.turns.ended_by_others(self._run.id, epochs) if epochs else ():
            self.stop_attempt(turn)

    async def _find_claimable(self) -> None:
        try:
            for key in await self._store.turns.claimable_keys(self._run.id):
                session = self._session(key)
                session.woken |= session.task is None
        except Unavailable as error:
            log.warning("claimable_turns_not_read", error=error.message)
        for key, session in list(self._sessions.items()):
            self._serve_if_woken(key, session)

    def _session(self, key: str) -> ServedSession:
        session = self._sessions.get(key)
        if session is None:
            session = self._sessions[key] = ServedSession()
        return session

    def _serve_if_woken(self, key: str, session: ServedSession) -> None:
        """Begin to serve a session that was woken and is not being served; forget one that is idle."""
        at_work = self._claiming and self._loop_task is not None and not self._loop_task.cancelling()
        if at_work and session.woken and session.task is None:
            session.woken = False
            session.task = self._run.tasks.create_task(self._serve(key, session))
        elif session.task is None and not session.woken:
            del self._sessions[key]

    async def _serve(self, key: str, session: ServedSession) -> None:
        """Run the turns of one session until there is none left."""
        try:
            turns = self._run_turns(key, session)
            delay = await self._failures.delay_after("session_failed", turns, self._backoff, key, key=key)
            if delay:
                self._gate.leave(key)
                await self._pause_session(key, session, delay)
        finally:
            self._gate.leave(key)
            session.task = None
            self._serve_if_woken(key, session)  # it may have been woken after its last claim

    async def _run_turns(self, key: str, session: ServedSession) -> None:
        while self._claiming:
            session.woken = False  # the claim sees whatever the session was woken for until now
            self._gate.enter(key)
            claim = await self._claim(key)
            if claim is None:
                self._wakeups.publish(key)  # reports may have become notices
                self._wakeups.delivery.wake()
                return
            if claim.superseded:
                self._wakeups.wake_cleanup()
            if self._gate.was_stopped(claim.turn.id):
                continue
            await self._run_attempt(claim, session)
            # A wake-up for messages that another gateway has stored may be lost.
            if not (claim.more_waiting or session.woken or not self._store.database.exclusive):
                return

    async def _pause_session(self, key: str, session: ServedSession, delay: float) -> None:
        """Repair a session that could not be served, tell its chat, and try again after a delay."""
        await self._failures.contain("chat_not_notified", self._repair.notify_if_unreadable(key), key=key)
        await self._failures.contain("turn_not_ended", self._fail_unstarted(key), key=key)
        await asyncio.sleep(delay)
        session.woken = True

    async def _fail_unstarted(self, key: str) -> None:
        turn = await self._repair.fail_unstarted(key, self.running)
        if turn is not None:
            self.ends.signal(turn)

    async def _claim(self, key: str) -> Claim | None:
        try:
            return await self._store.turns.claim(
                key,
                self._run.id,
                self._run.clocks.wall(),
                self._limits.rules,
                may_join=self._access.authorisation.may_join,
            )
        except Unavailable as error:
            log.warning("not_claimed", key=key, error=error.message)
            return None

    async def _run_attempt(self, claim: Claim, session: ServedSession) -> None:
        """Run an attempt to its end. Nothing is awaited before the attempt can be found and stopped."""
        turn = claim.turn
        attempt = Attempt(self._run, claim, self._limits, self._attachments, self._slots, self._access)
        attempt.task = task = asyncio.create_task(run_agent(attempt, self._agent_for, self._failures))
        running = RunningTurn(attempt, task, asyncio.Event())
        self.running[turn.id] = session.running = running
        attempt.may_have_messages |= session.woken
        self._gate.leave(turn.key)
        attempt.display.start_typing()
        log.info("claimed", turn=turn.id, key=turn.key, attempt=turn.attempt)
        self._wakeups.wake_delivery(turn.key)
        try:
            await self._wait_for_end(running)
        finally:
            attempt.display.stop_typing()
            task.cancel()
            del self.running[turn.id]
            session.running = None
            self.ends.signal(turn.id)
            if has_used_commands(attempt.view):
                self._wakeups.wake_cleanup()

    async def _wait_for_end(self, running: RunningTurn) -> None:
        """Wait for the end of an attempt; for an attempt that goes on after it was stopped, only for a while.

        An abandoned attempt is fenced: its turn has ended, so nothing that it still does is written or sent.
        """
        turn, task = running.attempt.turn, running.task
        abandoned = asyncio.create_task(running.abandoned.wait())
        try:
            await asyncio.wait({task, abandoned}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            abandoned.cancel()
        if not task.done():
            log.warning("attempt_abandoned", turn=turn)
            self._abandoned.add(task)
            task.add_done_callback(self._abandoned.discard)
        elif task.cancelled():
            log.info("attempt_stopped", turn=turn)
        else:
            task.result()

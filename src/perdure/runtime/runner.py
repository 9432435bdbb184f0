"""Claims a session's next turn and runs it. Claiming is the only way a turn begins to run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from perdure.agents.api import Agent
from perdure.containment import find_error, raise_uncontained
from perdure.core import texts
from perdure.core.address import background_number
from perdure.core.journal import TurnClaimed, TurnFailed, fold
from perdure.core.turn import TurnState
from perdure.errors import ModelError, NewerEntry, TurnMoved, TurnWaits, Unavailable
from perdure.logs import Log
from perdure.platforms.api import Adapter
from perdure.runtime.attempt import Attempt, TurnLimits, address_of
from perdure.runtime.backoff import Backoff
from perdure.runtime.gateway_run import GatewayRun
from perdure.runtime.previews import AnswerPreview
from perdure.runtime.recovery_slots import RecoverySlots
from perdure.runtime.tasks import FailureLog
from perdure.runtime.typing_indicator import TypingIndicator
from perdure.runtime.wakeups import POLL_SECONDS, WakeEvent
from perdure.store.claims import Claim
from perdure.store.journal import MAX_SEQ
from perdure.store.outbox import OutboxReply
from perdure.store.transitions import Turn
from perdure.tools.attachments import AttachmentFiles

log = Log("runner")

ATTEMPT_STOP_SECONDS = 3.0  # seconds that an attempt gets to end when it is cut off
CLOCK_MARGIN_SECONDS = 0.02  # seconds by which one clock may be ahead of another


class TurnRunner:
    """One task per session that has work; sessions run side by side, the turns of one in order."""

    def __init__(
        self,
        run: GatewayRun,
        agent_for: Callable[[str], Agent],
        limits: TurnLimits,
        attachments: AttachmentFiles,
        slots: RecoverySlots,
    ) -> None:
        self._run = run
        self._store = run.store
        self._clock = run.clocks.wall
        self._wakeups = run.wakeups
        self._agent_for = agent_for
        self._limits = limits
        self._attachments = attachments
        self._slots = slots
        run.wakeups.attach_runner(self.wake, self.wake_after_quiet)
        self._loop_task: asyncio.Task[None] | None = None  # who looks for work; nothing is begun without them
        self._woken_keys: set[str] = set()  # keys that may have work
        self._serving: dict[str, asyncio.Task[None]] = {}
        self._end_events: dict[str, asyncio.Event] = {}
        self._claiming = True
        self._claiming_keys: set[str] = set()  # keys between the claim and the first moment of the attempt
        self._claim_finished = WakeEvent()
        self._stopped_before_start: set[str] = (
            set()
        )  # turns that were ended while some key was entering: maybe its own
        self._abandon_events: dict[
            str, asyncio.Event
        ] = {}  # by turn; set when nobody waits for its attempt any more
        self._abandoned: set[asyncio.Task[None]] = set()
        self._failures = FailureLog(log)
        self._backoff = Backoff()  # by key
        self._attempt_by_key: dict[str, Attempt] = {}  # the newest attempt, by key
        self.attempts: dict[str, tuple[Attempt, asyncio.Task[None]]] = {}  # what runs now, by turn

    def wake(self, key: str) -> None:
        """Say that a key may have work, or what runs there something to hear."""
        self._woken_keys.add(key)
        if key in self._attempt_by_key:
            self._attempt_by_key[key].may_have_messages = True
        self._serve_if_woken(key)

    def wake_after_quiet(self, key: str) -> None:
        """Wake a key when the quiet period of `collect` mode is over."""
        quiet_seconds = self._limits.rules.quiet_ms / 1000
        asyncio.get_running_loop().call_later(quiet_seconds + CLOCK_MARGIN_SECONDS, self.wake, key)

    async def stop_claiming(self) -> None:
        """From now on no turn is claimed. After return: whatever was being claimed is among the attempts."""
        self._claiming = False
        while self._claiming_keys:
            await self._claim_finished.wait()

    def stop_attempt(self, turn: str) -> None:
        """Stop an attempt whose turn has been ended by somebody else."""
        if turn in self.attempts:
            self.attempts[turn][0].silence()
            self.attempts[turn][1].cancel()
            asyncio.get_running_loop().call_later(ATTEMPT_STOP_SECONDS, self._abandon_events[turn].set)
        else:
            if self._claiming_keys:
                self._stopped_before_start.add(turn)
            self._signal_end(turn)
            self._wakeups.wake_cleanup()

    async def fail_attempt(self, attempt: Attempt, error: str) -> None:
        """End the turn of an attempt that runs as failed, and then stop it. Nothing happens to a later attempt."""
        try:
            await attempt.fail(error)
        except TurnMoved as moved:
            log.info("attempt_ended", turn=attempt.turn, why=moved.message)
            return
        if attempt.turn in self.attempts and self.attempts[attempt.turn][0] is attempt:
            self.stop_attempt(attempt.turn)

    def end_event(self, turn: str) -> asyncio.Event:
        """An event that is set when the next attempt of this turn has ended."""
        return self._end_events.setdefault(turn, asyncio.Event())

    async def run(self) -> None:
        """From now on, serve whoever is woken at once, and look for forgotten work every few seconds."""
        self._loop_task = asyncio.current_task()
        while True:
            await self._find_claimable()
            await asyncio.sleep(POLL_SECONDS)

    async def _find_claimable(self) -> None:
        try:
            claimable = await self._store.turns.claimable_keys(self._run.id)
            self._woken_keys.update(key for key in claimable if key not in self._serving)
        except Unavailable as error:
            log.warning("cannot_look_for_work", error=error.message)
        for key in list(self._woken_keys):
            self._serve_if_woken(key)

    def _serve_if_woken(self, key: str) -> None:
        """Begin to serve a key that may have work, unless that is being done: then it is looked at once more."""
        at_work = self._claiming and self._loop_task is not None and not self._loop_task.cancelling()
        if at_work and key in self._woken_keys and key not in self._serving:
            self._woken_keys.discard(key)
            self._serving[key] = self._run.tasks.create_task(self._serve(key))

    async def _serve(self, key: str) -> None:
        """Run the turns of one session until there is none left."""
        try:
            turns = self._run_turns(key)
            pause = await self._failures.delay_after("session_failed", turns, self._backoff, key, key=key)
            if pause:
                self._finish_claim(key)
                await self._pause_session(key, pause)
        finally:
            self._finish_claim(key)
            del self._serving[key]
            self._serve_if_woken(key)  # it may have been woken while we were about to leave

    async def _run_turns(self, key: str) -> None:
        while self._claiming:
            self._woken_keys.discard(key)  # the claim sees whatever we were woken for until now
            self._claiming_keys.add(key)
            claim = await self._claim(key)
            if claim is None:
                self._wakeups.wake_delivery(key)  # news may have become notices
                return
            if claim.superseded:
                self._wakeups.wake_cleanup()
            if claim.turn.id in self._stopped_before_start:
                continue
            await self._run_attempt(claim)
            if not self._may_have_more(key, claim):
                return

    async def _pause_session(self, key: str, pause: float) -> None:
        """Let a session be that could not be served, for longer with every failure; tell its chat what failed."""
        await self._failures.contain("chat_not_told", self.notify_if_unreadable(key), key=key)
        await self._failures.contain("turn_not_ended", self._fail_unstarted(key), key=key)
        await asyncio.sleep(pause)
        self._woken_keys.add(key)  # whatever waits there is tried again

    async def _fail_unstarted(self, key: str) -> None:
        """End a turn that this run has claimed on record, though the claim failed here: nobody else would."""
        turn = await self._store.turns.current(key)
        if turn is None or turn.state is not TurnState.RUNNING or turn.id in self.attempts:
            return
        records = await self._store.journal.of_turn(turn.session, turn.id)
        claims = [record.entry for record in records if isinstance(record.entry, TurnClaimed)]
        if claims and (claims[-1].run, claims[-1].epoch) == (self._run.id, turn.epoch):
            told = OutboxReply(
                address_of(key), turn.id, (texts.turns.failed(texts.turns.NOT_STARTED),), fold(records).reply_to
            )
            await self._store.turns.append(
                turn, [TurnFailed(texts.turns.NOT_STARTED)], self._clock(), replies=[told]
            )
            log.warning("failed", turn=turn.id, key=key, error=texts.turns.NOT_STARTED)
            self._signal_end(turn.id)
            self._wakeups.wake_delivery(key)

    async def notify_if_unreadable(self, key: str) -> None:
        """Tell a chat, once per session, that its conversation cannot be read, if that is so."""
        session = await self._store.sessions.current(key)
        if session is None:
            return
        try:
            await self._store.journal.read_after(session.id, 0, MAX_SEQ)
        except NewerEntry:
            told = OutboxReply(address_of(key), f"unreadable.{session.id}", (texts.turns.NEWER_ENTRY,))
            await self._store.outbox.enqueue(key, told, self._clock())
            self._wakeups.wake_delivery(key)

    def _may_have_more(self, key: str, claim: Claim) -> bool:
        """Whether to claim again. Of what another gateway took in meanwhile, nobody tells us."""
        return claim.more_waiting or key in self._woken_keys or not self._store.database.exclusive

    def _finish_claim(self, key: str) -> None:
        self._claiming_keys.discard(key)
        if not self._claiming_keys:
            self._stopped_before_start.clear()
        self._claim_finished.wake()

    async def _claim(self, key: str) -> Claim | None:
        try:
            return await self._store.turns.claim(key, self._run.id, self._clock(), self._limits.rules)
        except Unavailable as error:
            log.warning("not_claimed", key=key, error=error.message)
            return None

    async def _run_attempt(self, claim: Claim) -> None:
        """Run it to its end. From the first moment it can be found and cut off: nothing is awaited before that."""
        turn = claim.turn
        typing = TypingIndicator(address_of(turn.key), self._preview_adapter(turn))
        attempt = Attempt(
            self._run,
            claim,
            self._limits,
            preview=self._make_preview(turn),
            typing=typing,
            attachments=self._attachments,
            slots=self._slots,
        )
        attempt.task = task = asyncio.create_task(self._run_agent(attempt))
        self.attempts[turn.id], self._abandon_events[turn.id] = (attempt, task), asyncio.Event()
        attempt.may_have_messages |= turn.key in self._woken_keys
        self._attempt_by_key[turn.key] = attempt
        self._finish_claim(turn.key)
        typing.begin()
        log.info("claimed", turn=turn.id, key=turn.key, attempt=turn.attempt)
        self._wakeups.wake_delivery(turn.key)
        try:
            await self._wait_for_end(turn.id, task)
        finally:
            typing.end()
            task.cancel()
            del self.attempts[turn.id], self._abandon_events[turn.id], self._attempt_by_key[turn.key]
            self._signal_end(turn.id)
            if attempt.used_commands:
                self._wakeups.wake_cleanup()

    def _make_preview(self, turn: Turn) -> AnswerPreview:
        address, shows = address_of(turn.key), self._preview_adapter(turn)
        return AnswerPreview(self._store, turn, address, shows, lease=self._run.lease, clock=self._clock)

    def _preview_adapter(self, turn: Turn) -> Callable[[], Adapter | None]:
        """Where a turn is seen before it is done. What is done in the background is not."""
        platform, connected = address_of(turn.key).platform, self._run.connections.connected
        return lambda: connected.get(platform) if background_number(turn.key) is None else None

    async def _wait_for_end(self, turn: str, task: asyncio.Task[None]) -> None:
        """Wait for the end of an attempt; of one that goes on though it was cut off, only for a while.

        What that one still does is fenced: its turn has ended, so nothing it says is written or sent.
        """
        given_up = asyncio.create_task(self._abandon_events[turn].wait())
        try:
            await asyncio.wait({task, given_up}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            given_up.cancel()
        if not task.done():
            log.warning("attempt_abandoned", turn=turn)
            self._abandoned.add(task)
            task.add_done_callback(self._abandoned.discard)
        elif task.cancelled():
            log.info("attempt_cut_off", turn=turn)
        else:
            task.result()

    def _signal_end(self, turn: str) -> None:
        """Tell whoever waits for the end of an attempt that there is none, or no more."""
        self._end_events.pop(turn, asyncio.Event()).set()

    async def _run_agent(self, attempt: Attempt) -> None:
        try:
            await attempt.load_history()
            await attempt.append_recovery_note()
            agent = self._agent_for(address_of(attempt.key).platform)
            await attempt.finish(await agent.run(attempt))
        except BaseException as error:  # noqa: BLE001 reason: whatever an agent does, its session must stay usable
            raise_uncontained(error)
            await self._end_with_error(attempt, error)
        finally:
            await attempt.stop_showing()

    async def _end_with_error(self, attempt: Attempt, error: BaseException) -> None:
        """End an attempt with what its agent raised; whatever that is, it ends this turn at most."""
        moved = find_error(error, TurnMoved, TurnWaits)
        if moved is not None:
            log.info("attempt_ended", turn=attempt.turn, why=moved.message)
        elif isinstance(error, ModelError):
            await self._fail_until_saved(attempt, error.message)
        else:
            log.crash("agent_crashed", error, turn=attempt.turn)
            newer = isinstance(error, NewerEntry)
            await self._fail_until_saved(attempt, texts.turns.NEWER_ENTRY if newer else texts.turns.AGENT_CRASHED)

    async def _fail_until_saved(self, attempt: Attempt, error: str) -> None:
        """End the turn as failed, however often that must be tried: a turn that nobody runs must not stay open."""
        backoff = Backoff()
        while True:
            if await self._failures.contain("failure_not_saved", self._fail_once(attempt, error)):
                return
            await asyncio.sleep(backoff.failed())

    async def _fail_once(self, attempt: Attempt, error: str) -> None:
        try:
            await attempt.fail(error)
        except TurnMoved as moved:
            log.info("attempt_ended", turn=attempt.turn, why=moved.message)

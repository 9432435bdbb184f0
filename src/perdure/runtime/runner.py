"""Claims a session's next turn and runs it. Claiming is the only way a turn begins to run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from perdure.agents.api import Agent
from perdure.boundary import find, raise_uncontained
from perdure.core import notes
from perdure.core.address import work_of
from perdure.core.journal import Claimed, Failed, fold
from perdure.core.queueing import Rules
from perdure.core.turn import State
from perdure.errors import ModelError, NewerEntry, TurnMoved, TurnWaits, Unavailable
from perdure.logs import Log
from perdure.platforms.api import Adapter
from perdure.runtime.attempt import Attempt, address_of
from perdure.runtime.bell import POLL, Bell
from perdure.runtime.lease import Lease
from perdure.runtime.previews import Shown
from perdure.runtime.tasks import Failures, Pauses, Tasks
from perdure.runtime.typing import Typing
from perdure.store.api import Store
from perdure.store.claims import Claim
from perdure.store.ids import Clock
from perdure.store.journal import LATEST
from perdure.store.moves import Turn
from perdure.store.outbox import Owed
from perdure.tools.cabinet import Cabinet

log = Log("runner")

PATIENCE = 3.0  # seconds that an attempt gets to end when it is cut off
MARGIN = 0.02  # seconds by which one clock may be ahead of another


class Runner:
    """One task per session that has work; sessions run side by side, the turns of one in order."""

    def __init__(
        self,
        store: Store,
        agent_on: Callable[[str], Agent],
        run: str,
        *,
        lease: Lease,
        clock: Clock,
        steady: Clock,
        connected: Mapping[str, Adapter],
        max_length: Callable[[str], int | None],
        max_tokens: int | None,
        approval_ms: int,
        rules: Rules,
        cabinet: Cabinet,
        ended: Callable[[], None],
        changed: Callable[[str], None],
        owes: Callable[[str], None],
        group: Tasks,
    ) -> None:
        self._store = store
        self._agent_on = agent_on
        self._run = run
        self._lease = lease
        self._clock = clock
        self._steady = steady
        self._connected = connected
        self._max_length = max_length
        self._max_tokens = max_tokens
        self._approval_ms = approval_ms
        self._rules = rules
        self._cabinet = cabinet
        self._ended = ended
        self._changed = changed
        self._owes = owes  # the same, and something may be owed to the chat
        self._group = group
        self._worker: asyncio.Task[None] | None = None  # who looks for work; nothing is begun without them
        self._hints: set[str] = set()  # keys that may have work
        self._serving: dict[str, asyncio.Task[None]] = {}
        self._over: dict[str, asyncio.Event] = {}
        self._claiming = True
        self._entering: set[str] = set()  # keys between the claim and the first moment of the attempt
        self._entered = Bell()
        self._cut_early: set[str] = set()  # turns that were ended while some key was entering: maybe its own
        self._given_up: dict[str, asyncio.Event] = {}  # by turn; set when nobody waits for its attempt any more
        self._abandoned: set[asyncio.Task[None]] = set()
        self._failures = Failures(log)
        self._pauses = Pauses()  # by key
        self._listening: dict[str, Attempt] = {}  # the newest attempt, by key
        self.attempts: dict[str, tuple[Attempt, asyncio.Task[None]]] = {}  # what runs now, by turn

    def wake(self, key: str) -> None:
        """Say that a key may have work, or what runs there something to hear."""
        self._hints.add(key)
        if key in self._listening:
            self._listening[key].news = True
        self._serve_hinted(key)

    def wake_later(self, key: str) -> None:
        """Say so when nothing more has come for long enough."""
        asyncio.get_running_loop().call_later(self._rules.quiet_ms / 1000 + MARGIN, self.wake, key)

    async def stop_claiming(self) -> None:
        """From now on no turn is claimed. After return: whatever was being claimed is among the attempts."""
        self._claiming = False
        while self._entering:
            await self._entered.wait()

    def cut_off(self, turn: str) -> None:
        """Stop an attempt whose turn has been ended by somebody else."""
        if turn in self.attempts:
            self.attempts[turn][0].hush()
            self.attempts[turn][1].cancel()
            asyncio.get_running_loop().call_later(PATIENCE, self._given_up[turn].set)
        else:
            if self._entering:
                self._cut_early.add(turn)
            self._let_go(turn)
            self._ended()

    async def give_up(self, attempt: Attempt, error: str) -> None:
        """End the turn of an attempt that runs as failed, and then stop it. Nothing happens to a later attempt."""
        try:
            await attempt.fail(error)
        except TurnMoved as moved:
            log.info("attempt_ended", turn=attempt.turn, why=moved.message)
            return
        if attempt.turn in self.attempts and self.attempts[attempt.turn][0] is attempt:
            self.cut_off(attempt.turn)

    def over(self, turn: str) -> asyncio.Event:
        """An event that is set when the next attempt of this turn has ended."""
        return self._over.setdefault(turn, asyncio.Event())

    async def work(self) -> None:
        """From now on, serve whoever is woken at once, and look for forgotten work every few seconds."""
        self._worker = asyncio.current_task()
        while True:
            await self._look_around()
            await asyncio.sleep(POLL)

    async def _look_around(self) -> None:
        try:
            claimable = await self._store.turns.claimable(self._run)
            self._hints.update(key for key in claimable if key not in self._serving)
        except Unavailable as error:
            log.warning("cannot_look_for_work", error=error.message)
        for key in list(self._hints):
            self._serve_hinted(key)

    def _serve_hinted(self, key: str) -> None:
        """Begin to serve a key that may have work, unless that is being done: then it is looked at once more."""
        at_work = self._claiming and self._worker is not None and not self._worker.cancelling()
        if at_work and key in self._hints and key not in self._serving:
            self._hints.discard(key)
            self._serving[key] = self._group.create_task(self._serve(key))

    async def _serve(self, key: str) -> None:
        """Run the turns of one session until there is none left."""
        try:
            turns = self._run_turns(key)
            pause = await self._failures.pause_after("session_failed", turns, self._pauses, key, key=key)
            if pause:
                self._enter(key)
                await self._rest(key, pause)
        finally:
            self._enter(key)
            del self._serving[key]
            self._serve_hinted(key)  # it may have been woken while we were about to leave

    async def _run_turns(self, key: str) -> None:
        while self._claiming:
            self._hints.discard(key)  # the claim sees whatever we were woken for until now
            self._entering.add(key)
            claim = await self._claim(key)
            if claim is None:
                self._owes(key)  # news may have become notices
                return
            if claim.superseded:
                self._ended()
            if claim.turn.id in self._cut_early:
                continue
            await self._run_attempt(claim)
            if not self._may_have_more(key, claim):
                return

    async def _rest(self, key: str, pause: float) -> None:
        """Let a session be that could not be served, for longer with every failure; tell its chat what failed."""
        await self._failures.contain("chat_not_told", self.tell_if_unreadable(key), key=key)
        await self._failures.contain("turn_not_ended", self._fail_unbegun(key), key=key)
        await asyncio.sleep(pause)
        self._hints.add(key)  # whatever waits there is tried again

    async def _fail_unbegun(self, key: str) -> None:
        """End a turn that this run has claimed on record, though the claim failed here: nobody else would."""
        turn = await self._store.turns.begun(key)
        if turn is None or turn.state is not State.RUNNING or turn.id in self.attempts:
            return
        records = await self._store.journal.of_turn(turn.session, turn.id)
        claims = [record.entry for record in records if isinstance(record.entry, Claimed)]
        if claims and (claims[-1].run, claims[-1].epoch) == (self._run, turn.epoch):
            told = Owed(address_of(key), turn.id, (notes.turn_failed(notes.NOT_BEGUN),), fold(records).anchor)
            await self._store.turns.append(turn, [Failed(notes.NOT_BEGUN)], self._clock(), owed=[told])
            log.warning("failed", turn=turn.id, key=key, error=notes.NOT_BEGUN)
            self._let_go(turn.id)
            self._owes(key)

    async def tell_if_unreadable(self, key: str) -> None:
        """Tell a chat, once per session, that its conversation cannot be read, if that is so."""
        session = await self._store.sessions.current(key)
        if session is None:
            return
        try:
            await self._store.journal.after(session.id, 0, LATEST)
        except NewerEntry:
            told = Owed(address_of(key), f"unreadable.{session.id}", (notes.NEWER_ENTRY,))
            await self._store.outbox.owe(key, told, self._clock())
            self._owes(key)

    def _may_have_more(self, key: str, claim: Claim) -> bool:
        """Whether to claim again. Of what another gateway took in meanwhile, nobody tells us."""
        return claim.more or key in self._hints or not self._store.database.sole

    def _enter(self, key: str) -> None:
        self._entering.discard(key)
        if not self._entering:
            self._cut_early.clear()
        self._entered.ring()

    async def _claim(self, key: str) -> Claim | None:
        try:
            return await self._store.turns.claim(key, self._run, self._clock(), self._rules)
        except Unavailable as error:
            log.warning("not_claimed", key=key, error=error.message)
            return None

    async def _run_attempt(self, claim: Claim) -> None:
        """Run it to its end. From the first moment it can be found and cut off: nothing is awaited before that."""
        turn = claim.turn
        typing = Typing(address_of(turn.key), self._shows(turn))
        attempt = Attempt(
            self._store,
            claim,
            lease=self._lease,
            clock=self._clock,
            steady=self._steady,
            max_length=self._max_length(address_of(turn.key).platform),
            max_tokens=self._max_tokens,
            approval_ms=self._approval_ms,
            rules=self._rules,
            shown=self._preview_of(turn),
            typing=typing,
            cabinet=self._cabinet,
            changed=self._changed,
            owes=self._owes,
        )
        task = asyncio.create_task(self._think(attempt))
        self.attempts[turn.id], self._given_up[turn.id] = (attempt, task), asyncio.Event()
        attempt.news |= turn.key in self._hints
        self._listening[turn.key] = attempt
        self._enter(turn.key)
        typing.begin()
        log.info("claimed", turn=turn.id, key=turn.key, attempt=turn.attempt)
        self._owes(turn.key)
        try:
            await self._until_over(turn.id, task)
        finally:
            typing.end()
            task.cancel()
            del self.attempts[turn.id], self._given_up[turn.id], self._listening[turn.key]
            self._let_go(turn.id)
            if attempt.used_commands:
                self._ended()

    def _preview_of(self, turn: Turn) -> Shown:
        address, shows = address_of(turn.key), self._shows(turn)
        return Shown(self._store, turn, address, shows, lease=self._lease, clock=self._clock)

    def _shows(self, turn: Turn) -> Callable[[], Adapter | None]:
        """Where a turn is seen before it is done. What is done in the background is not."""
        platform = address_of(turn.key).platform
        return lambda: self._connected.get(platform) if work_of(turn.key) is None else None

    async def _until_over(self, turn: str, task: asyncio.Task[None]) -> None:
        """Wait for the end of an attempt; of one that goes on though it was cut off, only for a while.

        What that one still does is fenced: its turn has ended, so nothing it says is written or sent.
        """
        given_up = asyncio.create_task(self._given_up[turn].wait())
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

    def _let_go(self, turn: str) -> None:
        """Tell whoever waits for the end of an attempt that there is none, or no more."""
        self._over.pop(turn, asyncio.Event()).set()

    async def _think(self, attempt: Attempt) -> None:
        try:
            await attempt.recall()
            await attempt.brief()
            agent = self._agent_on(address_of(attempt.key).platform)
            await attempt.finish(await agent.run(attempt))
        except BaseException as error:  # noqa: BLE001 reason: whatever an agent does, its session must stay usable
            raise_uncontained(error)
            await self._end(attempt, error)
        finally:
            await attempt.hide()

    async def _end(self, attempt: Attempt, error: BaseException) -> None:
        """End an attempt with what its agent raised; whatever that is, it ends this turn at most."""
        moved = find(error, TurnMoved, TurnWaits)
        if moved is not None:
            log.info("attempt_ended", turn=attempt.turn, why=moved.message)
        elif isinstance(error, ModelError):
            await self._fail(attempt, error.message)
        else:
            log.crash("agent_crashed", error, turn=attempt.turn)
            newer = isinstance(error, NewerEntry)
            await self._fail(attempt, notes.NEWER_ENTRY if newer else notes.AGENT_CRASHED)

    async def _fail(self, attempt: Attempt, error: str) -> None:
        """End the turn as failed, however often that must be tried: a turn that nobody runs must not stay open."""
        pauses = Pauses()
        while True:
            if await self._failures.contain("failure_not_saved", self._failed(attempt, error)):
                return
            await asyncio.sleep(pauses.after_failure())

    async def _failed(self, attempt: Attempt, error: str) -> None:
        try:
            await attempt.fail(error)
        except TurnMoved as moved:
            log.info("attempt_ended", turn=attempt.turn, why=moved.message)

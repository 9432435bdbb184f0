"""Finds turns that were lost, decides about them, and applies the decision. It never executes anything."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Sequence

from msgspec import Struct

from perdure.boundary import contain
from perdure.core import notes
from perdure.core.address import Address, parse_session_key, work_of
from perdure.core.delivery import split
from perdure.core.journal import Cancelled, Decided, Entry, Finished, Interruption, Requeued, TurnView, fold
from perdure.core.messages import Button
from perdure.core.recovery import (
    SUPERSEDED,
    Choice,
    Decision,
    Reason,
    RecoveryPolicy,
    Rule,
    Surroundings,
    decide,
)
from perdure.core.session import SessionState, Why
from perdure.errors import NewerEntry
from perdure.logs import Log
from perdure.runtime.access import OPERATOR, Access
from perdure.runtime.runner import Runner
from perdure.runtime.tasks import Failures, Tasks
from perdure.store.api import Store
from perdure.store.ids import Clock
from perdure.store.moves import Turn
from perdure.store.outbox import Owed
from perdure.store.runs import Started

log = Log("recoverer")

ONE_AT_A_TIME_AFTER = 2  # unclean starts in a row: then a crash counts only for the turn that ran alone
PAUSED_AFTER = 3  # unclean starts within a few minutes, with work to resume
# Nobody is told of these: the person may not talk to us, was told when the session was set aside, or is nowhere.
SILENT = frozenset((Rule.UNAUTHORISED, Rule.NOT_OPEN, Rule.NO_ADDRESS))


class Limits(Struct, frozen=True):
    """What recovery may do, by the configuration."""

    policy: Callable[[Address], RecoveryPolicy]
    at_once: int


class Recoverer:
    """Decides about interrupted turns, platform by platform as each is connected."""

    def __init__(
        self,
        store: Store,
        started: Started,
        runner: Runner,
        *,
        limits: Limits,
        access: Access,
        clock: Clock,
        served: Container[str],
        alive: Callable[[TurnView], bool],
        connected: Container[str],
        max_length: Callable[[str], int | None],
        changed: Callable[[str], None],
        group: Tasks,
    ) -> None:
        self._store = store
        self._started = started
        self._runner = runner
        self._limits = limits
        alone = started.unclean_in_a_row >= ONE_AT_A_TIME_AFTER
        self._slots = asyncio.Semaphore(1 if alone else limits.at_once)
        self._access = access
        self._clock = clock
        self._served = served
        self._alive = alive  # whether a command that a turn waits for runs still
        self._connected = connected
        self._max_length = max_length
        self._changed = changed
        self._group = group
        self._deciding: dict[str, asyncio.Task[None]] = {}  # by turn
        self.paused = False
        self._failures = Failures(log)
        self.untaken = True  # turns of dead runs may not all be taken over
        self.unfinished = False  # a decision could not be written, and must be made again

    async def mark_lost(self, reason: Reason) -> int:
        """Take over every turn whose run is dead, and call every send of a dead run unknown."""
        lost = await self._store.turns.lost()
        taken = await asyncio.gather(*(self._is_taken_over(turn, reason) for turn in lost))  # they share commits
        await self._store.outbox.orphans(self._clock())
        self.untaken = not all(taken)
        return len(lost)

    async def _is_taken_over(self, turn: Turn, reason: Reason) -> bool:
        """Take one turn over. One that fails is tried again with the next heartbeat, and keeps no other."""
        return await self._failures.contain("not_taken_over", self._take_over(turn, reason), turn=turn.id)

    async def _take_over(self, turn: Turn, reason: Reason) -> None:
        run, now = self._started.run, self._clock()
        taken = await self._store.turns.interrupt(turn.id, turn.key, reason, run, now)
        if taken is not None:
            log.info("taken_over", turn=turn.id, key=turn.key, state=taken.state)

    def pause_if_crashing(self, lost: int) -> None:
        """The crash-loop breaker: for this run nothing goes on by itself, but everybody is served."""
        self.paused = bool(lost) and self._started.unclean_lately >= PAUSED_AFTER
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
        interrupted = await self._store.turns.interrupted(self._started.run)
        self.unfinished = False
        for turn in interrupted:
            there = parse_session_key(turn.key)[1].platform
            wanted = platform in (None, there) or there not in self._served
            if wanted and turn.id not in self._deciding:
                self._deciding[turn.id] = self._group.create_task(self._recover(turn))

    def stop(self) -> None:
        """Begin nothing more: whatever waits for its place is found interrupted at the next start."""
        for task in self._deciding.values():
            task.cancel()

    async def _recover(self, turn: Turn) -> None:
        """Decide about one turn. After a failure the next heartbeat tries again; unreadable entries are told."""

        def report(error: BaseException) -> None:
            self._failures.report("not_recovered", error, turn=turn.id)
            self.unfinished |= not isinstance(error, NewerEntry)

        try:
            if not await contain(self._decide_and_apply(turn), report):
                await self._runner.tell_if_unreadable(turn.key)
        finally:
            self._deciding.pop(turn.id, None)

    async def _decide_and_apply(self, turn: Turn) -> None:
        view = fold(await self._store.journal.of_turn(turn.session, turn.id))
        address = parse_session_key(turn.key)[1]
        around = await self._surroundings(turn, view, address)
        decision = decide(view, around, self._limits.policy(address), self._clock())
        await self._apply(turn, view, address, decision)

    async def _surroundings(self, turn: Turn, view: TurnView, address: Address) -> Surroundings:
        session = await self._store.sessions.get(turn.session)
        return Surroundings(
            session=session.state if session else SessionState.CLOSED,
            last_sign_of_life=await self._last_sign_of_life(view),
            has_address=address.platform in self._served,
            authorised=await self._is_authorised(turn, view),
            connected=address.platform in self._connected,
            attached_alive=self._alive(view),
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

    async def _apply(self, turn: Turn, view: TurnView, address: Address, decision: Decision) -> None:
        log.info("decided", turn=turn.id, key=turn.key, decision=decision.choice, rule=decision.rule)
        decided = Decided(decision.choice, decision.why, decision.evidence, decision.rule)
        match decision.choice:
            case Choice.RESUME:
                await self._resume(turn, view, decided)
            case Choice.DELIVER:
                await self._deliver(turn, view, address, decided)
            case Choice.CLEAR:
                await self._write(turn, [decided, Cancelled(Why.CLEARED)])
            case Choice.WAIT_FOR_USER if view.question is not None:
                await self._write(turn, [decided, view.question])
            case Choice.SUSPEND:
                text = notes.set_aside(work_of(turn.key), decision.why)
                told = Owed(address, f"{turn.id}.suspended", (text,))
                if await self._write(turn, [decided, Cancelled(Why.SUSPENDED)], [told]):
                    self._runner.cut_off(turn.id)
            case _:
                await self._hold(turn, view, address, decided)
        self._runner.wake(turn.key)  # messages may wait behind it
        self._changed(turn.key)

    async def _resume(self, turn: Turn, view: TurnView, decided: Decided) -> None:
        """Put the turn back in the queue when there is a place; the runner claims it like any other."""
        async with self._slots:
            if not await self._is_authorised(turn, view):
                self.unfinished = True  # somebody was removed while it waited for its place: decided anew
                return
            over = self._runner.over(turn.id)
            if await self._write(turn, [decided, Requeued()]):
                self._runner.wake(turn.key)
                await over.wait()

    async def _deliver(self, turn: Turn, view: TurnView, address: Address, decided: Decided) -> None:
        text = view.responses[-1].text
        parts = tuple(split(notes.of_work(work_of(turn.key), text), self._max_length(address.platform)))
        owed = [Owed(address, turn.id, parts, view.anchor)]
        await self._write(turn, [decided, Finished(text)], owed if any(parts) else [])

    async def _hold(self, turn: Turn, view: TurnView, address: Address, decided: Decided) -> None:
        """The turn stays as it is. The same decision again is not journalled again, and told only once."""
        last = view.decided
        if last is None or (last.decision, last.rule) != (decided.decision, decided.rule):
            told = await self._words(turn, view.interrupted, address, decided) if view.interrupted else []
            await self._write(turn, [decided], told)

    async def _words(self, turn: Turn, mark: Interruption, address: Address, decided: Decided) -> list[Owed]:
        """What the chat is told: nothing where nobody may hear it, or where a message joins the turn at once."""
        superseded = decided.rule in SUPERSEDED
        waiting = await self._store.inbox.waiting(turn.key)
        if not superseded and await self._store.inbox.waiting(turn.key, mark.position):
            return []
        if decided.decision == Choice.ASK_USER:
            text = notes.ask_to_resume(mark.reason)
            # They name the turn: pressed later, they still mean this one, whatever was cut off since.
            verbs = [(verb, notes.command(verb, work_of(turn.key), turn.id)) for verb in ("resume", "drop")]
            buttons = tuple(Button(verb.capitalize(), command) for verb, command in verbs)
            return [self._notice(turn, address, f"ask.{mark.seq}", text, buttons)]
        if decided.decision != Choice.SKIP or decided.rule in SILENT:
            return []
        left = superseded and waiting  # a message takes its place at once, and /resume comes too late
        text = notes.left_behind(decided.why) if left else notes.will_not_go_on(decided.why, waiting)
        return [self._notice(turn, address, f"held.{mark.seq}", text)]

    def _notice(
        self, turn: Turn, address: Address, name: str, text: str, buttons: tuple[Button, ...] = ()
    ) -> Owed:
        return Owed(address, f"{turn.id}.{name}", (notes.about_work(work_of(turn.key), text),), buttons=buttons)

    async def _write(self, turn: Turn, entries: Sequence[Entry], owed: Sequence[Owed] = ()) -> bool:
        return await self._store.turns.append(turn, entries, self._clock(), owed=owed) is not None

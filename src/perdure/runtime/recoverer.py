"""Finds turns that were lost, decides about them, and applies the decision. It never executes anything."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container

from perdure.core.address import parse_session_key
from perdure.core.delivery import split
from perdure.core.journal import Cancelled, Decided, Entry, Finished, Requeued, TurnView, fold
from perdure.core.recovery import Choice, Decision, Reason, RecoveryPolicy, Surroundings, decide
from perdure.core.session import SessionState, Why
from perdure.errors import Unavailable
from perdure.logs import Log
from perdure.runtime.runner import Runner
from perdure.store.api import Store
from perdure.store.ids import Clock
from perdure.store.outbox import Owed
from perdure.store.turns import Turn

log = Log("recoverer")


class Recoverer:
    """Decides about interrupted turns, platform by platform as each is connected."""

    def __init__(
        self,
        store: Store,
        run: str,
        runner: Runner,
        *,
        policy: RecoveryPolicy,
        at_once: int,
        clock: Clock,
        connected: Container[str],
        max_length: Callable[[str], int | None],
        group: asyncio.TaskGroup,
    ) -> None:
        self._store = store
        self._run = run
        self._runner = runner
        self._policy = policy
        self._slots = asyncio.Semaphore(at_once)
        self._clock = clock
        self._connected = connected
        self._max_length = max_length
        self._group = group
        self._resuming: set[str] = set()

    async def mark_lost(self, reason: Reason) -> int:
        """Take over every turn whose run is dead, and call every send of a dead run unknown."""
        lost = await self._store.turns.lost()
        for turn in lost:
            taken = await self._store.turns.interrupt(turn.id, turn.key, reason, self._run, self._clock())
            if taken is not None:
                log.info("taken_over", turn=turn.id, key=turn.key, state=taken.state)
        await self._store.outbox.orphans(self._clock())
        return len(lost)

    async def recover(self) -> None:
        """Decide about every interrupted turn, and apply what was decided."""
        for turn in await self._store.turns.interrupted(self._run):
            if turn.id not in self._resuming:
                self._resuming.add(turn.id)
                self._group.create_task(self._recover(turn))

    async def _recover(self, turn: Turn) -> None:
        try:
            view = fold(await self._store.journal.of_turn(turn.session, turn.id))
            decision = decide(view, await self._surroundings(turn, view), self._policy, self._clock())
            await self._apply(turn, view, decision)
        except Unavailable as error:
            log.warning("not_recovered", turn=turn.id, error=error.message)
        finally:
            self._resuming.discard(turn.id)

    async def _surroundings(self, turn: Turn, view: TurnView) -> Surroundings:
        session = await self._store.sessions.get(turn.session)
        return Surroundings(
            session=session.state if session else SessionState.CLOSED,
            last_sign_of_life=await self._last_sign_of_life(view),
            connected=parse_session_key(turn.key)[1].platform in self._connected,
        )

    async def _last_sign_of_life(self, view: TurnView) -> int | None:
        """The newest content, or the last heartbeat of the run that wrote it."""
        content = view.content[-1].at if view.content else None
        run = await self._store.runs.get(view.content_run) if view.content_run else None
        signs = [content, run.heartbeat_at if run else None]
        return max((at for at in signs if at is not None), default=None)

    async def _apply(self, turn: Turn, view: TurnView, decision: Decision) -> None:
        log.info("decided", turn=turn.id, key=turn.key, decision=decision.choice, why=decision.why)
        decided = Decided(decision.choice, decision.why, decision.evidence, decision.rule)
        match decision.choice:
            case Choice.RESUME:
                await self._resume(turn, decided)
            case Choice.DELIVER:
                await self._deliver(turn, view, decided)
            case Choice.CLEAR:
                await self._write(turn, decided, Cancelled(Why.CLEARED))
            case Choice.WAIT_FOR_USER if view.question is not None:
                await self._write(turn, decided, view.question)
            case Choice.SUSPEND:
                await self._write(turn, decided, Cancelled(Why.SUSPENDED))
            case _:
                await self._hold(turn, view, decided)

    async def _resume(self, turn: Turn, decided: Decided) -> None:
        """Put the turn back in the queue when there is a place; the runner claims it like any other."""
        async with self._slots:
            over = self._runner.over(turn.id)
            if await self._write(turn, decided, Requeued()):
                self._runner.wake(turn.key)
                await over.wait()

    async def _deliver(self, turn: Turn, view: TurnView, decided: Decided) -> None:
        text, address = view.responses[-1].text, parse_session_key(turn.key)[1]
        parts = tuple(split(text, self._max_length(address.platform)))
        owed = Owed(address, turn.id, parts, view.causes[-1].message if view.causes else None)
        await self._store.turns.append(turn, [decided, Finished(text)], self._clock(), owed=[owed])
        self._runner.wake(turn.key)

    async def _hold(self, turn: Turn, view: TurnView, decided: Decided) -> None:
        """The turn stays as it is; the decision is journalled unless it is the one journalled last."""
        last = view.decided
        if last is None or (last.decision, last.why) != (decided.decision, decided.why):
            await self._write(turn, decided)
        self._runner.wake(turn.key)  # a message may wait behind it

    async def _write(self, turn: Turn, *entries: Entry) -> bool:
        return await self._store.turns.append(turn, entries, self._clock()) is not None

"""Processes in the background: put on record, watched, and their end told once.

A task waits for the end of each without using the processor. Only those whose output is watched for something are
looked at again and again. Whatever was missed while no gateway ran is found at the next start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

from perdure.core import notes
from perdure.core.journal import fold
from perdure.core.turn import FINAL
from perdure.errors import OutcomeUnknown, PerdureError, Unavailable
from perdure.logs import Log
from perdure.runtime.bell import Bell
from perdure.runtime.glances import Glances
from perdure.store.api import Store
from perdure.store.ids import Clock
from perdure.store.processes import WINDOW_MS, End, Found, Notice, Process, Wish
from perdure.tools import kept, watching
from perdure.tools.kept import Ended, Lost, Missing, Refused, Running, Sighting, Unclaimed
from perdure.tools.ledger import Known, Ledger
from perdure.tools.processes import ending, last_place, tail
from perdure.tools.threads import in_thread
from perdure.tools.watching import Look, Test

log = Log("processes")

T = TypeVar("T")

LOOK = 60.0  # seconds between two looks for processes that nobody told us of
STORE_PAUSE = 1.0  # seconds between tries while the store takes no writes
TAIL = 2000  # bytes of output that are told with the end


class Background:
    """The processes that this installation has the files of."""

    def __init__(
        self,
        store: Store,
        root: Path,
        run: str,
        *,
        clock: Clock,
        told: Callable[[str], None],
        group: asyncio.TaskGroup,
    ) -> None:
        self._store = store
        self._root = root
        self._run = run
        self._clock = clock
        self._told = told  # something waits for a key, or is owed to its chat
        self._group = group
        self._instance = ""
        self._bell = Bell()
        self._glances = Glances(clock)
        self._attended: dict[str, asyncio.Task[None]] = {}

    async def catch_up(self) -> None:
        """Tell of whatever ended while no gateway ran, before its files can be cleared away."""
        run = await self._store.runs.get(self._run)
        self._instance = run.instance if run else ""
        over = [(process, kept.look(self._place(process))) for process in await self._ours()]
        ended = [self._conclude(process, seen) for process, seen in over if isinstance(seen, Ended | Lost)]
        await asyncio.gather(*ended)  # they share their commits

    async def work(self) -> None:
        """See to it that each process that lives is attended to."""
        self._attended["glances"] = self._group.create_task(self._glances.work())
        while True:
            try:
                for process in await self._ours():
                    if process.id not in self._attended:
                        task = self._group.create_task(self._attend(process))
                        self._attended[process.id] = task
            except Unavailable as error:
                log.warning("processes_not_looked_at", error=error.message)
            await self._bell.wait(LOOK)

    def stop(self) -> None:
        """Attend to nothing more: the next start finds what is missed."""
        for task in self._attended.values():
            task.cancel()

    # ── the ledger ──────────────────────────────────────────────────────────────────────────────────────────

    async def record(
        self, call: str, directory: str, command: str, *, notify: bool, patterns: Sequence[str]
    ) -> str:
        turn, _, name = call.partition(":")
        wish = Wish(turn, name, directory, command, notify, tuple(patterns))
        process = await _patiently(lambda: self._store.processes.record(wish, self._run, self._clock()))
        if not self._is_ours(process):
            raise OutcomeUnknown(notes.PROCESS_ELSEWHERE)
        log.info("process_recorded", process=process.id, key=process.key)
        return process.id

    async def begun(self, process: str) -> None:
        self._bell.ring()

    async def forget(self, process: str) -> None:
        row = await _patiently(lambda: self._store.processes.get(process))
        if row is not None:
            await _patiently(lambda: self._store.processes.forget(row))

    async def near(self, call: str) -> Sequence[Known]:
        found = await _patiently(lambda: self._store.processes.beside(call.partition(":")[0]))
        return [_known(process) for process in found]

    async def seen(self, process: str, sighting: Sighting) -> None:
        row = await _patiently(lambda: self._store.processes.get(process))
        if row is not None:
            await _patiently(lambda: self._store.processes.see(row, _end(sighting), self._clock()))
            log.info("process_seen", process=process, key=row.key)

    # ── attending ───────────────────────────────────────────────────────────────────────────────────────────

    async def _ours(self) -> list[Process]:
        """The living ones whose files are here, or would be."""
        return [process for process in await self._store.processes.live() if self._is_ours(process)]

    def _is_ours(self, process: Process) -> bool:
        ours = self._store.database.sole or process.instance == self._instance
        return ours or self._place(process).exists()

    def _place(self, process: Process) -> Path:
        return last_place(self._root, _known(process))

    async def _attend(self, process: Process) -> None:
        try:
            while True:
                if await self._is_told(process):
                    return
                await asyncio.sleep(STORE_PAUSE)
        finally:
            self._attended.pop(process.id, None)

    async def _is_told(self, process: Process) -> bool:
        """Wait for the end, look at the output meanwhile, and tell of both. False: the store did not take it."""
        try:
            if isinstance(kept.look(self._place(process)), Running):
                await self._until_over(process)
            process = await self._store.processes.get(process.id) or process
            match kept.look(self._place(process)):
                case Ended() | Lost() as over:
                    await self._conclude(process, over)
                case Missing() | Unclaimed() | Refused() if await self._was_never_begun(process):
                    await self._store.processes.forget(process)
                case _:
                    return True  # its call has yet to start it: that rings, and the next look finds it
        except Unavailable as error:
            log.warning("process_not_told", process=process.id, error=error.message)
            return False
        return True

    async def _until_over(self, process: Process) -> None:
        place = self._place(process)
        over = asyncio.create_task(kept.until_over(place))
        try:
            while process.watching and not over.done():
                read = min(kept.size(place), process.scanned + watching.PIECE)
                process = await self._watch(process, watching.compiled(process.watches))
                grown = asyncio.create_task(self._glances.change(place, read, _due(process)))
                try:
                    await asyncio.wait({over, grown}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    grown.cancel()
            await over
        finally:
            over.cancel()

    async def _was_never_begun(self, process: Process) -> bool:
        """Whether the call that was to start it is over, and has not; from now on it never will."""
        turn = await self._store.turns.get(process.turn)
        if turn is not None and turn.state not in FINAL:
            call = fold(await self._store.journal.of_turn(turn.session, turn.id)).calls.get(process.call)
            if call is None or call.ended is None:
                return False
        place = self._place(process)
        match kept.look(place):
            case Missing() | Unclaimed():
                return await in_thread(lambda: kept.forestall(place))
            case sighting:
                return isinstance(sighting, Refused)

    async def _conclude(self, process: Process, over: Ended | Lost) -> None:
        """Look at the rest of the output, then tell of the end."""
        place, rest = self._place(process), kept.size(self._place(process))
        tests = watching.compiled(process.watches)
        while tests and process.scanned < rest and process.watching:
            before = process.scanned
            process = await self._watch(process, tests, final=True)
            if process.scanned == before:
                break
        said = tail(place, TAIL)
        told = await self._store.processes.end(
            process, _end(over), lambda row: _words(row, over, said), self._clock()
        )
        log.info("process_ended", process=process.id, key=process.key, told=told)
        if told not in (None, "nobody"):
            self._told(process.key)

    async def _watch(self, process: Process, tests: Sequence[Test], *, final: bool = False) -> Process:
        """Look at the next piece of output, and tell what was found; the process as it is then on record."""
        place = self._place(process)
        look = await in_thread(lambda: watching.look_for(tests, place, process.scanned, final=final))
        quiet = final and bool(process.notify)  # then it is told with the end
        found = Found(look.count, process.scanned, look.until, slow=look.slow, quiet=quiet)
        told = await self._store.processes.find(
            process, found, lambda notice: _match(process, look, notice), self._clock()
        )
        if told is not None:
            log.info("process_matched", process=process.id, key=process.key, told=told, count=look.count)
            self._told(process.key)
        return await self._store.processes.get(process.id) or process


class Late:
    """A ledger that is there once the store is open: agents are made before that."""

    def __init__(self) -> None:
        self._ledger: Ledger | None = None

    def bind(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def _bound(self) -> Ledger:
        if self._ledger is None:
            raise PerdureError("the gateway has not been started")
        return self._ledger

    async def record(
        self, call: str, directory: str, command: str, *, notify: bool, patterns: Sequence[str]
    ) -> str:
        return await self._bound().record(call, directory, command, notify=notify, patterns=patterns)

    async def begun(self, process: str) -> None:
        await self._bound().begun(process)

    async def forget(self, process: str) -> None:
        await self._bound().forget(process)

    async def near(self, call: str) -> Sequence[Known]:
        return await self._bound().near(call)

    async def seen(self, process: str, sighting: Sighting) -> None:
        await self._bound().seen(process, sighting)


async def _patiently(work: Callable[[], Awaitable[T]]) -> T:
    """Wait while the store takes no writes: nothing runs that is not on record."""
    while True:
        try:
            return await work()
        except Unavailable as error:
            log.warning("waiting_for_store", error=error.message)
            await asyncio.sleep(STORE_PAUSE)


def _known(process: Process) -> Known:
    return Known(
        process.id,
        process.directory,
        process.command,
        process.state,
        process.started_at,
        process.exit_code,
        process.signal,
    )


def _due(process: Process) -> int | None:
    """When matches that were counted are told."""
    waits = process.unnoticed and process.noticed_at is not None
    return process.noticed_at + WINDOW_MS if waits and process.noticed_at is not None else None


def _end(sighting: Sighting) -> End:
    match sighting:
        case Ended(exit_code=code, signal=signal):
            return End(exit_code=code, signal=signal)
        case _:
            return End(lost=True)


def _words(process: Process, over: Ended | Lost, said: str) -> str:
    if isinstance(over, Lost):
        return notes.process_lost(process.id, process.command, over.problem, said)
    return notes.process_ended(process.id, process.command, ending(over), said, process.unnoticed)


def _match(process: Process, look: Look, notice: Notice) -> str:
    text = notes.process_matched(process.id, process.command, look.lines, notice.count, notice.before)
    return notes.watch_ended(text, notify=bool(process.notify)) if notice.last else text

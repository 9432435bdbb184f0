"""Processes in the background: put on record, watched, and their end told once.

A task waits for the end of each without using the processor. Only those whose output is watched for something are
looked at again and again. Whatever was missed while no gateway ran is found at the next start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from perdure.core import notes
from perdure.core.journal import Call, fold
from perdure.core.messages import Sender
from perdure.core.turn import FINAL
from perdure.errors import Unavailable
from perdure.logs import Log
from perdure.runtime.access import OPERATOR, Access
from perdure.runtime.bell import STORE_PAUSE, Bell
from perdure.runtime.glances import Glances
from perdure.runtime.ledger import end_of, known
from perdure.runtime.tasks import Failures, Tasks
from perdure.store.api import Store
from perdure.store.ids import Clock
from perdure.store.processes import WINDOW_MS, Found, Notice, Process
from perdure.tools import kept, watching
from perdure.tools.kept import Ended, Lost, Missing, Refused, Running, Unclaimed
from perdure.tools.processes import ending, last_place, tail
from perdure.tools.threads import in_thread
from perdure.tools.watching import Look, Test

log = Log("processes")

LOOK = 60.0  # seconds between two looks for processes that nobody told us of
TAIL = 2000  # bytes of output that are told with the end


class Background:
    """The processes that this installation has the files of."""

    def __init__(
        self,
        store: Store,
        root: Path,
        run: str,
        *,
        access: Access,
        clock: Clock,
        told: Callable[[str], None],
        group: Tasks,
    ) -> None:
        self._store = store
        self._root = root
        self._run = run
        self._access = access
        self._clock = clock
        self._told = told  # something waits for a key, or is owed to its chat
        self._group = group
        self._instance = ""
        self._failures = Failures(log)
        self._bell = Bell()
        self._glances = Glances(clock)
        self._attended: dict[str, asyncio.Task[None]] = {}
        self._begun: set[str] = set()  # since somebody last began to attend to them

    async def catch_up(self) -> None:
        """Tell of whatever ended while no gateway ran, before its files can be cleared away."""
        run = await self._store.runs.get(self._run)
        self._instance = run.instance if run else ""
        ours = await self._ours()
        over = [one for one in ours if isinstance(kept.look(self._place(one)), Ended | Lost)]
        contain = self._failures.contain
        # They share their commits.
        await asyncio.gather(*(contain("process_not_told", self._is_told(one), process=one.id) for one in over))

    async def work(self) -> None:
        """See to it that each process that lives is attended to."""
        glancing = self._group.repeat(self._glances.work)
        try:
            await self._attend_to_all()
        finally:
            glancing.cancel()

    def begun(self, process: str) -> None:
        """Say that a process was started."""
        self._begun.add(process)
        self._bell.ring()

    async def _attend_to_all(self) -> None:
        while True:
            await self._failures.contain("processes_not_looked_at", self._attend_to_new())
            await self._failures.contain("processes_not_looked_at", self._give_up_abandoned())
            await self._bell.wait(LOOK)

    async def _attend_to_new(self) -> None:
        for process in await self._ours():
            if process.id not in self._attended:
                self._attended[process.id] = self._group.create_task(self._attend(process))

    def stop(self) -> None:
        """Attend to nothing more: the next start finds what is missed."""
        for task in self._attended.values():
            task.cancel()

    # ── attending ───────────────────────────────────────────────────────────────────────────────────────────

    async def _ours(self) -> list[Process]:
        """The living ones whose files are here, or would be."""
        return [process for process in await self._store.processes.live() if self.is_ours(process)]

    def is_ours(self, process: Process) -> bool:
        """Whether the files of a process are here, or would be."""
        ours = self._store.database.sole or process.instance == self._instance
        return ours or self._place(process).exists()

    def _place(self, process: Process) -> Path:
        return last_place(self._root, known(process))

    async def _attend(self, process: Process) -> None:
        self._begun.discard(process.id)
        try:
            while True:
                if await self._is_told(process):
                    return
                await asyncio.sleep(STORE_PAUSE)
        finally:
            self._attended.pop(process.id, None)
            if process.id in self._begun:  # while we looked, and found that it had not
                self._bell.ring()

    async def _is_told(self, process: Process) -> bool:
        """Wait for the end, look at the output meanwhile, and tell of both. False: the store did not take it."""
        try:
            if isinstance(kept.look(self._place(process)), Running):
                await self._until_over(process)
            process = await self._store.processes.get(process.id) or process
            match kept.look(self._place(process)):
                case Ended() | Lost() as over:
                    await self._conclude(process, over)
                case Missing() if await self._said_that_it_began(process):
                    await self._conclude(process, Lost(notes.PROCESS_FILES_GONE))
                case Missing() | Unclaimed() | Refused() if await self._was_never_begun(process):
                    await self._store.processes.forget(process)
                case _:
                    return True  # its call has yet to start it: that rings, and the next look finds it
        except Unavailable as error:
            log.warning("process_not_told", process=process.id, error=error.message)
            return False
        except OSError as error:  # its files cannot be read now; the next look tries again
            log.warning("process_not_read", process=process.id, error=error)
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

    async def _said_that_it_began(self, process: Process) -> bool:
        """Whether the call that started it has said so: then somebody relies on it."""
        call = await self._call(process)
        return call is not None and call.ended is not None and call.ended.outcome == "ok"

    async def _was_never_begun(self, process: Process) -> bool:
        """Whether the call that was to start it is over, and has not; from now on it never will."""
        turn = await self._store.turns.get(process.turn)
        if turn is not None and turn.state not in FINAL:
            call = await self._call(process)
            if call is None or call.ended is None:
                return False
        place = self._place(process)
        match kept.look(place):
            case Missing() | Unclaimed():
                return await in_thread(lambda: kept.forestall(place))
            case sighting:
                return isinstance(sighting, Refused)

    async def _call(self, process: Process) -> Call | None:
        return fold(await self._store.journal.of_turn(process.session, process.turn)).calls.get(process.call)

    async def _conclude(self, process: Process, over: Ended | Lost) -> None:
        """Look at the rest of the output, then tell of the end."""
        place, rest = self._place(process), kept.size(self._place(process))
        tests = watching.compiled(process.watches)
        while tests and process.scanned < rest and process.watching:
            before = process.scanned
            process = await self._watch(process, tests, final=True)
            if process.scanned == before:
                break
        await self._tell_end(process, over, tail(place, TAIL))

    async def _give_up_abandoned(self) -> None:
        """Tell of processes whose files are where no gateway runs any more: nobody else will, and not for ever."""
        if self._store.database.sole:
            return
        for process in await self._store.processes.abandoned():
            if not self.is_ours(process):
                telling = self._tell_end(process, Lost(notes.PROCESS_GONE), "")
                await self._failures.contain("process_not_told", telling, process=process.id)

    async def _tell_end(self, process: Process, over: Ended | Lost, said: str) -> None:
        told = await self._store.processes.end(
            process,
            end_of(over),
            lambda row: _words(row, over, said),
            self._clock(),
            heard=await self._is_heard(process),
        )
        log.info("process_ended", process=process.id, key=process.key, told=told)
        if told not in (None, "nobody"):
            self._told(process.key)

    async def _is_heard(self, process: Process) -> bool:
        """Whether a turn may tell of it: whoever began the process may talk still."""
        ours = process.person in (OPERATOR.id, "")
        return ours or await self._access.may(process.key, Sender(process.person), "talk")

    async def _watch(self, process: Process, tests: Sequence[Test], *, final: bool = False) -> Process:
        """Look at the next piece of output, and tell what was found; the process as it is then on record."""
        place = self._place(process)
        look = await in_thread(lambda: watching.look_for(tests, place, process.scanned, final=final))
        quiet = final and bool(process.notify)  # then it is told with the end
        found = Found(look.count, process.scanned, look.until, slow=look.slow, quiet=quiet)
        told = await self._store.processes.find(
            process,
            found,
            lambda notice: _match(process, look, notice),
            self._clock(),
            heard=await self._is_heard(process),
        )
        if told not in (None, "nobody"):
            log.info("process_matched", process=process.id, key=process.key, told=told, count=look.count)
            self._told(process.key)
        return await self._store.processes.get(process.id) or process


def _due(process: Process) -> int | None:
    """When matches that were counted are told."""
    waits = process.unnoticed and process.noticed_at is not None
    return process.noticed_at + WINDOW_MS if waits and process.noticed_at is not None else None


def _words(process: Process, over: Ended | Lost, said: str) -> str:
    if isinstance(over, Lost):
        return notes.process_lost(process.id, process.command, over.problem, said)
    return notes.process_ended(process.id, process.command, ending(over), said, process.unnoticed)


def _match(process: Process, look: Look, notice: Notice) -> str:
    text = notes.process_matched(process.id, process.command, look.lines, notice.count, notice.before)
    return notes.watch_ended(text, notify=bool(process.notify)) if notice.last else text

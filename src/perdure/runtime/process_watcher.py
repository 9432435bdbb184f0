"""Processes in the background: put on record, watched, and their end told once.

A task waits for the end of each without using the processor. Only those whose output is watched for something are
looked at again and again. Whatever was missed while no gateway ran is found at the next start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from perdure.core import texts
from perdure.core.journal import CallProgress, fold
from perdure.core.messages import Sender
from perdure.core.turn import FINAL_STATES
from perdure.errors import Unavailable
from perdure.logs import Log
from perdure.runtime.access import OPERATOR, Access
from perdure.runtime.gateway_run import GatewayRun
from perdure.runtime.output_watch import OutputWatch
from perdure.runtime.process_records import process_end, tool_record
from perdure.runtime.tasks import FailureLog
from perdure.runtime.wakeups import STORE_RETRY_SECONDS, WakeEvent
from perdure.store.processes import NOTICE_INTERVAL_MS, MatchNotice, OutputScan, Process
from perdure.tools import output_patterns
from perdure.tools.keeper import client
from perdure.tools.keeper.client import (
    CommandEnded,
    CommandLost,
    CommandMissing,
    CommandNeverStarted,
    CommandRunning,
    CommandStatus,
    CommandUnclaimed,
    CommandUnreadable,
    StatusTimeouts,
)
from perdure.tools.output_patterns import LineTest, PatternScan
from perdure.tools.process_tool import exit_text, output_tail, process_directory
from perdure.tools.shell import call_directories
from perdure.tools.threads import run_in_thread

log = Log("processes")

CHECK_SECONDS = 60.0  # seconds between two looks for processes that nobody told us of
TAIL_BYTES = 2000  # bytes of output that are told with the end
STATUS_TIMEOUTS = StatusTimeouts(
    unreadable=86_400.0
)  # nobody waits for them: we look for a day before a process is lost


class ProcessWatcher:
    """The processes that this installation has the files of."""

    def __init__(self, run: GatewayRun, root: Path, access: Access) -> None:
        self._run = run
        self._store = run.store
        self._clock = run.clocks.wall
        self._root = root
        self._access = access
        self._instance = ""
        self._failures = FailureLog(log)
        self._wake_event = WakeEvent()
        self._output_watch = OutputWatch(run.clocks.wall)
        self._watch_tasks: dict[str, asyncio.Task[None]] = {}
        self._started: set[str] = set()  # since somebody last began to attend to them

    async def catch_up(self) -> None:
        """Tell of whatever ended while no gateway ran, before its files can be cleared away."""
        run = await self._store.runs.get(self._run.id)
        self._instance = run.instance if run else ""
        ours = await self._own_processes()
        seen = [(one, client.read_status(self._directory(one))) for one in ours]
        over = [(one, sighting) for one, sighting in seen if isinstance(sighting, CommandEnded | CommandLost)]
        contain = self._failures.contain
        settled = (contain("process_not_told", self._report_status(*each), process=each[0].id) for each in over)
        await asyncio.gather(*settled)  # they share their commits

    async def run(self) -> None:
        """See to it that each process that lives is attended to."""
        glancing = self._run.tasks.run_loop(self._output_watch.run)
        try:
            await self._watch_all()
        finally:
            glancing.cancel()

    def watch_started(self, process: str) -> None:
        """Say that a process was started."""
        self._started.add(process)
        self._wake_event.wake()

    async def _watch_all(self) -> None:
        while True:
            await self._failures.contain("processes_not_looked_at", self._watch_new())
            await self._failures.contain("processes_not_looked_at", self._report_abandoned())
            await self._wake_event.wait(CHECK_SECONDS)

    async def _watch_new(self) -> None:
        for process in await self._own_processes():
            if process.id not in self._watch_tasks:
                self._watch_tasks[process.id] = self._run.tasks.create_task(self._watch_process(process))

    def stop(self) -> None:
        """Attend to nothing more: the next start finds what is missed."""
        for task in self._watch_tasks.values():
            task.cancel()

    # ── attending ───────────────────────────────────────────────────────────────────────────────────────────

    async def _own_processes(self) -> list[Process]:
        """The living ones whose files are here, or would be."""
        return [process for process in await self._store.processes.live() if self.is_ours(process)]

    def is_ours(self, process: Process) -> bool:
        """Whether the files of a process are here, or would be."""
        ours = self._store.database.exclusive or process.instance == self._instance
        return ours or any(call_directories(self._root / process.directory))

    def _directory(self, process: Process) -> Path:
        return process_directory(self._root, tool_record(process))

    async def _watch_process(self, process: Process) -> None:
        self._started.discard(process.id)
        try:
            while True:
                if await self._wait_and_report(process):
                    return
                await asyncio.sleep(STORE_RETRY_SECONDS)
        finally:
            self._watch_tasks.pop(process.id, None)
            if process.id in self._started:  # while we looked, and found that it had not
                self._wake_event.wake()

    async def _wait_and_report(self, process: Process) -> bool:
        """Wait for the end, look at the output meanwhile, and tell of both. False: it must be tried again soon."""
        try:
            if isinstance(await client.wait_for_end(self._directory(process), 0), CommandRunning):
                await self._wait_for_end(process)
            process = await self._store.processes.get(process.id) or process
        except Unavailable as error:
            log.warning("process_not_told", process=process.id, error=error.message)
            return False
        except OSError as error:  # its files cannot be read now
            log.warning("process_not_read", process=process.id, error=error)
        return await self._report_status(
            process, await client.wait_for_status(self._directory(process), STATUS_TIMEOUTS)
        )

    async def _report_status(self, process: Process, status: CommandStatus) -> bool:
        """Tell of the end that was seen. False: the store did not take it, or the process runs after all."""
        try:
            match status:
                case CommandRunning():
                    return False
                case CommandEnded() | CommandLost():
                    await self._scan_rest_and_report(process, status)
                case CommandMissing():  # its place was made before it was on record
                    await self._scan_rest_and_report(process, CommandLost(texts.processes.FILES_GONE))
                case CommandUnreadable(problem):
                    await self._report_end(process, CommandLost(problem), "")
                case CommandUnclaimed() | CommandNeverStarted() if await self._was_never_started(process):
                    await self._store.processes.delete(process)
        except Unavailable as error:
            log.warning("process_not_told", process=process.id, error=error.message)
            return False
        except OSError as error:  # its files cannot be read now; the next look tries again
            log.warning("process_not_read", process=process.id, error=error)
        return True  # or its call has yet to start it: that rings, and the next look finds it

    async def _wait_for_end(self, process: Process) -> None:
        place = self._directory(process)
        over = asyncio.create_task(client.wait_for_end(place))
        try:
            while process.watching and not over.done():
                read = min(client.output_size(place), process.scanned + output_patterns.PIECE_BYTES)
                process = await self._scan_output(
                    process, output_patterns.compile_patterns(process.active_patterns)
                )
                grown = asyncio.create_task(
                    self._output_watch.wait_for_change(place, read, _report_due_at(process))
                )
                try:
                    await asyncio.wait({over, grown}, return_when=asyncio.FIRST_COMPLETED)
                    if grown.done():
                        grown.result()  # an error of the system ends the watch; the next one tries again
                finally:
                    grown.cancel()
            await over
        finally:
            over.cancel()

    async def _was_never_started(self, process: Process) -> bool:
        """Whether the call that was to start it is over, and has not; from now on it never will."""
        turn = await self._store.turns.get(process.turn)
        if turn is not None and turn.state not in FINAL_STATES:
            call = await self._call(process)
            if call is None or call.ended is None:
                return False
        place = self._directory(process)
        match client.read_status(place):
            case CommandUnclaimed():
                return await run_in_thread(lambda: client.prevent_start(place))
            case sighting:
                return isinstance(sighting, CommandNeverStarted)

    async def _call(self, process: Process) -> CallProgress | None:
        return fold(await self._store.journal.of_turn(process.session, process.turn)).calls.get(process.call)

    async def _scan_rest_and_report(self, process: Process, end: CommandEnded | CommandLost) -> None:
        """Look at the rest of the output, then tell of the end."""
        place, rest = self._directory(process), client.output_size(self._directory(process))
        tests = output_patterns.compile_patterns(process.active_patterns)
        while tests and process.scanned < rest and process.watching:
            before = process.scanned
            process = await self._scan_output(process, tests, final=True)
            if process.scanned == before:
                break
        await self._report_end(process, end, output_tail(place, TAIL_BYTES))

    async def _report_abandoned(self) -> None:
        """Tell of processes whose files are where no gateway runs any more: nobody else will, and not for ever."""
        if self._store.database.exclusive:
            return
        for process in await self._store.processes.abandoned():
            if not self.is_ours(process):
                telling = self._report_end(process, CommandLost(texts.processes.GATEWAY_GONE), "")
                await self._failures.contain("process_not_told", telling, process=process.id)

    async def _report_end(self, process: Process, end: CommandEnded | CommandLost, output: str) -> None:
        told = await self._store.processes.record_end(
            process,
            process_end(end),
            lambda row: _end_text(row, end, output),
            self._clock(),
            starter_allowed=await self._may_owner_talk(process),
        )
        log.info("process_ended", process=process.id, key=process.key, told=told)
        if told not in (None, "nobody"):
            self._run.wakeups.wake_runner_and_delivery(process.key)

    async def _may_owner_talk(self, process: Process) -> bool:
        """Whether a turn may tell of it: whoever began the process may talk still."""
        ours = process.person in (OPERATOR.id, "")
        return ours or await self._access.may(process.key, Sender(process.person), "talk")

    async def _scan_output(
        self, process: Process, patterns: Sequence[LineTest], *, final: bool = False
    ) -> Process:
        """Look at the next piece of output, and tell what was found; the process as it is then on record."""
        place = self._directory(process)
        look = await run_in_thread(
            lambda: output_patterns.scan_output(patterns, place, process.scanned, final=final)
        )
        quiet = final and bool(process.notify)  # then it is told with the end
        found = OutputScan(look.count, process.scanned, look.next_offset, slow=look.too_slow, quiet=quiet)
        told = await self._store.processes.record_matches(
            process,
            found,
            lambda notice: _match_text(process, look, notice),
            self._clock(),
            starter_allowed=await self._may_owner_talk(process),
        )
        if told not in (None, "nobody"):
            log.info("process_matched", process=process.id, key=process.key, told=told, count=look.count)
            self._run.wakeups.wake_runner_and_delivery(process.key)
        return await self._store.processes.get(process.id) or process


def _report_due_at(process: Process) -> int | None:
    """When matches that were counted are told."""
    waits = process.unnoticed and process.noticed_at is not None
    return process.noticed_at + NOTICE_INTERVAL_MS if waits and process.noticed_at is not None else None


def _end_text(process: Process, end: CommandEnded | CommandLost, output: str) -> str:
    if isinstance(end, CommandLost):
        return texts.processes.lost(process.id, process.command, end.problem, output)
    return texts.processes.ended(process.id, process.command, exit_text(end), output, process.unnoticed)


def _match_text(process: Process, look: PatternScan, notice: MatchNotice) -> str:
    text = texts.processes.matched(process.id, process.command, look.lines, notice.count, notice.before)
    return texts.processes.watch_ended(text, notify=bool(process.notify)) if notice.last else text

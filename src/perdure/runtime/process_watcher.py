"""Watches the background processes of this installation, and reports their output matches and their end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from perdure.core import texts
from perdure.core.journal import CallProgress, fold
from perdure.core.messages import Sender
from perdure.core.roles import OPERATOR
from perdure.core.states import FINAL_STATES
from perdure.errors import Unavailable
from perdure.logs import Log
from perdure.runtime.access import Access
from perdure.runtime.gateway_run import GatewayRun
from perdure.runtime.output_watch import OutputWatch
from perdure.runtime.process_records import process_end, tool_record
from perdure.runtime.tasks import FailureLog
from perdure.runtime.wakeups import STORE_RETRY_SECONDS, WakeEvent
from perdure.store.processes import NOTICE_INTERVAL_MS, MatchNotice, OutputScan, Process
from perdure.tools import keeper, output_patterns
from perdure.tools.blocking_jobs import run_in_thread
from perdure.tools.keeper import (
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

report_log = Log("process_reports")

TAIL_BYTES = 2000  # of output that are reported with the end


class ProcessReports:
    """Records the end and the output matches of a process, and reports each once, to its chat or by a turn."""

    def __init__(self, run: GatewayRun, root: Path, access: Access) -> None:
        self._run = run
        self._store = run.store
        self._clock = run.clocks.wall
        self._root = root
        self._access = access

    def directory(self, process: Process) -> Path:
        return process_directory(self._root, tool_record(process))

    async def was_never_started(self, process: Process) -> bool:
        """Say whether the call that was to start a process has ended without a start, so that none can follow."""
        turn = await self._store.turns.get(process.turn)
        if turn is not None and turn.state not in FINAL_STATES:
            call = await self._call(process)
            if call is None or call.ended is None:
                return False
        place = self.directory(process)
        match keeper.read_status(place):
            case CommandUnclaimed():
                return await run_in_thread(lambda: keeper.prevent_start(place))
            case status:
                return isinstance(status, CommandNeverStarted)

    async def _call(self, process: Process) -> CallProgress | None:
        return fold(await self._store.journal.of_turn(process.session, process.turn)).calls.get(process.call)

    async def scan_rest_and_report(self, process: Process, end: CommandEnded | CommandLost) -> None:
        """Scan the rest of the output, then report the end."""
        place, rest = self.directory(process), keeper.output_size(self.directory(process))
        tests = output_patterns.compile_patterns(process.active_patterns)
        while tests and process.scanned < rest and process.watching:
            before = process.scanned
            process = await self.scan_output(process, tests, final=True)
            if process.scanned == before:
                break
        await self.report_end(process, end, output_tail(place, TAIL_BYTES))

    async def report_end(self, process: Process, end: CommandEnded | CommandLost, output: str) -> None:
        told = await self._store.processes.record_end(
            process,
            process_end(end),
            lambda row: _end_text(row, end, output),
            self._clock(),
            starter_allowed=await self._may_owner_talk(process),
        )
        report_log.info("process_ended", process=process.id, key=process.key, told=told)
        if told not in (None, "nobody"):
            self._run.wakeups.wake_runner_and_delivery(process.key)

    async def _may_owner_talk(self, process: Process) -> bool:
        """Say whether the person who started the process may still talk: only then may a turn report it."""
        ours = process.person in (OPERATOR.id, "")
        return ours or await self._access.may(process.key, Sender(process.person), "talk")

    async def scan_output(self, process: Process, patterns: Sequence[LineTest], *, final: bool = False) -> Process:
        """Scan the next piece of output, and report matches. Returns the process's new record."""
        place = self.directory(process)
        look = await run_in_thread(
            lambda: output_patterns.scan_output(patterns, place, process.scanned, final=final)
        )
        quiet = final and bool(process.notify)  # then the matches are reported with the end
        found = OutputScan(look.count, process.scanned, look.next_offset, slow=look.too_slow, quiet=quiet)
        told = await self._store.processes.record_matches(
            process,
            found,
            lambda notice: _match_text(process, look, notice),
            self._clock(),
            starter_allowed=await self._may_owner_talk(process),
        )
        if told not in (None, "nobody"):
            report_log.info("process_matched", process=process.id, key=process.key, told=told, count=look.count)
            self._run.wakeups.wake_runner_and_delivery(process.key)
        return await self._store.processes.get(process.id) or process


def _end_text(process: Process, end: CommandEnded | CommandLost, output: str) -> str:
    if isinstance(end, CommandLost):
        return texts.processes.lost(process.id, process.command, end.problem, output)
    return texts.processes.ended(process.id, process.command, exit_text(end), output, process.unnoticed)


def _match_text(process: Process, look: PatternScan, notice: MatchNotice) -> str:
    text = texts.processes.matched(process.id, process.command, look.lines, notice.count, notice.before)
    return texts.processes.watch_ended(text, notify=bool(process.notify)) if notice.last else text


log = Log("process_watcher")

CHECK_SECONDS = 60.0  # between two looks for processes of whose start nobody told us
# Nobody waits for the status: a process whose files cannot be read counts as lost after a day.
STATUS_TIMEOUTS = StatusTimeouts(unreadable=86_400.0)


class ProcessWatcher:
    """Watches the processes whose files this installation has."""

    def __init__(self, run: GatewayRun, root: Path, access: Access) -> None:
        self._run = run
        self._store = run.store
        self._root = root
        self._reports = ProcessReports(run, root, access)
        self._names: set[str | None] = set()  # of this gateway: its id, and what it was called before it had one
        self._failures = FailureLog(log)
        self._wake_event = WakeEvent()
        self._output_watch = OutputWatch(run.clocks.wall)
        self._watch_tasks: dict[str, asyncio.Task[None]] = {}
        self._started: set[str] = set()  # processes whose start was announced and that no task watches yet

    async def catch_up(self) -> None:
        """Report every process that ended while no gateway ran, before its files can be removed."""
        run = await self._store.runs.get(self._run.id)
        self._names = {run.instance, run.former} if run else set()
        ours = await self._own_processes()
        seen = [(one, keeper.read_status(self._reports.directory(one))) for one in ours]
        over = [(one, status) for one, status in seen if isinstance(status, CommandEnded | CommandLost)]
        contain = self._failures.contain
        settled = (
            contain("process_end_not_reported", self._report_status(*each), process=each[0].id) for each in over
        )
        await asyncio.gather(*settled)  # the reports share their commits

    async def run(self) -> None:
        """Watch every live process in a task of its own."""
        watching_output = self._run.tasks.run_loop(self._output_watch.run)
        try:
            await self._watch_all()
        finally:
            watching_output.cancel()

    def watch_started(self, process: str) -> None:
        """Begin to watch a process that was started."""
        self._started.add(process)
        self._wake_event.wake()

    async def _watch_all(self) -> None:
        while True:
            await self._failures.contain("processes_not_checked", self._watch_new())
            await self._failures.contain("processes_not_checked", self._report_abandoned())
            await self._wake_event.wait(CHECK_SECONDS)

    async def _watch_new(self) -> None:
        for process in await self._own_processes():
            if process.id not in self._watch_tasks:
                self._watch_tasks[process.id] = self._run.tasks.create_task(self._watch_process(process))

    def stop(self) -> None:
        """Watch no more processes: the next start finds what is missed."""
        for task in self._watch_tasks.values():
            task.cancel()

    # ── watching ───────────────────────────────────────────────────────────────────────────────────────────

    async def _own_processes(self) -> list[Process]:
        """Return the live processes whose files are on this machine, or would be if they were started."""
        return [process for process in await self._store.processes.live() if self.is_ours(process)]

    def is_ours(self, process: Process) -> bool:
        """Say whether the files of a process are on this machine, or would be if it was started."""
        ours = self._store.database.exclusive or process.instance in self._names
        return ours or any(call_directories(self._root / process.directory))

    async def _watch_process(self, process: Process) -> None:
        self._started.discard(process.id)
        try:
            while True:
                if await self._wait_and_report(process):
                    return
                await asyncio.sleep(STORE_RETRY_SECONDS)
        finally:
            self._watch_tasks.pop(process.id, None)
            if process.id in self._started:  # it was started after we found that it had not been
                self._wake_event.wake()

    async def _wait_and_report(self, process: Process) -> bool:
        """Wait for the end of a process, scan its output meanwhile, and report both. False: try again soon."""
        try:
            if isinstance(await keeper.wait_for_end(self._reports.directory(process), 0), CommandRunning):
                await self._wait_for_end(process)
            process = await self._store.processes.get(process.id) or process
        except Unavailable as error:
            log.warning("process_end_not_reported", process=process.id, error=error.message)
            return False
        except OSError as error:  # its files cannot be read now
            log.warning("process_not_read", process=process.id, error=error)
        return await self._report_status(
            process, await keeper.wait_for_status(self._reports.directory(process), STATUS_TIMEOUTS)
        )

    async def _report_status(self, process: Process, status: CommandStatus) -> bool:
        """Report the end of a process. False: the store was not available, or the process still runs."""
        try:
            match status:
                case CommandRunning():
                    return False
                case CommandEnded() | CommandLost():
                    await self._reports.scan_rest_and_report(process, status)
                case CommandMissing():  # its directory was made before the process was recorded
                    await self._reports.scan_rest_and_report(process, CommandLost(texts.processes.FILES_GONE))
                case CommandUnreadable(problem):
                    await self._reports.report_end(process, CommandLost(problem), "")
                case CommandUnclaimed() | CommandNeverStarted() if await self._reports.was_never_started(process):
                    await self._store.processes.delete(process)
        except Unavailable as error:
            log.warning("process_end_not_reported", process=process.id, error=error.message)
            return False
        except OSError as error:  # its files cannot be read now; the next check tries again
            log.warning("process_not_read", process=process.id, error=error)
        return True  # or its call has yet to start it: that wakes us, and the next look finds it

    async def _wait_for_end(self, process: Process) -> None:
        place = self._reports.directory(process)
        over = asyncio.create_task(keeper.wait_for_end(place))
        try:
            while process.watching and not over.done():
                read = min(keeper.output_size(place), process.scanned + output_patterns.PIECE_BYTES)
                process = await self._reports.scan_output(
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

    async def _report_abandoned(self) -> None:
        """Report processes of another machine on which no gateway has run for long as lost: nobody else does."""
        if self._store.database.exclusive:
            return
        for process in await self._store.processes.abandoned():
            if not self.is_ours(process):
                telling = self._reports.report_end(process, CommandLost(texts.processes.GATEWAY_GONE), "")
                await self._failures.contain("process_end_not_reported", telling, process=process.id)


def _report_due_at(process: Process) -> int | None:
    """Return when matches that were counted but not reported are to be reported; None: there are none."""
    waits = process.unnoticed and process.noticed_at is not None
    return process.noticed_at + NOTICE_INTERVAL_MS if waits and process.noticed_at is not None else None

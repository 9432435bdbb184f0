"""Watches the background processes of this installation, and has their matches and their end reported.

One task waits for the end of each process without using the processor. Only processes with output patterns are
checked repeatedly. The next start finds what happened while no gateway ran.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from perdure.core import texts
from perdure.errors import Unavailable
from perdure.logs import Log
from perdure.runtime.access import Access
from perdure.runtime.gateway_run import GatewayRun
from perdure.runtime.output_watch import OutputWatch
from perdure.runtime.process_reports import ProcessReports
from perdure.runtime.tasks import FailureLog
from perdure.runtime.wakeups import STORE_RETRY_SECONDS, WakeEvent
from perdure.store.processes import NOTICE_INTERVAL_MS, Process
from perdure.tools import keeper, output_patterns
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
from perdure.tools.shell import call_directories

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
            looked = await self._failures.contain("processes_not_checked", self._watch_new())
            looked &= await self._failures.contain("processes_not_checked", self._report_abandoned())
            await self._wake_event.wait(CHECK_SECONDS if looked else STORE_RETRY_SECONDS)

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

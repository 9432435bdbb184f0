"""Reports the output matches and the end of a background process to its chat."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from perdure.core import texts
from perdure.core.journal import CallProgress, fold
from perdure.core.messages import Sender
from perdure.core.roles import OPERATOR
from perdure.core.turn import FINAL_STATES
from perdure.logs import Log
from perdure.runtime.access import Access
from perdure.runtime.gateway_run import GatewayRun
from perdure.runtime.process_records import process_end, tool_record
from perdure.store.processes import MatchNotice, OutputScan, Process
from perdure.tools import keeper, output_patterns
from perdure.tools.keeper import (
    CommandEnded,
    CommandLost,
    CommandNeverStarted,
    CommandUnclaimed,
)
from perdure.tools.output_patterns import LineTest, PatternScan
from perdure.tools.process_tool import exit_text, output_tail, process_directory
from perdure.tools.threads import run_in_thread

log = Log("process_reports")

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
        log.info("process_ended", process=process.id, key=process.key, told=told)
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
            log.info("process_matched", process=process.id, key=process.key, told=told, count=look.count)
            self._run.wakeups.wake_runner_and_delivery(process.key)
        return await self._store.processes.get(process.id) or process


def _end_text(process: Process, end: CommandEnded | CommandLost, output: str) -> str:
    if isinstance(end, CommandLost):
        return texts.processes.lost(process.id, process.command, end.problem, output)
    return texts.processes.ended(process.id, process.command, exit_text(end), output, process.unnoticed)


def _match_text(process: Process, look: PatternScan, notice: MatchNotice) -> str:
    text = texts.processes.matched(process.id, process.command, look.lines, notice.count, notice.before)
    return texts.processes.watch_ended(text, notify=bool(process.notify)) if notice.last else text

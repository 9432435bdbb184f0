"""The tool `process`, which inspects, feeds and stops commands that `shell` has started in the background.

A model that sees the end of a process here gets no report of it: that is journalled together with the result.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from perdure.core import texts
from perdure.core.effects import Effect
from perdure.core.entries import ObservedExit
from perdure.core.states import ProcessState
from perdure.core.tools import Tool, Use
from perdure.errors import OutcomeUnknown, ToolFailed
from perdure.tools import keeper, shell
from perdure.tools.blocking_jobs import run_in_thread
from perdure.tools.file_contents import sync_directory
from perdure.tools.function_tools import as_tool, tool
from perdure.tools.keeper import (
    CommandEnded,
    CommandLost,
    CommandMissing,
    CommandNeverStarted,
    CommandRunning,
    CommandStatus,
    CommandUnreadable,
)
from perdure.tools.shell import ProcessRecord, ProcessRecords, call_directory

TAIL_BYTES = 4000  # of output, in every answer but that of `log`
LOG_BYTES = 20_000  # of output, in one answer of `log`
DEFAULT_WAIT_SECONDS = 60.0  # unless the model says otherwise
MAX_WAIT_SECONDS = 600.0
STOP_GRACE_SECONDS = 5.0  # from SIGTERM to SIGKILL

ProcessAction = Literal["list", "poll", "log", "wait", "write", "kill"]


def process_tool(keepers: Path, records: ProcessRecords) -> Tool:
    """The tool `process`. It is `keyed`: a call that is repeated with the same key acts once."""

    @tool(name="process", effect=Effect.KEYED, description=texts.agents.PROCESS, timeout=MAX_WAIT_SECONDS + 60)
    async def process(
        action: ProcessAction,
        use: Use,
        id: Annotated[str, "Of the process; `list` needs none."] = "",  # noqa: A002 reason: the model reads it
        timeout: Annotated[float, "Seconds to wait for the end, with `wait`."] = DEFAULT_WAIT_SECONDS,
        text: Annotated[str, "What the process is to read, with `write`."] = "",
        end: Annotated[bool, "With `write`: nothing more follows."] = False,
        offset: Annotated[int, "The byte of the output to begin at, with `log`; negative: from its end."] = 0,
    ) -> str:
        if action == "list":
            return texts.processes.status_list([_line(one) for one in await records.list_for_chat(use.key)])
        known = await _find(records, use.key, id)
        directory = process_directory(keepers, known)
        match action:
            case "wait":
                await keeper.wait_for_end(directory, min(max(timeout, 0.0), MAX_WAIT_SECONDS))
            case "kill":
                await keeper.stop(directory, STOP_GRACE_SECONDS)
            case "write":
                return await _write(directory, use.key, text, end=end)
        shown = _output_page(directory, offset) if action == "log" else output_tail(directory, TAIL_BYTES)
        return _status_text(use, known, keeper.read_status(directory), shown)

    return as_tool(process)


def process_directory(keepers: Path, process: ProcessRecord) -> Path:
    """The directory in which a process runs, or has run."""
    return shell.last_call_directory(keepers / process.directory)


async def _find(records: ProcessRecords, call_key: str, name: str) -> ProcessRecord:
    known = await records.list_for_chat(call_key)
    found = next((one for one in known if one.id == name.strip()), None)
    if found is None:
        raise ToolFailed(texts.processes.unknown(name, [one.id for one in known]))
    return found


def _line(process: ProcessRecord) -> str:
    return texts.processes.status_line(
        process.id, process.command, texts.processes.state_words(process.state, process.exit_code, process.signal)
    )


def _status_text(use: Use, process: ProcessRecord, status: CommandStatus, output: str) -> str:
    """The status of a process, as the model reads it; an end is reported as observed."""
    match status:
        case CommandRunning():
            return texts.processes.running(process.id, output)
        case CommandEnded(exit_code=code, signal=signal):
            use.report_exit(ObservedExit(process.id, exit_code=code, signal=signal))
            return f"{process.id}: {exit_text(status)}.\n{output or texts.phrases.NO_OUTPUT}"
        case CommandLost(problem):
            use.report_exit(ObservedExit(process.id, lost=True))
            return f"{process.id}: {problem}\n{output or texts.phrases.NO_OUTPUT}"
        case CommandMissing() | CommandNeverStarted() if process.state is not ProcessState.LIVE:
            how = texts.processes.state_words(process.state, process.exit_code, process.signal)
            return f"{process.id}: {how}. {texts.processes.OUTPUT_DELETED}"
        case CommandUnreadable(problem):
            return f"{process.id}: {problem} {texts.processes.ASK_AGAIN_LATER}"
        case CommandMissing():
            return f"{process.id}: {texts.processes.FILES_GONE}"
        case _:
            return f"{process.id}: {texts.processes.NOT_STARTED}"


def exit_text(status: CommandEnded) -> str:
    """How a process ended, in a few words."""
    also = shell.exit_cause(status)
    return texts.processes.state_words(ProcessState.ENDED, status.exit_code, status.signal) + (
        f" ({also.rstrip('.')})" if also else ""
    )


def output_tail(directory: Path, max_bytes: int) -> str:
    """The last output of a process."""
    since = keeper.next_stored_offset(directory, max(0, keeper.output_size(directory) - max_bytes))
    text, _ = keeper.read_output_text(directory, since, max_bytes, final=True)
    return (f"{texts.phrases.bytes_left_out(since)}\n" if since else "") + text.rstrip()


def _output_page(directory: Path, offset: int) -> str:
    size = keeper.output_size(directory)
    wanted = max(0, size + offset) if offset < 0 else offset
    since = keeper.next_stored_offset(directory, wanted)
    text, until = keeper.read_output_text(directory, since, LOG_BYTES, final=since + LOG_BYTES >= size)
    return texts.processes.log_excerpt(text, since, until, size, since - wanted)


async def _write(directory: Path, key: str, text: str, *, end: bool) -> str:
    """Write to the input of a process, once: after an interrupted call, nobody knows how much was written."""
    if not isinstance(keeper.read_status(directory), CommandRunning):
        raise ToolFailed(texts.processes.COMMAND_NOT_RUNNING)
    if not await run_in_thread(lambda: _mark_written(directory, key)):
        raise OutcomeUnknown(texts.processes.INPUT_OUTCOME_UNKNOWN)
    if text:
        await keeper.write_input(directory, text.encode(errors="replace"))
    if end:
        keeper.close_input(directory)
    return texts.processes.input_written(len(text.encode(errors="replace")), end=end)


def _mark_written(directory: Path, key: str) -> bool:
    """Leave a durable mark that this call writes; False if the mark exists already."""
    mark = directory / f"written-{call_directory(Path(), key).name}"
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return False
    sync_directory(directory)
    return True

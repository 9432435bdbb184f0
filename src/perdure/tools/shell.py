"""The tool `shell`: runs commands that outlive the gateway; an interrupted call attaches to its command again."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Protocol

from msgspec import Struct
from msgspec.structs import replace

from perdure.core import texts
from perdure.core.effects import Effect
from perdure.core.states import ProcessState
from perdure.core.tools import ApprovalGuard, Tool, Use
from perdure.errors import OutcomeUnknown, ToolFailed
from perdure.tools import keeper, output_patterns
from perdure.tools.blocking_jobs import run_in_thread
from perdure.tools.function_tools import as_tool, tool
from perdure.tools.keeper import (
    DEFAULT_TIMEOUTS,
    CommandEnded,
    CommandLost,
    CommandMissing,
    CommandNeverStarted,
    CommandRunning,
    CommandStatus,
    CommandUnclaimed,
    CommandUnreadable,
    LaunchSpec,
    StatusTimeouts,
)
from perdure.tools.sandbox.in_force import SandboxInForce
from perdure.tools.workspace import ChatFolders, FindFolders


class ProcessRecord(Struct, frozen=True):
    """A background process in the store."""

    id: str
    directory: str  # the name of its first directory
    command: str
    state: ProcessState
    started_at: int
    exit_code: int | None = None
    signal: int | None = None


class ProcessRecords(Protocol):
    """The background processes of all chats. A call, named by its key, sees those of its own chat only."""

    async def record(
        self, call: str, directory: str, command: str, *, notify: bool, patterns: Sequence[str]
    ) -> str:
        """Record the process that a call is about to start, or has started before; return its id.

        After return: the record is durable, and outlives its turn.
        """

    async def mark_started(self, process: str) -> None:
        """Record that a process was started: from now on the gateway watches its output and its end."""

    async def forget(self, process: str) -> None:
        """Remove the record of a process that was not started and never will be."""

    async def list_for_chat(self, call: str) -> Sequence[ProcessRecord]:
        """The processes of the chat, running ones first."""


POLL_SECONDS = 10.0  # between two checks for new output
UNLIMITED_SECONDS = 10 * 365 * 86400.0  # the keeper ends a command in time: no other timeout is needed
MAX_OUTPUT_BYTES = 256 * 1024  # read at once; the model sees less


class CommandEnvironment(Struct, frozen=True):
    """Where commands run, and with which environment."""

    keepers: Path  # a directory for each command, with its output and its result
    folders: FindFolders  # of the conversation that a command belongs to
    sandbox: Callable[[], SandboxInForce]  # known when the gateway has started
    env: Sequence[str] = ("PATH", "HOME", "LANG")  # names of the variables that are passed on
    timeout: float = 600.0  # seconds, unless the model says otherwise
    status_timeouts: StatusTimeouts = DEFAULT_TIMEOUTS

    def limit_hint(self, status: CommandStatus, text: str) -> str:
        """Which limit a failed command seems to have met, by its own words, on a line of its own."""
        limits = self.sandbox().limits
        if not self.sandbox().is_on or not isinstance(status, CommandEnded) or status.exit_code == 0:
            return ""
        hint = texts.sandbox.limit_hint(text, limits.memory, limits.processes)
        return f"\n{hint}" if hint else ""

    def launch_spec(
        self, folders: ChatFolders, command: str, timeout: float | None, *, readable: bool
    ) -> LaunchSpec:
        """The command of a conversation, with its folders, its environment and its sandbox."""
        sandbox = self.sandbox()
        passed_on = {name: os.environ[name] for name in self.env if name in os.environ}
        own = sandbox.variables(folders.agent_home)
        if sandbox.is_on:
            sandbox.make_folders(folders.agent_home)
        return LaunchSpec(
            command,
            str(folders.workspace),
            passed_on | {name: value for name, value in own.items() if name in passed_on or name != "HOME"},
            timeout,
            input=readable,
            sandbox=sandbox.confinement(folders.workspace, folders.agent_home, folders.attachments),
        )


def call_directory(keepers: Path, key: str) -> Path:
    """The directory of a call, named by its key, so that its journal leads there."""
    return keepers / key.replace(":", "~")


def call_key(directory: Path) -> str:
    """The key of the call that a directory belongs to."""
    return directory.name.split("#", 1)[0].replace("~", ":")


def call_directories(first: Path) -> Iterator[Path]:
    """The directory of a call, and the later ones, each made because nothing was started in the one before."""
    number, directory = 1, first
    while os.path.exists(directory):  # noqa: PTH110 reason: no error for a directory that cannot be read
        yield directory
        number += 1
        directory = first.with_name(f"{first.name}#{number}")


def last_call_directory(first: Path) -> Path:
    """Where the command of a call runs, or has run. Versions before 0.3.0 sometimes used a second directory."""
    return [first, *call_directories(first)][-1]


def shell_tool(
    environment: CommandEnvironment,
    records: ProcessRecords,
    guard: ApprovalGuard | None = None,
    name: str = "shell",
) -> Tool:
    """The tool `shell`; `guard` says why a person must approve a command, if one must."""

    @tool(name=name, effect=Effect.ATTACHED, description=texts.agents.SHELL, timeout=UNLIMITED_SECONDS)
    async def shell(
        command: str,
        use: Use,
        timeout: float | None = None,
        background: Annotated[bool, texts.agents.SHELL_BACKGROUND] = False,
        notify_on_complete: Annotated[bool, texts.agents.SHELL_NOTIFY] = True,
        watch_patterns: Annotated[Sequence[str], texts.agents.SHELL_WATCH] = (),
    ) -> str:
        folders = await environment.folders(use.session_key)
        if background:
            limit = None if timeout is None else max(0.1, timeout)
            spec = environment.launch_spec(folders, command, limit, readable=True)
            wanted = (notify_on_complete, output_patterns.check_patterns(watch_patterns))
            first = call_directory(environment.keepers, use.key)
            return await start_in_background(first, spec, use.key, records, *wanted, environment.status_timeouts)
        if watch_patterns:
            raise ToolFailed(texts.processes.WATCH_NEEDS_BACKGROUND)
        limit = environment.timeout if timeout is None else max(0.1, timeout)
        spec = environment.launch_spec(folders, command, limit, readable=False)  # nothing could write to it
        directory = await attach(call_directory(environment.keepers, use.key), spec, environment.status_timeouts)
        status = await _wait_for_end(directory, spec.cap, use.alive, environment.status_timeouts)
        text = await result_text(directory, status, environment.status_timeouts)
        return f"{text}{environment.limit_hint(status, text)}"

    where = f"{socket.gethostname()}:{environment.keepers}"
    return replace(
        as_tool(shell), guard=guard, where=where, prepare=partial(_make_call_directory, environment.keepers)
    )


async def _make_call_directory(keepers: Path, key: str) -> None:
    """Make the directory of a call before its intent is journalled: if it is missing later, it was removed."""
    try:
        await run_in_thread(lambda: keeper.make_directory(call_directory(keepers, key)))
    except OSError as error:
        raise ToolFailed(texts.processes.command_not_started(str(error))) from error


async def start_in_background(
    first: Path,
    spec: LaunchSpec,
    key: str,
    records: ProcessRecords,
    notify: bool,
    patterns: Sequence[str],
    timeouts: StatusTimeouts,
) -> str:
    """Start a command that nobody waits for. It is recorded first, so that it outlives its turn."""
    process = await records.record(key, first.name, spec.command, notify=notify, patterns=patterns)
    try:
        await attach(first, spec, timeouts)
    except ToolFailed:
        await records.forget(process)
        raise
    await records.mark_started(process)
    return texts.processes.started(process, notify=notify, patterns=patterns)


async def _wait_for_end(
    directory: Path, max_bytes: int, report_activity: Callable[[], None], timeouts: StatusTimeouts
) -> CommandStatus:
    """Wait for the end of a command, and report its new output as activity of the turn."""
    last_size = 0
    while True:
        await keeper.wait_for_end(directory, POLL_SECONDS)
        if not isinstance(status := await keeper.wait_for_status(directory, timeouts), CommandRunning):
            return status
        size = await keeper.retry_os_errors(lambda: keeper.output_size(directory), timeouts)
        if size != last_size or size == max_bytes:  # a keeper of an earlier version stores no more than that
            last_size = size
            report_activity()


async def attach(first: Path, spec: LaunchSpec, timeouts: StatusTimeouts) -> Path:
    """The directory in which the command runs, or has run. It is started only if it certainly never was.

    The directory was made before the call's intent was journalled: if it is missing, the command may have run.
    """
    directory = last_call_directory(first)
    match await keeper.wait_for_status(directory, timeouts):
        case CommandMissing():
            raise OutcomeUnknown(texts.processes.COMMAND_FILES_GONE)
        case CommandUnreadable(problem):
            raise OutcomeUnknown(problem)
        case CommandUnclaimed():
            await _start_shielded(directory, spec, timeouts)
        case CommandNeverStarted():
            raise ToolFailed(texts.processes.command_not_started(texts.processes.CANCELLED_BEFORE_START))
    return directory


async def _start_shielded(directory: Path, spec: LaunchSpec, timeouts: StatusTimeouts) -> None:
    """Start a command. A call that is cancelled meanwhile waits until the command is started, or was not."""
    starting = asyncio.create_task(keeper.start_command(directory, spec, timeouts))
    try:
        await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.wait({starting})
        if not starting.cancelled():
            starting.exception()  # retrieved, because nobody awaits it any more
        raise


async def result_text(directory: Path, status: CommandStatus, timeouts: StatusTimeouts) -> str:
    """The outcome of a command, as the model reads it."""
    match status:
        case CommandEnded():
            output, size = await _read_output(directory, timeouts)
            cause = exit_cause(status)
            lost = status.seen - status.kept
            if status.kept and size == 0:
                output = texts.processes.OUTPUT_DELETED
            return texts.processes.command_ended(
                status.exit_code, status.signal, lost, output, cause, middle=size == status.seen
            )
        case CommandLost(problem):
            output, _ = await _read_output(directory, timeouts)
            raise OutcomeUnknown(texts.processes.command_lost(problem, output))
        case CommandUnreadable(problem):
            raise OutcomeUnknown(problem)
        case _:  # it was started, so its files have been removed, all or some
            raise OutcomeUnknown(texts.processes.COMMAND_FILES_GONE)


def exit_cause(status: CommandEnded) -> str:
    """Why a command did not end by itself, in a few words; empty if it did."""
    return "stopped" if status.stopped else "its time was up" if status.timed_out else status.problem


async def _read_output(directory: Path, timeouts: StatusTimeouts) -> tuple[str, int | None]:
    """The output of a command and its size in bytes; a sentence and None if it cannot be read."""
    try:
        return await keeper.retry_os_errors(
            lambda: (output_excerpt(directory), keeper.output_size(directory)), timeouts
        )
    except OSError as error:
        return texts.processes.output_unreadable(str(error)), None


def output_excerpt(directory: Path, max_bytes: int = MAX_OUTPUT_BYTES) -> str:
    """The output of a command: all of it, or its beginning and its end."""
    size = keeper.output_size(directory)
    text, until = keeper.read_output_text(directory, 0, max_bytes, final=size <= max_bytes)
    if until >= size:
        return text
    head, until = keeper.read_output_text(directory, 0, max_bytes // 2)
    since = keeper.next_stored_offset(directory, max(until, size - max_bytes // 2))
    tail, _ = keeper.read_output_text(directory, since, max_bytes // 2, final=True)
    return f"{head}\n{texts.phrases.bytes_left_out(since - until)}\n{tail}" if since > until else head + tail

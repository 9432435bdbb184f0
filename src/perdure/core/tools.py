"""The contract of a tool: its name, effect, schema and the function that runs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct, field

from perdure.core import texts
from perdure.core.effects import Effect
from perdure.core.entries import ObservedExit
from perdure.core.messages import SentFile
from perdure.errors import ToolFailed

ApprovalGuard = Callable[[Mapping[str, Any], str], str]  # gets the arguments of a call and its session key
ANY_ARGUMENTS: Mapping[str, Any] = {"type": "object"}  # the schema of a tool without one


def _ignore_sign_of_life() -> None: ...


def _ignore_file(_: SentFile) -> None: ...


def _ignore_exit(_: ObservedExit) -> None: ...


class ToolCommandResult(Struct, frozen=True):
    """How a command ended that a tool of one's own has run."""

    exit_code: int | None  # None: a signal has ended it
    output: str  # the standard output and error, mixed as they came; of a long one, the beginning and the end
    problem: str = ""  # why it did not end by itself, such as "its time was up"


class RunCommand(Protocol):
    """Runs a shell command for a tool of one's own."""

    async def __call__(self, command: str, *, timeout: float | None = None) -> ToolCommandResult:
        """Run a command in the conversation's sandbox and workspace, to its end, or for `timeout` seconds."""


async def _run_no_command(command: str, *, timeout: float | None = None) -> ToolCommandResult:
    raise ToolFailed(texts.tool_calls.no_commands_here(command, timeout))


class Use(Struct, frozen=True):
    """One use of a tool."""

    arguments: dict[str, Any]
    key: str  # the idempotency key: the same for every try of the same call
    alive: Callable[[], None] = _ignore_sign_of_life  # to be called at every sign of life of a long call
    # To be called with an exit that the result reports: both are journalled together.
    report_exit: Callable[[ObservedExit], None] = _ignore_exit
    send_file: Callable[[SentFile], None] = _ignore_file  # the file is sent together with the result
    session_key: str = ""  # of the conversation that the call belongs to
    run_command: RunCommand = _run_no_command  # for tools of one's own


class Tool(Struct, frozen=True):
    """A tool, and what repeating it would mean. A tool that declares no effect is never repeated.

    `run` returns what the model reads, or raises `ToolFailed` with a sentence that the model can act on. Any
    other error is reported to the model by its class name.
    """

    name: str
    description: str
    run: Callable[[Use], Awaitable[str]]
    effect: Effect = Effect.ONCE
    schema: Mapping[str, Any] = field(default_factory=lambda: ANY_ARGUMENTS)  # of the arguments, as JSON Schema
    timeout: float | None = None  # seconds; None: as long as the settings allow
    where: str = ""  # of an attached tool: the installation that can find its processes again
    guard: ApprovalGuard | None = None  # returns why a person must approve a call; "" if no approval is needed
    prepare: Callable[[str], Awaitable[None]] | None = None  # called with the key before the intent is journalled
    server: str = ""  # of a tool of an MCP server: the name of the server


class Toolbox(Protocol):
    """The source of an agent's tools."""

    async def tools(self) -> Sequence[Tool]:
        """The tools that are available now."""


class FixedTools(Struct, frozen=True):
    """A toolbox that never changes."""

    items: Sequence[Tool] = ()

    async def tools(self) -> Sequence[Tool]:
        return self.items

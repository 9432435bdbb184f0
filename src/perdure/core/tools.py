"""What a tool is: the contract between an agent and what it can do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct, field

from perdure.core.effects import Effect
from perdure.core.entries import ObservedExit
from perdure.core.messages import SentFile

ANY_ARGUMENTS: Mapping[str, Any] = {"type": "object"}  # the schema of a tool that says nothing about its arguments


def _ignore_sign_of_life() -> None: ...


def _ignore_file(_: SentFile) -> None: ...


def _ignore_exit(_: ObservedExit) -> None: ...


class Use(Struct, frozen=True):
    """One use of a tool."""

    arguments: dict[str, Any]
    key: str  # the idempotency key: the same for every try of the same call
    alive: Callable[[], None] = (
        _ignore_sign_of_life  # a long use calls it whenever something comes of it: then it is not idle
    )
    report_exit: Callable[[ObservedExit], None] = (
        _ignore_exit  # its result tells how a process ended: on record together with that
    )
    send_file: Callable[[SentFile], None] = (
        _ignore_file  # its result sends this file: it is owed together with that
    )


class Tool(Struct, frozen=True):
    """A tool, and what repeating it would mean. A tool that does not say is never repeated.

    `run` returns what the model reads, or raises `ToolFailed` with a sentence that the model can act on. Any
    other error is told to the model too, by its name.
    """

    name: str
    description: str
    run: Callable[[Use], Awaitable[str]]
    effect: Effect = Effect.ONCE
    schema: Mapping[str, Any] = field(default_factory=lambda: ANY_ARGUMENTS)  # of the arguments, as JSON Schema
    timeout: float | None = None  # seconds; None: as long as the settings allow
    where: str = ""  # of an attached tool: the installation that alone can find again what it began
    guard: Callable[[Mapping[str, Any]], str] | None = None  # why a person must approve a call; "": nobody must
    prepare: Callable[[str], Awaitable[None]] | None = None  # called with the key before the intent is on record


class Toolbox(Protocol):
    """Where an agent finds its tools."""

    async def tools(self) -> Sequence[Tool]:
        """The tools there are now."""


class FixedTools(Struct, frozen=True):
    """A toolbox that never changes."""

    items: Sequence[Tool] = ()

    async def tools(self) -> Sequence[Tool]:
        return self.items

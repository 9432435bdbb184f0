"""What a tool is: the contract between an agent and what it can do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct, field

from perdure.core.effects import Effect
from perdure.core.entries import Sight
from perdure.core.messages import SentFile

ANYTHING: Mapping[str, Any] = {"type": "object"}  # the schema of a tool that says nothing about its arguments


def _unheard() -> None: ...


def _unsent(_: SentFile) -> None: ...


def _unseen(_: Sight) -> None: ...


class Use(Struct, frozen=True):
    """One use of a tool."""

    arguments: dict[str, Any]
    key: str  # the idempotency key: the same for every try of the same call
    alive: Callable[[], None] = _unheard  # a long use calls it whenever something comes of it: then it is not idle
    saw: Callable[[Sight], None] = _unseen  # its result tells how a process ended: on record together with that
    send: Callable[[SentFile], None] = _unsent  # its result sends this file: it is owed together with that


class Tool(Struct, frozen=True):
    """A tool, and what repeating it would mean. A tool that does not say is never repeated.

    `run` returns what the model reads, or raises `ToolFailed` with a sentence that the model can act on. Any
    other error is told to the model too, by its name.
    """

    name: str
    description: str
    run: Callable[[Use], Awaitable[str]]
    effect: Effect = Effect.ONCE
    schema: Mapping[str, Any] = field(default_factory=lambda: ANYTHING)  # of the arguments, as JSON Schema
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

    of: Sequence[Tool] = ()

    async def tools(self) -> Sequence[Tool]:
        return self.of

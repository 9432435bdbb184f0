"""What a tool is: the contract between an agent and what it can do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from perdure.core.effects import Effect


class Use(Struct, frozen=True):
    """One use of a tool."""

    arguments: dict[str, Any]
    key: str  # the idempotency key: the same for every try of the same call


class Tool(Struct, frozen=True):
    """A tool, and what repeating it would mean. A tool that does not say is never repeated."""

    name: str
    description: str
    run: Callable[[Use], Awaitable[str]]
    effect: Effect = Effect.ONCE

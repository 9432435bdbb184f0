"""The description of a slash command, and the interface of the gateway to its commands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec import Struct

from perdure.core.recovery.decision import InterruptionReason
from perdure.core.roles import Right
from perdure.store.chat_commands import ChatCommand

RunCommand = Callable[[ChatCommand, str], Awaitable[None]]


class CommandSpec(Struct, frozen=True):
    name: str
    usage: str
    summary: str
    run: RunCommand
    right: Right = "command"

    @property
    def takes_words(self) -> bool:
        return self.usage != f"/{self.name}"


class GatewayControl(Protocol):
    """The part of the gateway that commands use."""

    @property
    def stopping(self) -> InterruptionReason | None:
        """The reason with which an orderly stop marks turns; None: no stop is under way."""

    def describe(self) -> list[str]:
        """Return the state of the gateway, one sentence a line."""

    def drain(self) -> bool:
        """Ask for an orderly stop. False: a stop or restart is under way already."""

    def restart(self) -> bool:
        """Ask for a restart. False: a stop or restart is under way already."""

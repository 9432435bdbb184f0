"""What a slash command is, and what commands may ask of the gateway."""

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
    """What commands may ask of the gateway itself."""

    @property
    def stopping(self) -> InterruptionReason | None:
        """What an orderly stop under way marks turns with; None: there is none under way."""

    def describe(self) -> list[str]:
        """The gateway's situation, one sentence a line."""

    def restart(self) -> bool:
        """Ask for a restart. False: a stop or restart is under way already."""

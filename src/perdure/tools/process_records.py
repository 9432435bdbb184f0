"""The contract by which tools record background processes; the gateway implements it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from perdure.core.states import ProcessState


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

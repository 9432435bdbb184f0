"""Where processes in the background are on record, as tools see it. The gateway keeps the record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct


class ProcessRecord(Struct, frozen=True):
    """A process on record."""

    id: str
    directory: str  # the name of its first place
    command: str
    state: str  # live, ended or lost, as far as it is known
    started_at: int
    exit_code: int | None = None
    signal: int | None = None


class ProcessRecords(Protocol):
    """Where processes are on record. A call is named by its key, and sees the processes of its own chat only."""

    async def record(
        self, call: str, directory: str, command: str, *, notify: bool, patterns: Sequence[str]
    ) -> str:
        """The id of the process that a call is about to start, or has begun before.

        After return: it is on record, and outlives its turn.
        """

    async def mark_started(self, process: str) -> None:
        """Say that it was started: from now on its end and its output are heeded."""

    async def forget(self, process: str) -> None:
        """Say that it was not started and never will be. After return: it is not on record."""

    async def list_for_chat(self, call: str) -> Sequence[ProcessRecord]:
        """The processes of the chat, those that run before the others."""

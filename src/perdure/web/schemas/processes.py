"""Response bodies about background processes and their output."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class ProcessResource(Struct, frozen=True):
    """A background process and its state."""

    id: str
    key: str
    session: str
    turn: str
    command: str
    state: Literal["live", "ended", "lost"]
    exit_code: int | None
    signal: int | None
    started_at: int
    ended_at: int | None
    notify_on_complete: bool
    watch_patterns: list[str]
    told: str | None


class ProcessListResponse(Struct, frozen=True):
    processes: list[ProcessResource]
    more: bool


class ProcessOutputResponse(ProcessResource, frozen=True):
    """A background process with a part of its output; `here` says whether this machine has its files."""

    output: str
    offset: int
    next: int
    size: int
    here: bool

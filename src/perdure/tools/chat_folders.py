"""The folders that the tools of one conversation use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec import Struct


class ChatFolders(Struct, frozen=True):
    """The folders of one conversation."""

    workspace: Path  # its commands run here, and its file tools work here
    agent_home: Path  # the home directory of its commands
    attachments: tuple[Path, ...] = ()  # files that came or were sent in it, each by its path; only to be read


FindFolders = Callable[[str], Awaitable[ChatFolders]]  # gets a session key; the folders are there when it returns

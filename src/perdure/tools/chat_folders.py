"""The folders that the tools of one conversation use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct


class ChatFolders(Struct, frozen=True):
    """The folders of one conversation."""

    workspace: Path  # its commands run here, and its file tools work here
    agent_home: Path  # the home directory of its commands


FindFolders = Callable[[str], ChatFolders]  # gets a session key

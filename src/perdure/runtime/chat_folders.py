"""Which folders the tools of a conversation use: a workspace and a home for each chat, or those that all share."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Protocol

from perdure.core.address import parent_session_key
from perdure.core.file_names import CHATS_FOLDER, chat_folder
from perdure.errors import ConfigurationError
from perdure.logs import Log
from perdure.runtime.backoff import retry_while_unavailable
from perdure.settings import Settings
from perdure.tools.blocking_jobs import run_in_thread
from perdure.tools.workspace import ChatFolders

log = Log("chat_folders")

# What the gateway keeps in its home for itself, or for one conversation each.
_OWN_FOLDERS = ("attachments", CHATS_FOLDER, "keepers", "mcp")
_SHARED_AGENT_HOME = "agent-home"


def shares_workspace(settings: Settings) -> bool:
    """Whether all chats work in one folder: so it is set, or the folder is from before chats had their own.

    A home of 0.2.0 with files in `workspace` goes on as it was until somebody sets `tools.workspaces`.
    """
    if settings.tools.workspaces != "auto":
        return settings.tools.workspaces == "shared"
    if settings.tools.directory is not None:
        return True
    return not (settings.home / CHATS_FOLDER).is_dir() and _has_entries(settings.shared_workspace)


def _has_entries(folder: Path) -> bool:
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        return any(entries)
    return False


class ConversationAttachments(Protocol):
    """Knows the files of conversations."""

    async def of_conversation(self, key: str) -> list[str]:
        """The paths of the newest files of a conversation, relative to the home."""


class ChatFolderFinder:
    """Finds the folders of a conversation, and makes them when they are needed first."""

    def __init__(self, settings: Settings) -> None:
        _refuse_unsafe_directory(settings)
        self._settings = settings
        self._home = settings.home
        self._attachments: ConversationAttachments | None = None
        self.shared = shares_workspace(settings)

    def prepare(self) -> None:
        """Make what all conversations have in common, and say so if that is their workspace."""
        if not self.shared:
            (self._home / CHATS_FOLDER).mkdir(mode=0o700, parents=True, exist_ok=True)
            return
        _make_folders(self._settings.shared_workspace, self._home / _SHARED_AGENT_HOME)
        if self._settings.tools.workspaces == "auto":
            log.warning(
                "workspace_shared",
                directory=self._settings.shared_workspace,
                hint='all chats work in this folder; tools.workspaces = "chat" gives each its own',
            )

    def bind(self, attachments: ConversationAttachments) -> None:
        """Say who knows the files of conversations."""
        self._attachments = attachments

    def workspace(self, key: str) -> Path:
        """The workspace of a conversation, which may not have been made yet."""
        return self._settings.shared_workspace if self.shared else self._home / chat_folder(key) / "workspace"

    async def find(self, key: str) -> ChatFolders:
        """The folders of a conversation; a background session has those of its chat."""
        agent_home = self._home / (_SHARED_AGENT_HOME if self.shared else f"{chat_folder(key)}/home")
        files = [self._home / path for path in await self._file_paths(key)]
        return await run_in_thread(lambda: _make_folders(self.workspace(key), agent_home, files))

    async def _file_paths(self, key: str) -> list[str]:
        if self._attachments is None:
            return []
        found, attachments = list[str](), self._attachments
        for each in dict.fromkeys((key, parent_session_key(key))):
            found += await retry_while_unavailable(partial(attachments.of_conversation, each))
        return found


def _make_folders(workspace: Path, agent_home: Path, files: Sequence[Path] = ()) -> ChatFolders:
    """Make the folders for their owner alone; files that somebody has removed are left out."""
    for folder in (agent_home.parent.parent, agent_home.parent, agent_home, workspace):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return ChatFolders(workspace, agent_home, tuple(file for file in files if file.is_file()))


def _refuse_unsafe_directory(settings: Settings) -> None:
    """Refuse a `tools.directory` in which there would be nothing but the gateway's own files."""
    if settings.tools.directory is None:
        return
    if settings.tools.workspaces == "chat":
        raise ConfigurationError(
            'tools.directory is one folder for all chats, and tools.workspaces = "chat" gives each its own.',
            hint="Set one of the two.",
        )
    directory, home = settings.shared_workspace.resolve(), settings.home.resolve()
    own = directory == home or (
        directory.is_relative_to(home) and directory.relative_to(home).parts[0] in _OWN_FOLDERS
    )
    if own:
        raise ConfigurationError(
            f"tools.directory is {directory}, where the gateway keeps its own files.",
            hint="Name a folder of its own for the agent's files, such as workspace.",
        )

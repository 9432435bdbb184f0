"""The folders of conversations: where they are in a home, and for tests of tools that have no gateway."""

from __future__ import annotations

from pathlib import Path

from perdure.core.file_names import chat_folder
from perdure.tools.workspace import ChatFolders, FindFolders

WEB_CHAT = "agent:main:web:dm:home"  # where a `Person` writes


def shared_folders(root: Path, *attachments: Path) -> FindFolders:
    """One folder for all conversations, and these attachments."""

    async def find_folders(_: str) -> ChatFolders:
        return ChatFolders(root, root, attachments)

    return find_folders


def chat_workspace(home: Path, key: str = WEB_CHAT) -> Path:
    """The workspace of a conversation, which is made if it is not there."""
    workspace = home / chat_folder(key) / "workspace"
    workspace.mkdir(mode=0o700, parents=True, exist_ok=True)
    return workspace


def workspaces(home: Path) -> list[Path]:
    """The workspaces that there are in a home."""
    return [*home.glob("chats/*/workspace"), *home.glob("workspace")]


def find_files(home: Path, name: str) -> list[Path]:
    """The files of that name anywhere in a home."""
    return [*home.rglob(name)]

"""File tools beside a process that exchanges a folder for a link: they never leave the workspace.

Drives `tools/workspace`, `tools/file_tools` and `tools/file_search`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from perdure.core.messages import SentFile
from perdure.core.tools import Tool, Use
from perdure.errors import ToolFailed
from perdure.tools.file_contents import list_folder, open_file, replace_file
from perdure.tools.file_tools import file_tools, send_file_tool
from perdure.tools.workspace import ChatFolders, FileLocation, OpenBeneath, Workspace, open_beneath, open_by_parts
from support import exchange_program
from support.chat_folders import shared_folders

pytestmark = pytest.mark.anyio

SECRET, HARMLESS = "the token of the gateway", "nothing to hide"
# How often each tool is tried: it takes its time to write, and every search is a process.
TRIES = {"read_file": 1500, "write_file": 400, "edit_file": 400, "send_file": 400, "search_files": 30}

OPENERS = [pytest.param(open_beneath, id="openat2"), pytest.param(open_by_parts, id="part by part")]


class Siege:
    """A home with a token, and a workspace in it with a folder `sub` and a link to the home."""

    def __init__(self, home: Path) -> None:
        self.home, self.root = home, home / "chats" / "one" / "workspace"
        (self.root / "sub").mkdir(parents=True)
        (home / "token").write_text(SECRET)
        (self.root / "sub" / "token").write_text(HARMLESS)
        (self.root / "link").symlink_to(home)

    def exchange(self) -> None:
        exchange_program.exchange(str(self.root / "sub"), str(self.root / "link"))

    @contextmanager
    def exchanging(self) -> Iterator[None]:
        """Another process exchanges the folder and the link all the time."""
        names = [str(self.root / "sub"), str(self.root / "link")]
        command = [sys.executable, exchange_program.__file__, *names]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as program:
            try:
                assert program.stdout is not None and program.stdout.readline()
                yield
                assert program.poll() is None, "it goes on exchanging"
            finally:
                program.kill()

    def tools(self, opener: OpenBeneath) -> dict[str, Tool]:
        folders = shared_folders(self.root)
        tools = [*file_tools(folders, opener=opener), send_file_tool(folders, self.home, opener=opener)]
        return {tool.name: tool for tool in tools}

    def assert_nothing_outside_was_changed(self) -> None:
        assert (self.home / "token").read_text() == SECRET
        assert {each.name for each in self.home.iterdir()} <= {"token", "chats", "attachments"}
        sent = (self.home / "attachments").glob("*/*")
        assert {file.read_text() for file in sent} <= {HARMLESS}


@pytest.fixture
def siege(tmp_path: Path) -> Siege:
    return Siege(tmp_path / "home")


async def outcome(tool: Tool, number: int, **arguments: Any) -> str:
    sent: list[SentFile] = []
    try:
        return await tool.run(Use(arguments, f"turn:{number}", send_file=sent.append))
    except ToolFailed as refused:
        return f"refused: {refused.message}"


CALLS: dict[str, dict[str, str]] = {
    "read_file": {"path": "sub/token"},
    "write_file": {"path": "sub/token", "content": HARMLESS},
    "edit_file": {"path": "sub/token", "old": "hide", "new": "hide!"},
    "send_file": {"path": "sub/token"},
    "search_files": {"pattern": "token of the gateway", "path": "sub"},
}


@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize("name", CALLS)
async def test_b185_exchange_of_a_folder_and_a_link_never_leads_out(
    siege: Siege, name: str, opener: OpenBeneath
) -> None:
    tool, seen = siege.tools(opener)[name], set[str]()
    with siege.exchanging():
        for number in range(TRIES[name]):
            seen.add(await outcome(tool, number, **CALLS[name]))
    assert not [text for text in seen if SECRET in text]
    assert [text for text in seen if text.startswith("refused")], "the link was met"
    assert [text for text in seen if not text.startswith("refused: `sub/token` leads out")], "and the folder"
    siege.assert_nothing_outside_was_changed()


async def test_b185_search_of_the_whole_workspace_never_leads_out(siege: Siege) -> None:
    for number in range(50):  # the walk takes longer than an exchange
        (siege.root / f"file{number}").write_text(HARMLESS)
    tool = siege.tools(open_beneath)["search_files"]
    with siege.exchanging():
        found = {await outcome(tool, number, pattern="gateway|hide") for number in range(TRIES["search_files"])}
    assert not [text for text in found if SECRET in text]
    assert all("file0:1: nothing to hide" in text for text in found)


# ── the moment between the look and the opening, without chance ─────────────────────────────────────────────


def read(location: FileLocation) -> str:
    with open_file(location) as file:
        return file.read().decode()


AFTERWARDS: dict[str, tuple[str, Callable[[FileLocation], Any]]] = {
    "read": ("sub/token", read),
    "replace": ("sub/token", lambda location: replace_file(location, b"changed")),
    "make": ("sub/new/file", lambda location: replace_file(location, b"changed")),
    "list": ("sub", list_folder),
    "open a folder": ("sub", lambda location: location.open(os.O_RDONLY | os.O_DIRECTORY)),
    "look": ("sub/token", lambda location: location.stat()),
}


@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize(("path", "use"), AFTERWARDS.values(), ids=AFTERWARDS)
def test_b185_link_that_was_put_there_after_the_look_is_refused(
    siege: Siege, path: str, use: Callable[[FileLocation], Any], opener: OpenBeneath
) -> None:
    location = Workspace(ChatFolders(siege.root, siege.root), opener=opener).find(path)
    siege.exchange()
    with pytest.raises(OSError, match=r"symbolic links|Not a directory|cross-device"):
        use(location)
    siege.assert_nothing_outside_was_changed()


@pytest.mark.parametrize("opener", OPENERS)
def test_b185_link_in_the_place_of_the_file_itself_is_refused(siege: Siege, opener: OpenBeneath) -> None:
    location = Workspace(ChatFolders(siege.root, siege.root), opener=opener).find("sub/token")
    (siege.root / "sub" / "token").unlink()
    (siege.root / "sub" / "token").symlink_to(siege.home / "token")
    with pytest.raises((OSError, ToolFailed)):
        read(location)
    with pytest.raises(ToolFailed, match="is not a file"):
        replace_file(location, b"changed")
    siege.assert_nothing_outside_was_changed()


@pytest.mark.parametrize("opener", OPENERS)
def test_b185_openers_follow_no_link_and_no_way_up(siege: Siege, opener: OpenBeneath) -> None:
    (siege.root / "up").symlink_to("..")
    (siege.root / "magic").symlink_to("/proc/self/root")
    root = os.open(siege.root, os.O_PATH | os.O_DIRECTORY)
    try:
        for way in ("link/token", "up", "magic/etc", "..", "sub/../../.."):
            with pytest.raises(OSError, match=r"symbolic links|Not a directory|cross-device"):
                os.close(opener(root, tuple(way.split("/")), os.O_RDONLY))
        found = opener(root, ("sub", "token"), os.O_RDONLY)
        assert os.read(found, 100).decode() == HARMLESS
        os.close(found)
    finally:
        os.close(root)

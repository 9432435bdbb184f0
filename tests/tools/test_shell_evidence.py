"""`shell` says what it can prove, and otherwise that nobody knows.

Drives `tools/shell`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.core.tools import Tool, Use
from perdure.errors import OutcomeUnknown, ToolFailed
from perdure.runtime.process_records import DeferredProcessRecords
from perdure.tools import keeper
from perdure.tools.keeper import StatusTimeouts
from perdure.tools.shell import CommandEnvironment, call_directory, shell_tool
from support.chat_folders import shared_folders
from support.keepers import end_all_commands
from support.sandbox import NO_SANDBOX

pytestmark = pytest.mark.anyio

KEY = "t_1:c1.1"
SHORT = StatusTimeouts(missing=0.1, unreadable=0.1)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    yield from end_all_commands(tmp_path / "keepers")


def shell(root: Path) -> Tool:
    environment = CommandEnvironment(root, shared_folders(root.parent), lambda: NO_SANDBOX, status_timeouts=SHORT)
    return shell_tool(environment, DeferredProcessRecords())


def put_a_file(root: Path) -> None:
    root.write_text("where the folders of commands should be")


async def prepared(root: Path) -> tuple[Tool, Path]:
    tool = shell(root)
    assert tool.prepare is not None
    await tool.prepare(KEY)
    return tool, call_directory(root, KEY)


def use(command: str) -> Use:
    return Use({"command": command}, KEY)


async def test_b97_command_runs_where_its_folder_was_made_before(root: Path) -> None:
    tool, _ = await prepared(root)
    assert await tool.run(use("echo hello")) == "exit code 0\nhello"


async def test_b97_nothing_runs_and_the_outcome_is_unknown_when_the_folder_is_gone(root: Path) -> None:
    with pytest.raises(OutcomeUnknown, match="folder of the command is gone"):
        await shell(root).run(use("touch ran"))
    assert not (root.parent / "ran").exists()


async def test_b97_nothing_runs_and_the_outcome_is_unknown_when_the_files_cannot_be_read(root: Path) -> None:
    tool, place = await prepared(root)
    (place / "claim").symlink_to("claim")  # a loop: it cannot be followed, by root neither
    with pytest.raises(OutcomeUnknown, match="cannot be read now"):
        await tool.run(use("touch ran"))
    assert not (root.parent / "ran").exists()


async def test_b97_command_that_was_given_up_is_said_to_have_failed(root: Path) -> None:
    tool, place = await prepared(root)
    assert keeper.prevent_start(place)
    with pytest.raises(ToolFailed, match="was not started"):
        await tool.run(use("touch ran"))
    assert not (root.parent / "ran").exists()


async def test_b97_exit_code_is_told_when_the_output_cannot_be_read(root: Path) -> None:
    tool, place = await prepared(root)
    await tool.run(use("echo hello; exit 3"))
    (place / "output").unlink()
    assert await tool.run(use("")) == "exit code 3\nIts output was cleared away."
    (place / "output").symlink_to("output")
    assert (await tool.run(use(""))).startswith("exit code 3\n[Its output cannot be read: ")


async def test_b97_command_is_not_begun_when_its_folder_cannot_be_made(root: Path) -> None:
    put_a_file(root)
    prepare = shell(root).prepare
    assert prepare is not None
    with pytest.raises(ToolFailed, match="was not started"):
        await prepare(KEY)

"""Changes: what the kernel tells of folders.

Drives `tools/inotify`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.tools.inotify import InotifyWatcher


@pytest.fixture
def changes() -> Iterator[InotifyWatcher]:
    watcher = InotifyWatcher()
    yield watcher
    watcher.close()


def test_folder_is_told_of_when_a_file_in_it_is_made_or_grows(changes: InotifyWatcher, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "abc"]
    for folder in folders:
        folder.mkdir()
    numbers = [changes.add_watch(str(folder)) for folder in folders]
    assert changes.read_changed_watches() == set()
    (folders[0] / "output").write_text("said")
    with (folders[2] / "output").open("a") as output:
        output.write("said")
    assert changes.read_changed_watches() == {numbers[0], numbers[2]}
    assert changes.read_changed_watches() == set()


def test_nothing_is_told_of_a_folder_that_was_forgotten(changes: InotifyWatcher, tmp_path: Path) -> None:
    changes.remove_watch(changes.add_watch(str(tmp_path)))
    changes.read_changed_watches()  # the kernel confirms it
    (tmp_path / "output").write_text("said")
    assert changes.read_changed_watches() == set()


def test_folder_that_is_not_there_is_an_error(changes: InotifyWatcher, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        changes.add_watch(str(tmp_path / "missing"))

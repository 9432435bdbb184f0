"""Which control group commands are limited below: against trees of files that look like the kernel's.

Drives `tools/sandbox/control_group`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.tools.sandbox.control_group import find_control_group


class Tree:
    """Files as `/proc/self` and a control group of version 2 have them; the gateway runs in `unit/gateway`."""

    def __init__(self, folder: Path, own: str = "/system.slice/perdure.service/gateway") -> None:
        self.proc, self.root = folder / "proc", folder / "cgroup"
        self.unit = self.root / "system.slice" / "perdure.service"
        (self.unit / "gateway").mkdir(parents=True)
        self.proc.mkdir()
        (self.proc / "mounts").write_text(f"proc /proc proc rw 0 0\ncgroup2 {self.root} cgroup2 rw 0 0\n")
        (self.proc / "cgroup").write_text(f"4:memory:/other\n0::{own}\n")
        for name, text in (("controllers", "cpu memory pids\n"), ("procs", ""), ("subtree_control", "\n")):
            (self.unit / f"cgroup.{name}").write_text(text)

    def find(self, *, delegated: bool = True) -> tuple[Path | None, str]:
        return find_control_group(self.proc, lambda group: delegated and group == self.unit)


def test_b183_delegated_group_hands_its_controllers_on_and_is_tried(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    assert tree.find() == (tree.unit, "")
    assert (tree.unit / "cgroup.subtree_control").read_text() == "+pids +memory"
    assert (tree.unit / "command-trial" / "pids.max").exists()


def test_groups_without_processes_are_removed_at_the_start(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    (tree.unit / "command-1-1").mkdir()
    (tree.unit / "command-2-2" / "held").mkdir(parents=True)  # the kernel, too, refuses to remove a group in use
    tree.find()
    assert not (tree.unit / "command-1-1").exists()
    assert (tree.unit / "command-2-2").exists()


def test_group_that_is_not_delegated_is_left_alone(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    group, why = tree.find(delegated=False)
    assert group is None
    assert "is not delegated; under systemd, set Delegate=yes and DelegateSubgroup=gateway" in why
    assert (tree.unit / "cgroup.subtree_control").read_text() == "\n"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("cgroup.controllers", "cpu memory", "not both controllers"),
        ("cgroup.procs", "17\n", "processes of its own"),
    ],
)
def test_unfit_group_is_not_used_and_the_reason_is_told(
    tmp_path: Path, name: str, content: str, words: str
) -> None:
    tree = Tree(tmp_path)
    (tree.unit / name).write_text(content)
    group, why = tree.find()
    assert group is None
    assert words in why


def test_group_that_refuses_limits_is_not_used(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    (tree.unit / "command-trial" / "memory.max").mkdir(parents=True)
    group, why = tree.find()
    assert group is None
    assert "cannot be used: Is a directory" in why


@pytest.mark.parametrize("own", ["/", "missing"])
def test_process_in_no_group_of_version_2_has_none(tmp_path: Path, own: str) -> None:
    tree = Tree(tmp_path, own)
    if own == "missing":
        (tree.proc / "cgroup").unlink()
    assert tree.find() == (None, "this process is in none of version 2")

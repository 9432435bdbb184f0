"""The keeper, a process that owns one command: what it survives, what it inherits, what it writes down.

Drives `tools/keeper/process`, `tools/keeper/program`, `tools/keeper/confinement` and `tools/keeper/stored_output`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from perdure import tools
from perdure.tools import keeper
from perdure.tools.keeper import (
    CommandEnded,
    CommandLost,
    CommandNeverStarted,
    CommandRunning,
    CommandStatus,
    CommandUnclaimed,
)
from perdure.tools.keeper.directory import RECORD_VERSION, SANDBOX_VERSION
from perdure.tools.sandbox import Confinement
from support.keepers import (
    CommandStarter,
    end_all_commands,
    file_names,
    find_processes,
    launch_spec,
    run_keeper_program,
    running_status,
    status_of_kind,
    wait_until_ended,
    write_launch_spec,
)
from support.process_state import is_alive
from support.waiting import eventually, wait_for

pytestmark = pytest.mark.anyio

MEGABYTE = 1 << 20
OLD_KEEPER = Path(__file__).parents[1] / "upgrade" / "versions" / "0.2.0" / "keeper.tar.xz"  # as it was released


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    yield from end_all_commands(tmp_path / "commands")


def text(directory: Path) -> str:
    return keeper.read_output_text(directory, 0, MEGABYTE)[0]


def number(path: str, name: str) -> int:
    """A number in kilobytes from a file of the kernel's."""
    found = re.search(rf"^{name}:\s+(\d+) kB", Path(path).read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])


def status(pid: int, name: str) -> str:
    found = re.search(rf"^{name}:\s+(\S+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def signals(pid: int, name: str) -> set[int]:
    """The signals of a mask, without the two that the C library keeps to itself and nobody can set."""
    mask = int(status(pid, name), 16)
    return {number for number in signal.valid_signals() if mask >> (number - 1) & 1}


# ── what it survives ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "end", [CommandStarter.kill, CommandStarter.kill_group, CommandStarter.finish], ids=["kill", "killpg", "exit"]
)
async def test_a_command_goes_on_when_its_starter_ends(root: Path, end: object) -> None:
    starter = CommandStarter(root, {"a": {"command": "read line; echo got $line; exit 5"}})
    before = running_status(root / "a")
    assert callable(end)
    end(starter)
    assert running_status(root / "a") == before
    await keeper.write_input(root / "a", b"it\n")
    over = await keeper.wait_for_end(root / "a")
    assert isinstance(over, CommandEnded)
    assert (over.exit_code, text(root / "a")) == (5, "got it\n")


async def test_fifty_commands_go_on_side_by_side_when_their_starter_is_killed(root: Path) -> None:
    specs = {f"c{n}": {"command": f"echo {n}; read line; echo $line; exit {n}"} for n in range(50)}
    CommandStarter(root, specs).kill_group()
    assert {type(current) for current in keeper.read_all_statuses(root).values()} == {CommandRunning}
    assert (
        len(
            {
                current.keeper
                for current in keeper.read_all_statuses(root).values()
                if isinstance(current, CommandRunning)
            }
        )
        == 50
    )
    for n in range(50):
        await keeper.write_input(root / f"c{n}", f"line {n}\n".encode())
    for n in range(50):
        over = await keeper.wait_for_end(root / f"c{n}")
        assert isinstance(over, CommandEnded)
        assert (over.exit_code, text(root / f"c{n}")) == (n, f"{n}\nline {n}\n")


def test_the_time_of_a_command_is_up_also_when_its_starter_is_dead(root: Path) -> None:
    stubborn = "trap '' TERM; echo ready; while :; do sleep 1; done"
    CommandStarter(
        root,
        {
            "meek": {"command": "while :; do sleep 1; done", "timeout": 0.2},
            "stubborn": {"command": stubborn, "timeout": 2, "grace": 0.2},
            "quick": {"command": "true", "timeout": 600},
        },
    ).kill_group()
    found = {name: wait_until_ended(root / name) for name in ("meek", "stubborn", "quick")}
    assert [each.signal for each in found.values()] == [signal.SIGTERM, signal.SIGKILL, None]
    assert [each.timed_out for each in found.values()] == [True, True, False]
    assert not any(each.stopped for each in found.values())


async def test_the_result_is_found_when_the_folder_was_moved_meanwhile(root: Path) -> None:
    await keeper.start_command(root / "a", launch_spec("read line; echo $line; exit 6"))
    (root / "a").rename(root / "b")
    await keeper.write_input(root / "b", b"moved\n")
    over = await keeper.wait_for_end(root / "b")
    assert isinstance(over, CommandEnded)
    assert (over.exit_code, text(root / "b")) == (6, "moved\n")


async def test_a_keeper_ends_with_its_command_when_the_folder_was_removed(root: Path) -> None:
    await keeper.start_command(root / "a", launch_spec("while :; do sleep 0.01; done"))
    before = running_status(root / "a")
    shutil.rmtree(root / "a")
    os.kill(before.keeper, signal.SIGTERM)
    wait_for("both have ended", lambda: not is_alive(before.pid) and not is_alive(before.keeper))


# ── how it is started ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("program", ["keeper.py", "keeper/program.py"])
def test_a_keeper_sees_a_command_through_when_it_is_started_by_path(root: Path, program: str) -> None:
    """A gateway of 0.2.0 whose files were replaced beneath it starts `tools/keeper.py`."""
    write_launch_spec(root / "a", command="echo said; exit 3")
    path = Path(tools.__file__).parent / program
    with run_keeper_program(root / "a", path) as started:
        assert started.communicate()[1] == b""
    assert started.returncode == 0
    assert wait_until_ended(root / "a").exit_code == 3
    assert text(root / "a") == "said\n"


def test_b184_keeper_of_an_older_version_refuses_a_sandboxed_command_instead_of_running_it_bare(
    root: Path, tmp_path: Path
) -> None:
    with tarfile.open(OLD_KEEPER) as archive:
        archive.extractall(tmp_path / "old", filter="data")
    for version, name in ((SANDBOX_VERSION, "sandboxed"), (RECORD_VERSION, "bare")):
        sandbox = {"sandbox": {"layer": "bwrap"}} if version == SANDBOX_VERSION else {}
        write_launch_spec(root / name, version=version, command=f"touch {tmp_path / name}", **sandbox)
    with run_keeper_program(root / "sandboxed", tmp_path / "old" / "keeper.py") as refused:
        assert b"the order has format 2, and this keeper knows 1" in refused.communicate()[1]
    with run_keeper_program(root / "bare", tmp_path / "old" / "keeper.py") as ran:
        assert ran.communicate()[1] == b""
    assert wait_until_ended(root / "bare").exit_code == 0
    assert keeper.read_status(root / "sandboxed") == CommandUnclaimed()
    assert ((tmp_path / "sandboxed").exists(), (tmp_path / "bare").exists()) == (False, True)


def test_a_keeper_loads_its_own_modules_only() -> None:
    """Its start costs every command; `perdure` itself, `typing` or `json` would take longer than all the rest."""
    folder = str(keeper.KEEPER_PROGRAM.parent)
    script = f"import sys; sys.path.append({folder!r}); import program; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True)
    assert {"directory", "process", "stored_output"} <= set(loaded.stdout.split())
    heavy = {"perdure", "typing", "json", "pathlib", "signal", "enum", "asyncio", "ctypes", "confinement"}
    assert not heavy & set(loaded.stdout.split())


async def test_killed_bubblewrap_leaves_nothing_behind(root: Path, tmp_path: Path) -> None:
    """In the place of bubblewrap a program that was killed while its child, the later sandbox, waits for it."""
    prefix = ["/bin/sh", "-c", f"sleep 300 & echo $! > {tmp_path}/child; wait"]
    sandbox: Confinement = {"layer": "bwrap", "limits": {}, "prefix": prefix, "ruleset": None, "filters": []}
    await keeper.start_command(root / "a", launch_spec("true", sandbox=sandbox | {"inner_filter": ""}))
    waiting = int(await eventually("its child waits", lambda: written_in(tmp_path / "child")))
    wrapper = json.loads((root / "a" / "child").read_text())["pid"]
    os.kill(wrapper, signal.SIGKILL)
    assert wait_until_ended(root / "a").signal == signal.SIGKILL
    assert not is_alive(waiting)


def written_in(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def joined_group(folder: Path) -> str:
    """The process that has joined the only group in a folder."""
    [made] = folder.glob("command-*")
    return (made / "cgroup.procs").read_text()


@pytest.mark.parametrize(
    ("file", "event", "words"),
    [
        ("memory.events", "oom_kill 1", "used 300 MB of memory together, which is the limit"),
        ("pids.events", "max 9", "it had 40 processes and threads, which is the limit"),
        ("memory.events", "oom_kill 0", ""),
    ],
)
async def test_b183_command_runs_in_a_group_of_its_own_and_its_result_says_which_limit_it_met(
    root: Path, tmp_path: Path, file: str, event: str, words: str
) -> None:
    """The folder stands for the kernel's; the command itself writes there what the kernel would."""
    group = {"prefix": f"{tmp_path}/command-", "limits": {"pids.max": 40, "memory.max": 300_000_000}}
    sandbox: Confinement = {
        "layer": "landlock",
        "limits": {},
        "ruleset": None,
        "filters": [],
        "control_group": group,
    }
    line = f"cd {tmp_path}/command-*; cat pids.max; echo; cat memory.max; echo; echo '{event}' > {file}; exit 1"
    await keeper.start_command(root / "a", launch_spec(line, sandbox=sandbox))
    ended = wait_until_ended(root / "a")
    assert text(root / "a") == "40\n300000000\n"
    assert words in ended.problem
    assert bool(ended.problem) == bool(words)
    assert joined_group(tmp_path) == str(json.loads((root / "a" / "child").read_text())["pid"])


# ── once ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_command_is_run_once_when_twenty_keepers_want_it(root: Path, tmp_path: Path) -> None:
    write_launch_spec(root / "a", command=f"echo run >> {tmp_path}/runs")
    keepers = [run_keeper_program(root / "a") for _ in range(20)]
    assert [each.communicate()[1] for each in keepers] == [b""] * 20
    assert wait_until_ended(root / "a").exit_code == 0
    wait_for("no keeper is left", lambda: not find_processes(str(root / "a")))
    assert (tmp_path / "runs").read_text() == "run\n"
    assert not list((root / "a").glob("claim.*"))


@pytest.mark.parametrize("moment", ["order.json", "claim", "output", "input", "child", "said", "told"])
async def test_what_is_seen_is_true_whenever_the_keeper_is_killed(root: Path, tmp_path: Path, moment: str) -> None:
    for attempt in range(3):
        directory, mark = root / f"a{attempt}", tmp_path / f"mark{attempt}"
        write_launch_spec(directory, command=f"echo said; read line; echo done > {mark}; exit 9")
        starter = run_keeper_program(directory)
        await reach(directory, moment)
        kill_all(directory, starter)
        check(directory, keeper.read_status(directory), mark)


async def reach(directory: Path, moment: str) -> None:
    """Wait until a keeper has come as far as that."""
    if moment == "told":
        wait_for(
            "the command has an input",
            lambda: status_of_kind(directory, CommandRunning) and keeper.output_size(directory),
        )
        await keeper.write_input(directory, b"\n")
    elif moment == "said":
        wait_for("the command has said something", lambda: keeper.output_size(directory))
    else:
        wait_for(f"there is {moment}", lambda: moment in file_names(directory))


def kill_all(directory: Path, starter: subprocess.Popen[bytes]) -> None:
    """Kill a keeper, whether or not it has left the process that was started."""

    def none_left() -> bool:
        gone, found = starter.poll() is not None, find_processes(str(directory))
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return gone and not found

    wait_for("all that keeps it is killed", none_left)
    starter.communicate()


def check(directory: Path, current: CommandStatus, mark: Path) -> None:
    """Hold what is seen against what the command has really done."""
    match current:
        case CommandEnded():
            assert current.exit_code == 9
            assert mark.read_text() == "done\n"
        case CommandUnclaimed():
            assert keeper.prevent_start(directory)
            assert keeper.read_status(directory) == CommandNeverStarted()
            assert not mark.exists()
            assert not (directory / "output").exists()
        case _:
            assert isinstance(current, CommandLost)


# ── what it inherits, and what its command does ─────────────────────────────────────────────────────────────


def test_nothing_is_inherited_but_what_the_order_says(root: Path) -> None:
    env = {"ONE": "1", "PATH": os.environ["PATH"]}
    command = {"command": "touch $ONE; echo ready; read line", "directory": str(root.parent), "env": env}
    starter = CommandStarter(root, {"a": command}, "--untidy", PERDURE_NAME="of ours")
    before = running_status(root / "a")
    wait_for("it runs", lambda: keeper.output_size(root / "a"))
    environ = Path(f"/proc/{before.pid}/environ").read_bytes().split(b"\0")
    assert sorted(filter(None, environ)) == sorted(f"{name}={value}".encode() for name, value in env.items())
    assert file_names(f"/proc/{before.pid}/fd") == ["0", "1", "2"]
    assert Path(f"/proc/{before.pid}/cwd").resolve() == root.parent.resolve()
    assert (signals(before.pid, "SigIgn"), signals(before.pid, "SigBlk")) == (set(), set())
    assert status(before.pid, "Umask") == "0027"
    assert (root.parent / "1").stat().st_mode & 0o777 == 0o640
    starter.kill()


def test_a_keeper_holds_on_to_nothing_of_its_starter(root: Path) -> None:
    starter = CommandStarter(root, {"a": {"command": "read line"}}, "--untidy", PERDURE_NAME="of ours")
    pid = running_status(root / "a").keeper
    known = {line.partition(b"=")[0] for line in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")}
    assert known <= {b"PATH", b"LANG", b""}
    held = {str(Path(f"/proc/{pid}/fd/{each}").readlink()) for each in file_names(f"/proc/{pid}/fd")}
    held = {each for each in held if not each.startswith("pipe:")}
    assert held == {"/dev/null", str(root / "a"), str(root / "a" / "output"), str(root / "a" / "input")}
    assert str(Path(f"/proc/{pid}/cwd").readlink()) == "/"
    assert os.getsid(pid) == pid
    assert status(pid, "PPid") != str(os.getpid())
    assert status(pid, "Umask") == "0077"
    starter.kill()


async def test_only_the_owner_may_read_what_is_kept(root: Path) -> None:
    await keeper.start_command(root / "a", launch_spec("true"))
    await keeper.wait_for_end(root / "a")
    assert (root / "a").stat().st_mode & 0o777 == 0o700
    modes = {each.name: each.stat().st_mode & 0o777 for each in (root / "a").iterdir()}
    assert set(modes.values()) == {0o600}
    assert set(modes) == {"order.json", "claim", "child", "input", "output", "result.json"}


async def test_a_keeper_takes_little_memory(root: Path) -> None:
    await keeper.start_command(root / "a", launch_spec("read line"))
    rollup = f"/proc/{running_status(root / 'a').keeper}/smaps_rollup"
    assert number(rollup, "Pss") < 12_000


# ── output ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_output_beyond_the_cap_is_counted_and_holds_nothing_up(root: Path) -> None:
    """Of more than is kept, the beginning and the end are there."""
    await keeper.start_command(
        root / "a", launch_spec("echo begin; head -c 5000000 /dev/zero; echo end >&2", cap=100_000)
    )
    over = await keeper.wait_for_end(root / "a")
    assert isinstance(over, CommandEnded)
    assert (over.exit_code, over.seen) == (0, 5_000_010)
    assert 75_000 < over.kept == sum(each.stat().st_size for each in (root / "a").glob("output*")) <= 100_000
    assert keeper.output_size(root / "a") == 5_000_010
    assert keeper.read_output(root / "a", 0, 8)[0] == b"begin\n\0\0"
    assert keeper.read_output(root / "a", 5_000_004, 100) == (b"\0\0end\n", 5_000_010)


async def test_output_is_whole_when_it_just_fits(root: Path) -> None:
    await keeper.start_command(root / "a", launch_spec("seq 1000 9999", cap=45_000))
    await keeper.wait_for_end(root / "a")
    assert keeper.read_output_text(root / "a", 0, 100_000) == (
        "".join(f"{n}\n" for n in range(1000, 10_000)),
        45_000,
    )
    assert len(list((root / "a").glob("output*"))) == 3


async def test_reading_goes_on_behind_what_was_not_kept(root: Path) -> None:
    await keeper.start_command(root / "a", launch_spec("seq 1000 9999", cap=4000))
    await keeper.wait_for_end(root / "a")
    first, at = keeper.read_output_text(root / "a", 0, 100_000)
    assert (first[:5], first[-5:], at) == ("1000\n", "1399\n", 2000)
    behind = keeper.next_stored_offset(root / "a", at)
    last, end = keeper.read_output_text(root / "a", at, 100_000)
    assert (last[-5:], end - behind, end) == ("9999\n", len(last), 45_000)
    assert 1000 < len(last) <= 2000


async def test_beginning_and_end_are_there_when_the_keeper_is_killed(root: Path) -> None:
    await keeper.start_command(root / "a", launch_spec("seq 1000 9999; echo end; read line", cap=4000))
    wait_for("all is said", lambda: keeper.output_size(root / "a") == 45_004)
    os.kill(running_status(root / "a").keeper, signal.SIGKILL)
    wait_for("it is lost", lambda: status_of_kind(root / "a", CommandLost))
    assert text(root / "a").startswith("1000\n")
    assert keeper.read_output_text(root / "a", 44_995, 100)[0] == "9999\nend\n"


async def test_a_keeper_goes_on_when_its_command_has_more_time_than_the_kernel_can_wait(root: Path) -> None:
    await keeper.start_command(root / "a", launch_spec("echo said; read line; exit 4", timeout=1e12))
    wait_for("it has said something", lambda: keeper.output_size(root / "a"))
    await keeper.write_input(root / "a", b"\n")
    assert wait_until_ended(root / "a").exit_code == 4


async def test_output_and_errors_are_kept_in_their_order(root: Path) -> None:
    await keeper.start_command(root / "a", launch_spec("for n in 1 2 3; do echo out $n; echo err $n >&2; done"))
    await keeper.wait_for_end(root / "a")
    assert text(root / "a") == "".join(f"out {n}\nerr {n}\n" for n in (1, 2, 3))


def test_a_command_goes_on_when_the_disk_takes_no_more_output(root: Path) -> None:
    command = "head -c 300000 /dev/zero; read line; exit 2"
    starter = CommandStarter(root, {"a": {"command": command, "input": False}}, "--file-size", "100000")
    over = wait_until_ended(root / "a")
    assert (over.exit_code, over.seen, over.kept, keeper.output_size(root / "a")) == (2, 300_000, 100_000, 100_000)
    assert "could not be kept whole (File too large)" in over.problem
    starter.kill()


async def test_the_result_does_not_wait_for_children_who_hold_the_output(root: Path, tmp_path: Path) -> None:
    child = f"(while [ ! -e {tmp_path}/go ]; do sleep 0.01; done; echo late; echo alive > {tmp_path}/mark)"
    await keeper.start_command(root / "a", launch_spec(f"{child} & echo early; exit 3"))
    over = await keeper.wait_for_end(root / "a")
    assert isinstance(over, CommandEnded)
    assert (over.exit_code, over.seen, text(root / "a")) == (3, 6, "early\n")
    (tmp_path / "go").touch()
    # Had nobody read what it says, the child would have died of it.
    assert wait_for("the child has gone on", lambda: (tmp_path / "mark").exists())
    wait_for("nothing is left of the keeper", lambda: not find_processes(str(root / "a")))
    assert text(root / "a") == "early\n"


async def test_what_children_say_right_after_the_end_is_taken(root: Path, tmp_path: Path) -> None:
    os.mkfifo(fifo := tmp_path / "fifo")

    # The child speaks as soon as its parent is gone, which holds the fifo open until then. On a busy machine
    # that may be too late, but not always.
    async def said(directory: Path) -> str:
        await keeper.start_command(
            directory, launch_spec(f"(cat {fifo} > /dev/null; echo late) & exec 3> {fifo}; echo early")
        )
        await keeper.wait_for_end(directory)
        return text(directory)

    async def taken() -> bool:
        return await said(root / f"a{len(keeper.read_all_statuses(root))}") == "early\nlate\n"

    await eventually("it is taken", taken)


async def test_a_command_that_closes_its_output_goes_on(root: Path) -> None:
    await keeper.start_command(root / "a", launch_spec("echo said; exec 1>&- 2>&-; read line; exit 8"))
    wait_for("it has said something", lambda: keeper.output_size(root / "a"))
    await keeper.write_input(root / "a", b"\n")
    over = await keeper.wait_for_end(root / "a")
    assert isinstance(over, CommandEnded)
    assert over.exit_code == 8


async def test_a_command_dies_of_a_broken_pipe_as_in_a_shell(root: Path) -> None:
    await keeper.start_command(root / "a", launch_spec("{ yes; echo $? >&2; } | head -n 1"))
    await keeper.wait_for_end(root / "a")
    # Two programs of one pipeline write, each when it comes to it.
    assert sorted(text(root / "a").split()) == [str(128 + signal.SIGPIPE), "y"]

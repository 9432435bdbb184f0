"""The supervisor as a real process, keeping small programs alive that behave as a gateway may.

Drives `supervisor`.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest

from perdure.core.exit_report import GatewayLaunch, decode_launch
from perdure.supervisor import RestartBackoff, take_launch, take_lifeline
from support.waiting import wait_for

SUPERVISOR = """
import sys
from perdure.supervisor import RestartBackoff, supervise
first, longest, healthy, *command = sys.argv[1:]
sys.exit(supervise(command, schedule=RestartBackoff(float(first), float(longest), float(healthy))))
"""

# As process 1 of a container the supervisor inherits every orphan; this gives it the same role anywhere.
AS_PROCESS_ONE = "import ctypes; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)\n" + SUPERVISOR

# Notes each start in `runs`, and counts them.
SHELL = "echo $$ >> runs; n=$(wc -l < runs)\ncase $((n)) in\n"

# Ends by itself should a failed test forget it.
PYTHON = """
import os, signal, sys
from pathlib import Path
def note(name, text):
    with Path(name).open("a") as file:
        file.write(f"{text}\\n")
signal.alarm(120)
"""

# Ends on SIGTERM with the code in argv; notes every signal, and its start only once it listens.
LISTENER = (
    PYTHON
    + """
def take(number, frame):
    note("signals", signal.Signals(number).name)
    if number == signal.SIGTERM:
        sys.exit(int(sys.argv[1]))
signal.signal(signal.SIGTERM, take)
signal.signal(signal.SIGINT, take)
note("runs", os.getpid())
while True:
    signal.pause()
"""
)

DEAF = PYTHON + 'signal.signal(signal.SIGINT, signal.SIG_DFL); note("runs", os.getpid()); signal.pause()'

HANGING_ON = (
    PYTHON
    + """
from perdure.supervisor import take_lifeline
fd = take_lifeline()
note("held", f"{os.get_inheritable(fd)} {'PERDURE_LIFELINE' in os.environ} {take_lifeline()}")
note("runs", os.getpid())
note("read", os.read(fd, 1))
"""
)


class Scenario:
    """One supervisor in a directory of its own, and what could be seen of it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.schedule = RestartBackoff(first_seconds=0.001, max_seconds=0.004)
        self.program = SUPERVISOR
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *command: str, stdout: int | None = None) -> subprocess.Popen[bytes]:
        with (self.home / "out").open("wb") as out, (self.home / "err").open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-c", self.program, *map(str, self.schedule), *command],
                cwd=self.home,
                stdout=out if stdout is None else stdout,
                stderr=err,
                start_new_session=True,
            )
        return self.process

    def shell(self, *cases: str, stdout: int | None = None) -> subprocess.Popen[bytes]:
        """Start a program whose n-th run does the n-th case."""
        branches = [f"{n}) {case};;\n" for n, case in enumerate(cases, 1)]
        return self.start("/bin/sh", "-c", f"{SHELL}{''.join(branches)}esac", stdout=stdout)

    def python(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        return self.start(sys.executable, "-c", program, *arguments)

    def lines(self, name: str) -> list[str]:
        path = self.home / name
        return path.read_text().splitlines() if path.exists() else []

    def has(self, name: str, count: int) -> list[str]:
        """Wait until a file has that many lines."""

        def probe() -> list[str] | None:
            lines = self.lines(name)
            return lines if len(lines) >= count else None

        return wait_for(f"{name} has {count} lines", probe)

    def sentences(self) -> list[str]:
        """What was announced, without the times that differ from run to run."""
        return [re.sub(r"after [\d.]+ s", "after a while", line) for line in self.lines("err")]

    def ends(self) -> int:
        assert self.process is not None
        return self.process.wait(timeout=60)

    def close(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=10)
            self.process.kill()
        if self.process:
            self.process.wait()


@pytest.fixture
def scenario(tmp_path: Path) -> Iterator[Scenario]:
    scenario = Scenario(tmp_path)
    try:
        yield scenario
    finally:
        scenario.close()


# ── exit codes ──────────────────────────────────────────────────────────────────────────────────────────────


def test_supervisor_is_done_when_the_gateway_is(scenario: Scenario) -> None:
    scenario.shell("exit 0")
    assert scenario.ends() == 0
    assert len(scenario.lines("runs")) == 1
    assert scenario.lines("err") == []


def test_supervisor_gives_up_when_the_gateway_refuses_to_run(scenario: Scenario) -> None:
    scenario.shell("exit 78")
    assert scenario.ends() == 78
    assert len(scenario.lines("runs")) == 1
    assert scenario.sentences() == [
        "The gateway ended with exit code 78 after a while; it stays down until what it reported is mended."
    ]


def test_gateway_is_started_at_once_when_it_asks_for_a_restart(scenario: Scenario) -> None:
    scenario.schedule = RestartBackoff(first_seconds=600, max_seconds=600)
    scenario.shell("exit 75", "exit 75", "exit 75", "exit 0")
    assert scenario.ends() == 0
    assert len(scenario.lines("runs")) == 4
    assert scenario.sentences() == ["The gateway asked for a restart after a while; starting it again."] * 3


def test_gateway_is_started_again_when_it_was_killed(scenario: Scenario) -> None:
    supervisor = scenario.python(LISTENER, "0")
    os.kill(int(scenario.has("runs", 1)[0]), signal.SIGKILL)
    scenario.has("runs", 2)
    supervisor.terminate()
    assert scenario.ends() == 0
    assert scenario.sentences() == ["The gateway was killed by SIGKILL after a while; starting it again."]


def test_wait_grows_when_the_gateway_keeps_dying(scenario: Scenario) -> None:
    scenario.shell("exit 3", "exit 1", "exit 3", "kill -9 $$", "exit 3", "exit 0")
    assert scenario.ends() == 0
    in_a_row = "it has died {} times in a row, starting it again in {} s."
    assert scenario.sentences() == [
        "The gateway ended with exit code 3 after a while; starting it again.",
        f"The gateway ended with exit code 1 after a while; {in_a_row.format(2, 0.001)}",
        f"The gateway ended with exit code 3 after a while; {in_a_row.format(3, 0.002)}",
        f"The gateway was killed by SIGKILL after a while; {in_a_row.format(4, 0.004)}",
        f"The gateway ended with exit code 3 after a while; {in_a_row.format(5, 0.004)}",
    ]


def test_wait_starts_anew_when_the_gateway_had_lived_long(scenario: Scenario) -> None:
    scenario.schedule = RestartBackoff(first_seconds=600, max_seconds=600, healthy_seconds=0)
    scenario.shell("exit 3", "exit 3", "exit 3", "exit 0")
    assert scenario.ends() == 0
    assert scenario.sentences() == ["The gateway ended with exit code 3 after a while; starting it again."] * 3


def test_wait_starts_anew_when_a_restart_was_asked_for(scenario: Scenario) -> None:
    scenario.schedule = RestartBackoff(first_seconds=600, max_seconds=600)
    scenario.shell("exit 3", "exit 75", "exit 3", "exit 0")
    assert scenario.ends() == 0
    assert not any("in a row" in sentence for sentence in scenario.sentences())


def test_usual_wait_doubles_to_half_a_minute_however_often_the_gateway_dies() -> None:
    delays = [RestartBackoff().delay(deaths) for deaths in range(1, 10)]
    assert delays == [0, 0.5, 1, 2, 4, 8, 16, 30, 30]
    assert RestartBackoff().delay(1_000_000) == 30
    assert [RestartBackoff().next_failures(7, lived) for lived in (59.9, 60.0)] == [8, 1]


def test_supervisor_keeps_trying_when_the_gateway_cannot_be_started(scenario: Scenario) -> None:
    supervisor = scenario.start("./no-such-program")
    said = scenario.has("err", 3)
    supervisor.terminate()
    assert scenario.ends() == 0
    assert "could not be started" in said[2]
    assert "No such file or directory" in said[2]
    assert "it has died 3 times in a row" in said[2]


# ── signals ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_each_signal_reaches_the_gateway_once_when_a_terminal_sends_it_to_all(scenario: Scenario) -> None:
    supervisor = scenario.python(LISTENER, "0")
    gateway = int(scenario.has("runs", 1)[0])
    os.killpg(supervisor.pid, signal.SIGINT)
    scenario.has("signals", 1)
    os.killpg(supervisor.pid, signal.SIGTERM)
    assert scenario.ends() == 0
    assert scenario.lines("signals") == ["SIGINT", "SIGTERM"]
    assert len(scenario.lines("runs")) == 1
    assert scenario.lines("err") == []
    with pytest.raises(ProcessLookupError):
        os.kill(gateway, 0)


def test_gateway_is_in_no_group_of_the_supervisor_when_it_runs(scenario: Scenario) -> None:
    supervisor = scenario.python(LISTENER, "0")
    gateway = int(scenario.has("runs", 1)[0])
    assert os.getsid(gateway) == os.getpgid(gateway) == gateway
    supervisor.terminate()
    assert scenario.ends() == 0


def test_gateway_is_asked_to_stop_when_the_terminal_closes(scenario: Scenario) -> None:
    supervisor = scenario.python(LISTENER, "0")
    scenario.has("runs", 1)
    supervisor.send_signal(signal.SIGHUP)
    assert scenario.ends() == 0
    assert scenario.lines("signals") == ["SIGTERM"]


def test_closing_terminal_stops_nothing_when_the_supervisor_was_told_to_ignore_it(scenario: Scenario) -> None:
    scenario.program = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n" + SUPERVISOR
    supervisor = scenario.python(LISTENER, "0")
    scenario.has("runs", 1)
    supervisor.send_signal(signal.SIGHUP)
    supervisor.send_signal(signal.SIGINT)
    scenario.has("signals", 1)
    supervisor.terminate()
    assert scenario.ends() == 0
    assert scenario.lines("signals") == ["SIGINT", "SIGTERM"]


def test_wait_ends_when_a_signal_comes(scenario: Scenario) -> None:
    scenario.schedule = RestartBackoff(first_seconds=600, max_seconds=600)
    supervisor = scenario.shell("exit 3", "exit 3", "exit 0")
    wait_for("it waits", lambda: any("in 600 s" in line for line in scenario.lines("err")))
    supervisor.send_signal(signal.SIGINT)
    assert scenario.ends() == 0
    assert len(scenario.lines("runs")) == 2


@pytest.mark.parametrize(("code", "expected"), [(0, 0), (75, 0), (3, 3)], ids=["clean", "restarting", "failing"])
def test_gateway_has_the_last_word_when_it_was_told_to_stop(scenario: Scenario, code: int, expected: int) -> None:
    supervisor = scenario.python(LISTENER, str(code))
    scenario.has("runs", 1)
    supervisor.terminate()
    assert scenario.ends() == expected
    assert len(scenario.lines("runs")) == 1
    spoken = ["The gateway ended with exit code 3 after a while, while it was stopping."]
    assert scenario.sentences() == (spoken if expected else [])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stop_is_clean_when_the_gateway_does_not_listen_yet(scenario: Scenario, number: signal.Signals) -> None:
    supervisor = scenario.python(DEAF)
    scenario.has("runs", 1)
    supervisor.send_signal(number)
    assert scenario.ends() == 0
    assert len(scenario.lines("runs")) == 1


def test_stop_is_not_clean_when_the_gateway_is_killed_meanwhile(scenario: Scenario) -> None:
    supervisor = scenario.python(LISTENER, "0")
    gateway = int(scenario.has("runs", 1)[0])
    supervisor.send_signal(signal.SIGINT)
    scenario.has("signals", 1)
    os.kill(gateway, signal.SIGKILL)
    assert scenario.ends() == 128 + signal.SIGKILL
    assert scenario.sentences() == ["The gateway was killed by SIGKILL after a while, while it was stopping."]


# ── one line on standard output ─────────────────────────────────────────────────────────────────────────────


def test_one_line_comes_out_when_the_gateway_starts_several_times(scenario: Scenario) -> None:
    say = 'echo "ready $n quiet=$PERDURE_QUIET_READY"'
    scenario.shell("exit 3", f"{say}; echo more; exit 75", f"{say}; kill -9 $$", "exit 0")
    assert scenario.ends() == 0
    assert scenario.lines("out") == ["ready 2 quiet="]
    assert [line for line in scenario.lines("err") if "gateway" not in line] == ["more", "ready 3 quiet=1"]


def test_half_a_line_does_not_come_out_when_the_gateway_dies_saying_it(scenario: Scenario) -> None:
    scenario.shell("printf 'rea'; kill -9 $$", 'echo "ready quiet=$PERDURE_QUIET_READY"; exit 0')
    assert scenario.ends() == 0
    assert scenario.lines("out") == ["ready quiet="]
    assert scenario.lines("err")[0] == "rea"


def test_line_comes_out_while_the_gateway_runs(scenario: Scenario) -> None:
    supervisor = scenario.python('print("ready", flush=True)\n' + LISTENER, "0")
    assert scenario.has("out", 1) == ["ready"]
    supervisor.terminate()
    assert scenario.ends() == 0


def test_supervisor_goes_on_when_nobody_reads_its_output(scenario: Scenario) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    scenario.shell("echo ready; exit 75", "echo ready; exit 3", "exit 0", stdout=writer)
    os.close(writer)
    assert scenario.ends() == 0
    assert len(scenario.lines("runs")) == 3


# ── what the supervisor saw of a death ──────────────────────────────────────────────────────────────────────


def test_next_gateway_is_told_how_those_before_it_died(scenario: Scenario) -> None:
    """By the names of their starts; also of one before a gateway that had no time to write that down."""
    say = 'echo "$PERDURE_LAUNCH" >> told'
    scenario.shell(f"{say}; kill -9 $$", f"{say}; exit 3", f"{say}; exit 0")
    assert scenario.ends() == 0
    told = [launch for line in scenario.lines("told") if (launch := decode_launch(line)) is not None]
    names = [launch.name for launch in told]
    assert len(set(names)) == 3
    deaths = [[(death.launch, death.code) for death in launch.deaths] for launch in told]
    assert deaths == [[], [(names[0], -9)], [(names[0], -9), (names[1], 3)]]
    assert all(one.at <= two.at for launch in told for one, two in pairwise(launch.deaths))


def test_gateway_keeps_what_it_was_told_from_its_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_LAUNCH", '{"name":"a1"}')
    assert take_launch() == GatewayLaunch("a1")
    assert "PERDURE_LAUNCH" not in os.environ
    assert take_launch() is None


# ── nothing left behind ─────────────────────────────────────────────────────────────────────────────────────


def test_gateway_notices_when_the_supervisor_is_killed(scenario: Scenario) -> None:
    supervisor = scenario.python(HANGING_ON)
    scenario.has("runs", 1)
    assert scenario.lines("held") == ["False False None"]
    supervisor.kill()
    assert scenario.has("read", 1) == ["b''"]


def test_second_gateway_notices_too_when_the_supervisor_is_killed(scenario: Scenario) -> None:
    supervisor = scenario.python(HANGING_ON)
    os.kill(int(scenario.has("runs", 1)[0]), signal.SIGKILL)
    scenario.has("runs", 2)
    supervisor.kill()
    assert scenario.has("read", 1) == ["b''"]


def test_no_zombie_is_left_when_the_gateway_leaves_an_orphan(scenario: Scenario) -> None:
    scenario.program = AS_PROCESS_ONE
    orphan = "(sh -c 'echo $$ >> orphans; while [ -e orphaned ]; do sleep 0.01; done' &)"
    supervisor = scenario.start("/bin/sh", "-c", f"touch orphaned; {orphan}; echo $$ >> runs; exec sleep 120")
    pid = int(scenario.has("orphans", 1)[0])
    status = Path(f"/proc/{pid}/status")
    wait_for("the orphan is the supervisor's", lambda: f"PPid:\t{supervisor.pid}\n" in status.read_text())
    (scenario.home / "orphaned").unlink()
    wait_for("the orphan is gone", lambda: not status.exists())
    supervisor.terminate()
    assert scenario.ends() == 0


@pytest.mark.parametrize("text", ["", "three", "0", "-1", "9" * 30, "1048575"])
def test_no_lifeline_is_found_when_the_variable_names_none(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_LIFELINE", text)
    assert take_lifeline() is None
    assert "PERDURE_LIFELINE" not in os.environ


def test_no_lifeline_is_found_when_the_number_is_of_another_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = os.pipe()
    found = []
    with (tmp_path / "file").open("wb") as file, os.fdopen(reader, "rb"), os.fdopen(writer, "wb"):
        for fd in (file.fileno(), writer, reader):
            monkeypatch.setenv("PERDURE_LIFELINE", str(fd))
            found.append(take_lifeline())
    assert found == [None, None, reader]

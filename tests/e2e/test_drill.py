"""The drill: users kill gateways on their own installation, and what comes of it is counted.

Drives `testing/drill`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure.config import load_settings
from perdure.testing.drill import Drill, Point, Report
from support import broken_gateways
from support.keepers import find_processes
from support.waiting import wait_for

FAULTS = ("lost", "repeated", "duplicates", "phantoms", "stuck", "notes", "epochs")
COUNTS = ("kills", "turns", *FAULTS, "unknown")
BROKEN = Path(broken_gateways.__file__)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A user's home, in which the faulty gateways can be found."""
    place = tmp_path / "home"
    place.mkdir()
    shutil.copy(BROKEN, place / BROKEN.name)
    return place


def environment(home: Path, **settings: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
    own = {f"PERDURE_{name}": value for name, value in settings.items()}
    return inherited | {"PERDURE_HOME": str(home)} | own


def drill(home: Path, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "perdure", "drill", *words]
    return subprocess.run(command, env=environment(home, **settings), capture_output=True, text=True, timeout=150)


def counted(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def faults(report: dict[str, Any]) -> dict[str, int]:
    return {name: report[name] for name in FAULTS if report[name]}


def forget(report: dict[str, Any]) -> None:
    """Remove what a failed drill has left for its user to look at."""
    shutil.rmtree(report["home"])


def run(home: Path, points: list[Point], **options: Any) -> Report:
    """A drill at points of one's own."""
    report = asyncio.run(Drill(load_settings(home, {}), points, **options).run())
    if report.home is not None:
        shutil.rmtree(report.home)
    return report


# ── a gateway that is as it should be ───────────────────────────────────────────────────────────────────────


def test_nothing_is_lost_or_repeated_in_a_short_drill(home: Path) -> None:
    """B40, B41, B46, B62, B63, B66, B67, B70, B73, B74, B90: with a real process and SIGKILL."""
    done = drill(home, "--kills", "12", "--seed", "7", "--json")
    report = counted(done)
    assert faults(report) == {}, report["findings"]
    assert done.returncode == 0
    assert all(type(report[name]) is int for name in COUNTS)
    assert report["kills"] == len(report["points"]) == 12
    assert report["turns"] > 12
    assert len(report["findings"]["unknown"]) == report["unknown"]
    assert report["seed"] == 7
    assert report["home"] is None


def test_kills_are_at_the_same_points_when_a_seed_is_replayed(home: Path) -> None:
    first = counted(drill(home, "--kills", "3", "--json"))
    again = counted(drill(home, "--kills", "3", "--seed", str(first["seed"]), "--json"))
    assert again["points"] == first["points"]


def test_every_store_call_has_its_turn_in_a_sweep(home: Path) -> None:
    report = counted(drill(home, "--sweep", "--kills", "3", "--json"))
    assert faults(report) == {}, report["findings"]
    assert report["points"] == ["before store call 1", "after store call 1", "before store call 2"]
    assert report["seed"] is None


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(Point("send", 2), id="before a send"),
        pytest.param(Point("send", 2, after=True), id="after a send"),
        pytest.param(Point("ack", 3), id="before an acknowledgement"),
        pytest.param(Point("ack", 3, after=True), id="after an acknowledgement"),
        pytest.param(Point("step", 5), id="in the middle of a step"),
    ],
)
def test_it_kills_where_it_says(home: Path, point: Point) -> None:
    report = run(home, [point])
    assert (report.kills, report.at_rest) == (1, 0)
    assert not report.failed, report.findings


def test_start_is_killed_too(home: Path) -> None:
    report = run(home, [Point("store", 60), Point("start", 10, after=True)])
    assert (report.kills, report.at_rest) == (2, 0)
    assert not report.failed, report.findings


def test_lost_command_is_not_run_again_when_its_keeper_is_killed_too(home: Path) -> None:
    """B63, B90, B97: nobody knows how it ended, and that is told."""
    report = run(home, [Point("keeper", 1), Point("keeper", 2)])
    assert (report.kills, report.at_rest) == (2, 0)
    assert not report.failed, report.findings
    assert report.unknown >= 1, "no keeper was killed in the middle of its command"


def test_end_that_the_agent_has_seen_is_not_told_again(home: Path) -> None:
    """B92: an agent that waited for its process is not told of the end."""
    report = run(home, [Point("command", 2)])
    assert (report.kills, report.at_rest) == (1, 0)
    assert not report.failed, report.findings


def test_agent_is_told_once_that_it_was_cut_off(home: Path) -> None:
    """B47: exactly one note, with the cause, before the model goes on."""
    report = run(home, [Point("step", 5)])
    assert not report.failed, report.findings


def test_turns_have_a_new_epoch_when_they_are_taken_over(home: Path) -> None:
    """B40: also those that the next start had not got to yet when it was killed."""
    starts = [point for nth in (8, 14, 20, 26) for point in (Point("step", 5), Point("start", nth, after=True))]
    report = run(home, starts)
    assert report.kills == 8
    assert not report.failed, report.findings


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(Point("full", 1, after=True), id="when the messages come"),
        pytest.param(Point("full", 40), id="killed while it is full"),
        pytest.param(Point("full", 40, after=True), id="killed when there is room again"),
    ],
)
def test_nothing_is_lost_or_repeated_when_the_disk_is_full_for_a_moment(home: Path, point: Point) -> None:
    """B60, B70: a write that was refused is done later, and nothing runs that is not on record."""
    report = run(home, [point])
    assert (report.kills, report.at_rest) == (1, 0)
    assert not report.failed, report.findings


def test_table_tells_the_counts_and_explains_what_is_unknown(home: Path) -> None:
    """Killed while it sends to a platform that cannot tell: the message is sent again, with a mark."""
    done = drill(home, "--kills", "3", "--seed", "7")
    assert done.returncode == 0, done.stderr
    rows = [line.split("│")[1:3] for line in done.stdout.splitlines() if line.startswith("│")]
    shown = {name.strip(): count.strip() for name, count in rows}
    assert shown["kills"] == "3"
    assert [shown[name] for name in FAULTS] == ["0"] * len(FAULTS)
    explained = [line for line in done.stdout.splitlines() if line.startswith("unknown: ")]
    assert len(explained) == int(shown["unknown"])
    assert "Nothing was lost" in done.stdout


# ── what is the user's ──────────────────────────────────────────────────────────────────────────────────────


def snapshot(folder: Path) -> dict[str, tuple[str, int]]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns) for path in files}


def test_configuration_counts_and_nothing_of_the_users_is_touched(home: Path) -> None:
    (home / "config.toml").write_text(
        '[store]\nurl = "sqlite:///mine.db"\n'
        '[recovery]\npolicy = "ask"\n'
        '[model]\nname = "openai:gpt-5"\napi_key = "sk-mine"\n'
        '[tools]\ndirectory = "files"\n'
    )
    (home / "mine.db").write_bytes(b"this is no database, and nobody opens it")
    (home / "files").mkdir()
    before = snapshot(home)
    done = drill(home, "--kills", "2", "--seed", "7", "--json")
    report = counted(done)
    assert faults(report) == {}, report["findings"]
    assert report["by_hand"] > 0, "nobody was asked, though the policy is to ask"
    assert snapshot(home) == before
    assert "sk-mine" not in done.stdout + done.stderr


def test_postgresql_is_left_alone_and_the_drill_says_so(home: Path) -> None:
    url = "postgresql://nobody:secret@nowhere.invalid/none"
    done = drill(home, "--kills", "1", "--json", STORE__URL=url)
    assert faults(counted(done)) == {}
    assert "your PostgreSQL database is not touched" in " ".join(done.stderr.split())
    assert "secret" not in done.stdout + done.stderr


def test_nothing_is_left_of_a_drill_that_is_interrupted(home: Path, tmp_path: Path) -> None:
    place = tmp_path / ("long" * 30)  # longer than the path of a socket may be
    place.mkdir()
    command = [sys.executable, "-m", "perdure", "drill", "--kills", "1000"]
    with subprocess.Popen(command, env=environment(home) | {"TMPDIR": str(place)}) as process:
        wait_for("a gateway runs", lambda: list(place.glob("*/home/rehearsal.log")))
        process.send_signal(signal.SIGINT)
        assert process.wait(60) != 0
    wait_for("no gateway runs any more", lambda: not find_processes(str(place)))
    assert not list(place.iterdir())


# ── a gateway with a fault ──────────────────────────────────────────────────────────────────────────────────


def test_lost_messages_are_counted_and_it_ends_with_code_1(home: Path) -> None:
    done = drill(home, "--kills", "1", "--gateway", "broken_gateways:loses", "--json")
    report = counted(done)
    assert faults(report).keys() == {"lost"}, report["findings"]
    assert "[answer-1-in-1-once] never came" in report["findings"]["lost"][0]
    assert done.returncode == 1
    assert (Path(report["home"]) / "gateway.log").exists(), "nothing is left to look at"
    forget(report)


def test_messages_that_only_a_kill_can_lose_are_counted(home: Path) -> None:
    """B70: an acknowledgement that comes before the message is stored."""
    report = run(home, [Point("ack", 3, after=True)], gateway="broken_gateways:acknowledges_early")
    assert report.lost >= 1, report.findings
    assert report.repeated == report.duplicates == report.phantoms == report.stuck == 0, report.findings


def test_answers_that_only_a_kill_can_double_are_counted(home: Path) -> None:
    """B74: a send that nobody confirmed, to a platform that cannot tell, without a mark."""
    boast = "broken_gateways:claims_too_much"
    assert not run(home, [Point("rest")], gateway=boast).failed
    report = run(home, [Point("send", nth, after=True) for nth in range(1, 8)], gateway=boast)
    assert report.duplicates >= 1, report.findings
    assert report.lost == report.repeated == report.phantoms == report.stuck == 0, report.findings


def test_answers_that_come_twice_are_counted(home: Path) -> None:
    report = run(home, [Point("rest")], gateway="broken_gateways:doubles")
    assert report.duplicates >= 9
    assert report.lost == report.repeated == report.stuck == 0, report.findings


def test_chats_that_wake_are_counted(home: Path) -> None:
    report = run(home, [Point("store", 30), Point("rest")], gateway="broken_gateways:wakes")
    assert report.phantoms >= 1
    assert "Are you still there?" in str(report.findings["phantoms"])
    assert report.lost == report.repeated == report.stuck == 0, report.findings


def test_steps_that_run_again_are_counted(home: Path) -> None:
    report = run(home, [Point("step", 7), Point("step", 9), Point("store", 90)], gateway="broken_gateways:repeats")
    assert report.repeated >= 1, report.findings
    assert report.lost == report.stuck == 0, report.findings


def test_turns_that_never_end_are_counted(home: Path) -> None:
    report = run(home, [Point("rest")], gateway="broken_gateways:hangs", patience=3.0)
    assert report.stuck >= 1, report.findings
    assert report.failed


def test_gateway_that_cannot_be_found_is_told_before_anything_starts(home: Path) -> None:
    done = drill(home, "--kills", "1", "--gateway", "nowhere:at_all")
    assert done.returncode == 78
    assert "'nowhere:at_all' cannot be imported" in done.stderr


def test_seed_and_sweep_together_are_refused(home: Path) -> None:
    done = drill(home, "--sweep", "--seed", "1")
    assert done.returncode == 2
    assert "not both" in done.stderr

"""The drill of several gateways on one PostgreSQL: kills, stops, freezes, outages, cuts, and what comes of them.

Drives `testing/drill` and `store/backends/drill_database`.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from perdure.config import load_settings
from perdure.core import texts
from perdure.testing.drill import Report
from perdure.testing.drill.cli import print_report
from perdure.testing.drill.group_faults import FAULT_KINDS, GroupFault
from perdure.testing.drill.group_runner import GroupDrill
from perdure.testing.drill.report import GROUP_FAULTS
from support import broken_gateways
from support.postgres import PostgresServer

BROKEN = Path(broken_gateways.__file__)


def run(home: Path, url: str, *faults: GroupFault, **options: Any) -> Report:
    """A drill of two gateways with faults of one's own."""
    settings = load_settings(home, {"PERDURE_STORE__LEASE": "3s"})
    report = asyncio.run(GroupDrill(settings, faults, gateways=2, store=url, **options).run())
    if report.home is not None:
        shutil.rmtree(report.home)
    return report


def tables(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    return sorted(name for (name,) in rows)


def drill(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "perdure", "drill", *words]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
    own = inherited | {"PERDURE_HOME": str(home)}
    return subprocess.run(command, env=own, capture_output=True, text=True, timeout=60)


# ── gateways that are as they should be ─────────────────────────────────────────────────────────────────────


def test_b161_b162_nothing_is_stranded_or_doubled_when_gateways_are_killed_stopped_and_frozen(
    tmp_path: Path, postgres_url: str
) -> None:
    faults = [GroupFault("kill", 0, 60), GroupFault("stop", 1, 12), GroupFault("freeze", 0, 20)]
    report = run(tmp_path, postgres_url, *faults)
    assert not report.failed, report.findings
    assert report.faults == {"kill": 1, "stop": 1, "freeze": 1}
    assert (report.gateways, report.kills) == (2, 1)
    assert 0 < report.silence < 60
    assert tables(postgres_url) == [], "the database is as empty as it was"


def test_b163_b164_nobody_is_declared_dead_when_the_database_is_away_stalls_reads_only_or_is_cut_off(
    tmp_path: Path, postgres_url: str
) -> None:
    faults = [GroupFault(kind, 0, 10) for kind in ("outage", "stall", "read_only", "cut")]
    report = run(tmp_path, postgres_url, *faults)
    assert not report.failed, report.findings
    assert report.faults == dict.fromkeys(("outage", "stall", "read_only", "cut"), 1)
    assert report.stayed == 0, "no chat went to another machine"


def test_table_tells_the_faults_and_the_silence(
    tmp_path: Path, postgres_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    report = run(tmp_path, postgres_url, GroupFault("restart", 0, 5))
    print_report(report)
    shown = capsys.readouterr().out
    assert FAULT_KINDS["restart"] in shown
    assert all(meaning in shown for meaning in GROUP_FAULTS.values())
    assert "silence" in shown
    assert "--gateways 2 --store …" in shown


# ── gateways with a fault ───────────────────────────────────────────────────────────────────────────────────


def test_lost_messages_are_counted(tmp_path: Path, postgres_url: str) -> None:
    shutil.copy(BROKEN, tmp_path / BROKEN.name)
    report = run(tmp_path, postgres_url, GroupFault("restart", 0, 5), gateway="broken_gateways:loses")
    assert report.lost >= 1, report.findings
    assert "turns" in tables(postgres_url), "what is left of a failed drill can be looked at"


def test_chats_that_nobody_goes_on_with_are_counted_as_stranded(tmp_path: Path, postgres_url: str) -> None:
    """Gateways that take nothing over: the chats of one that was killed wait until it is back."""
    shutil.copy(BROKEN, tmp_path / BROKEN.name)
    report = run(
        tmp_path,
        postgres_url,
        GroupFault("kill", 0, 90),
        gateway="broken_gateways:takes_nothing_over",
        patience=3.0,
    )
    assert report.stranded >= 1, report.findings
    assert report.lost == report.repeated == report.duplicates == 0, report.findings


# ── whose database it is ────────────────────────────────────────────────────────────────────────────────────


def test_several_gateways_without_a_database_are_refused_with_what_to_do(tmp_path: Path) -> None:
    done = drill(tmp_path, "--gateways", "3")
    assert done.returncode == 2
    assert "made for the drill" in " ".join(done.stderr.replace("│", " ").split())


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["--store", "postgresql://nobody@nowhere.invalid/none"], id="one gateway"),
        pytest.param(["--gateways", "2", "--store", "postgresql://x@y/z", "--sweep"], id="a sweep"),
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path: Path, words: list[str]) -> None:
    assert drill(tmp_path, *words).returncode == 2


def test_database_with_tables_is_left_alone(tmp_path: Path, postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA mine")
        connection.execute("CREATE TABLE mine.accounts (id int)")
    done = drill(tmp_path, "--gateways", "2", "--store", postgres_url, "--kills", "1")
    assert done.returncode == 1
    assert "mine.accounts" in done.stderr
    assert "hint: " in done.stderr
    assert tables(postgres_url) == []


def test_server_that_is_not_there_is_told_before_anything_starts(tmp_path: Path) -> None:
    done = drill(tmp_path, "--gateways", "2", "--store", "postgresql://x:secret@127.0.0.1:1/none", "--kills", "1")
    assert done.returncode != 0
    assert "cannot be reached" in done.stderr
    assert "secret" not in done.stderr


def test_phase_that_the_role_may_not_cause_is_left_out_and_told(
    tmp_path: Path, postgres_server: PostgresServer, postgres_url: str
) -> None:
    name = postgres_url.rpartition("/")[2]
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS guest")
        connection.execute("CREATE ROLE guest LOGIN")
        connection.execute("GRANT CREATE, USAGE ON SCHEMA public TO guest")
    url = f"postgresql://guest@127.0.0.1:{postgres_server.port}/{name}"
    report = run(tmp_path, url, GroupFault("read_only", 0, 3), GroupFault("restart", 0, 3))
    assert not report.failed, report.findings
    assert report.faults == {"restart": 1}
    assert report.left_out == [texts.cli.DRILL_READ_ONLY_LEFT_OUT]

"""A gateway that was killed under its supervisor: until when it lived and how it died is told afterwards.

Drives `supervisor`, `store/runs`, `core/timeline` and `operations/timeline`.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import httpx

from perdure.store.ids import wall_clock
from perdure.store.locks import lock_holder
from support.chat_folders import chat_workspace
from support.gateway import COMMAND, GatewayProcess, Person, gateway
from support.operator_client import Operator
from support.waiting import wait_for

STALE = '{"name":"b","deaths":[{"launch":"a","at":1700000000000,"code":-11}],"version":1}'


def begins_to_work(process: GatewayProcess) -> None:
    person = Person(process)
    person.say("run: until [ -e flag ]; do sleep 0.05; done\nsay: All done.")
    person.wait_for_event("the command runs", tool="shell", state="started")


def is_cut_off(process: GatewayProcess) -> Any:
    """The life of the turn, once the next gateway has gone on with it."""

    def life() -> Any:
        try:
            found = Operator(process).last_turn("home")
        except httpx.TransportError:
            return None
        return found if found["attempt"] == 2 else None

    return wait_for("the turn goes on", life)


def kill_gateway(process: GatewayProcess) -> int:
    """Kill the gateway, and leave its supervisor alive; the time right before."""
    holder = lock_holder(process.home / "lock")
    assert holder is not None
    now = wall_clock()
    os.kill(int(holder), signal.SIGKILL)
    return now


def page_of(process: GatewayProcess, turn: str) -> str:
    headers = {"Authorization": f"Bearer {process.token}"}
    return httpx.get(f"{process.url}/console/turns/{turn}", headers=headers, timeout=30).text


def traced(process: GatewayProcess) -> str:
    trace = [*COMMAND, "trace", "n1"]
    return subprocess.run(trace, env=process.environment(), capture_output=True, text=True, timeout=60).stdout


def test_b40_supervisor_says_until_when_the_gateway_lived_and_how_it_died(tmp_path: Path) -> None:
    with gateway(tmp_path / "home", command="up") as process:
        begins_to_work(process)
        killed_at = kill_gateway(process)
        life = is_cut_off(process)
        (cut,), first = life["interruptions"], life["attempts"][0]
        assert killed_at <= cut["at"] == first["until"] <= cut["found_at"]
        assert (cut["exit_code"], cut["death"]) == (-signal.SIGKILL, "killed by SIGKILL")
        assert [(run["death"], run["died_at"]) for run in life["runs"]] == [
            ("killed by SIGKILL", cut["at"]),
            (None, None),
        ]
        shown = page_of(process, life["id"])
        assert "Killed by SIGKILL; no gateway for" in shown
        assert "No sign of life" not in shown
        (fact,) = (line for line in traced(process).splitlines() if "gateway_died" in line)
        assert "killed by SIGKILL" in fact
        (chat_workspace(process.home) / "flag").touch()
        Person(process).wait_for_replies(1)


def test_nobody_says_how_the_gateway_died_when_nobody_saw_it(tmp_path: Path) -> None:
    """A word of the supervisor about another start is not believed of this one."""
    with gateway(tmp_path / "home") as process:
        begins_to_work(process)
        killed_at = wall_clock()
        process.kill()
        process.configure(LAUNCH=STALE)
        process.start()
        life = is_cut_off(process)
        (cut,) = life["interruptions"]
        assert cut["at"] <= killed_at
        assert (cut["exit_code"], cut["death"]) == (None, None)
        shown = page_of(process, life["id"])
        assert "No sign of life for" in shown
        assert "no gateway for" not in shown
        assert "gateway_died" not in traced(process)
        (chat_workspace(process.home) / "flag").touch()
        Person(process).wait_for_replies(1)

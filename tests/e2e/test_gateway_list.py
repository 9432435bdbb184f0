"""The gateways of a database, seen through any of them, and drained from there.

Drives `operations/gateways`, `store/gateways` and the command line.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from perdure.core import texts
from perdure.testing.telegram import LocalTelegram
from support.gateway import COMMAND, GatewayProcess, Person, gateway
from support.logins import add_login, ask
from support.operator_client import Operator
from support.telegram import run_perdure, telegram_settings
from support.waiting import wait_for

LEASE = 3.0  # seconds, instead of 30


@contextmanager
def two_gateways(folder: Path, url: str, **settings: str) -> Iterator[tuple[GatewayProcess, GatewayProcess]]:
    shared = {"STORE__URL": url, "STORE__LEASE": f"{LEASE}s"} | settings
    with gateway(folder / "one", **shared) as one, gateway(folder / "two", command="up", **shared) as two:
        yield one, two


def listed(process: GatewayProcess) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = Operator(process).get("/gateways")["gateways"]
    return found


def home_of(gateway: dict[str, Any]) -> str:
    return str(gateway["home"]).rpartition("/")[2]


def test_b167_gateways_are_listed_through_any_of_them(tmp_path: Path, postgres_url: str) -> None:
    with LocalTelegram() as telegram, two_gateways(tmp_path, postgres_url, **telegram_settings(telegram)) as both:
        one, two = both
        wait_for("both are settled", lambda: any(each["standing_by"] for each in listed(one)))
        Person(two).say("step long 600s\nsay: never")
        wait_for("its turn is counted", lambda: any(each["running"] for each in listed(one)))
        first, second = listed(one)
        assert (home_of(first), home_of(second)) == ("one", "two")
        assert (first["this"], second["this"]) == (True, False)
        assert [each["this"] for each in listed(two)] == [False, True]
        assert (first["receives"], first["standing_by"]) == (["telegram", "web"], [])
        assert (second["receives"], second["standing_by"]) == (["web"], ["telegram"])
        assert (first["running"], second["running"]) == (0, 1)
        bot = telegram.token.partition(":")[0]
        assert {"platform": "telegram", "agent": "main", "account": bot} in second["serves"]
        status = run_perdure(one, "status")
        assert f"This gateway {first['id'][:8]}" in status
        assert f"Gateway {second['id'][:8]}" in status
        assert "stands by for telegram" in status
        assert texts.gateways.standing_by(["telegram"]) in run_perdure(two, "status")


def test_gateway_is_drained_through_another_one_and_stays_down(tmp_path: Path, postgres_url: str) -> None:
    """Its supervisor ends with it."""
    with two_gateways(tmp_path, postgres_url) as (one, two):
        second = listed(one)[1]
        assert run_perdure(one, "drain", second["id"][:6]) == texts.gateways.DRAIN_ASKED
        assert two.wait() == 0
        wait_for("it is not listed any more", lambda: len(listed(one)) == 1)
        Person(one).say("say: still here")
        assert Person(one).wait_for_replies(1) == ["still here"]
        assert run_perdure(one, "drain") == texts.gateways.DRAIN_ASKED
        assert one.wait() == 0


def test_gateway_that_drains_is_shown_so_and_is_not_hurried(tmp_path: Path, postgres_url: str) -> None:
    with two_gateways(tmp_path, postgres_url) as (one, two):
        Person(two).say("step long 5s\nsay: in time")
        wait_for("the step runs", lambda: (two.home / "rehearsal.log").exists())
        path = f"{one.url}/api/gateways/{listed(one)[1]['id']}/drain"
        asked = [httpx.post(path, headers=bearer(one), timeout=30).json()["asked"] for _ in range(2)]
        assert asked == [True, False]
        assert [each["draining"] for each in listed(one)] == [False, True]
        assert two.wait() == 0
        assert Person(one).wait_for_replies(1) == ["in time"]


def bearer(process: GatewayProcess) -> dict[str, str]:
    return {"Authorization": f"Bearer {process.token}"}


@pytest.mark.parametrize("name", ["nobody", "x%00y"])
def test_unknown_gateway_is_told(tmp_path: Path, name: str) -> None:
    with gateway(tmp_path / "home") as process:
        refused = httpx.post(f"{process.url}/api/gateways/{name}/drain", headers=bearer(process), timeout=30)
        assert refused.status_code == 404
        assert refused.json()["hint"] == texts.gateways.GATEWAY_LIST_HINT
        ran = subprocess.run(
            [*COMMAND, "drain", "nobody"], env=process.environment(), capture_output=True, text=True
        )
        assert ran.returncode == 1
        assert "no running gateway has the id 'nobody'" in ran.stderr


def test_drain_needs_the_right_to_operate(tmp_path: Path) -> None:
    with gateway(tmp_path / "home") as process:
        token = add_login(process, "watcher", "read")
        (only,) = ask(process, token, "GET /api/gateways").json()["gateways"]
        assert only["receives"] == ["web"]
        assert ask(process, token, f"POST /api/gateways/{only['id']}/drain").status_code == 403

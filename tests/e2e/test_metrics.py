"""Figures of a real gateway, for Prometheus.

Drives `web/api/metrics` and `store/metrics`.
"""

from __future__ import annotations

import re
from pathlib import Path

import httpx

from perdure.web.api.metrics import METRIC_FAMILIES
from support.gateway import GatewayProcess, Person, gateway
from support.waiting import wait_for

LINE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="[^"]*",?)*)\})? (-?[0-9.e+-]+)')


def scrape(process: GatewayProcess) -> dict[str, float]:
    """Every sample, by its name and labels; the text is held against the format."""
    response = httpx.get(
        f"{process.url}/metrics", headers={"Authorization": f"Bearer {process.token}"}, timeout=30
    )
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert response.text.endswith("\n")
    found: dict[str, float] = {}
    family = ""
    for line in response.text.splitlines():
        if line.startswith("# HELP "):
            family = line.split()[2]
        elif line.startswith("# TYPE "):
            assert line == f"# TYPE {family} {METRIC_FAMILIES[family][0]}"
        else:
            sample = LINE.fullmatch(line)
            assert sample, line
            assert sample[1] == family
            found[line.rpartition(" ")[0]] = float(sample[3])
    assert {name.partition("{")[0] for name in found} <= METRIC_FAMILIES.keys()
    return found


def test_figures_need_a_login_and_health_does_not(tmp_path: Path) -> None:
    with gateway(tmp_path / "home") as process:
        assert httpx.get(f"{process.url}/metrics").status_code == 401
        assert httpx.get(f"{process.url}/healthz").status_code == 200
        first = scrape(process)
        assert first["perdure_ready"] == first["perdure_store_healthy"] == 1
        assert first['perdure_platform_connected{platform="web"}'] == 1
        assert first['perdure_turns_ended_total{outcome="done"}'] == 0
        assert first["process_resident_memory_bytes"] > 1e6
        assert first["process_cpu_seconds_total"] > 0


def test_counts_survive_the_process_and_tell_what_recovery_did(tmp_path: Path) -> None:
    with gateway(tmp_path / "home") as process:
        person = Person(process)
        person.say("say: one")
        person.wait_for_replies(1)
        Person(process, "asked").say("ask: which? | A | B")
        Person(process, "cut").say("step long 3000s\nsay: never")

        def under_way() -> bool:
            now = scrape(process)
            states = [now[f'perdure_turns{{state="{state}"}}'] for state in ("waiting", "running")]
            return states == [1, 1]

        wait_for("one turn waits and one runs", under_way)
        wait_for("the reply counts as sent", lambda: scrape(process).get(sent("web"), 0) >= 1)
        process.kill()
        process.start()

        def recovered() -> dict[str, float] | None:
            now = scrape(process)
            decided = sum(value for name, value in now.items() if name.startswith("perdure_recovery_decisions"))
            return now if decided >= 1 else None

        after = wait_for("a decision is counted", recovered)
        assert after['perdure_turns_ended_total{outcome="done"}'] == 1
        assert after["perdure_interruptions_total"] == 1
        assert after['perdure_runs_ended_total{ending="lost"}'] == 1
        assert after[sent("web")] >= 1
        assert after["perdure_recovery_paused"] == 0
        assert after["perdure_processes_live"] == after["perdure_sessions_suspended"] == 0


def sent(platform: str) -> str:
    return f'perdure_outbox_ended_total{{platform="{platform}",state="sent"}}'

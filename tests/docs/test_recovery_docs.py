"""The pages on recovery and on testing: their tables are those of the sweep, and every test they name is there.

Drives no module: it compares pages with the sweep and with the names of tests.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable

import pytest

from support.crash_moment import CrashMoment
from support.crash_scenarios.registry import SCENARIOS, recorded_sweeps
from support.markdown import ROOT, page

RECOVERY, TESTING = page("docs/recovery.md"), page("docs/testing.md")

# What can be noticed of a crash, in the words of the page.
NOTICED = {
    "again": "a step that may be repeated ran again",
    "unknown": "a `once` step is told as unknown",
    "marked": "an answer is marked as a possible duplicate",
    "shown": "half an answer stays above the whole one",
}


def moments() -> str:
    """How many points lay in each moment, and what was noticed of them."""
    lines = [f"| the moment | points | {' | '.join(NOTICED.values())} |", f"|---|{'---|' * (1 + len(NOTICED))}"]
    points: Counter[str] = Counter()
    noticed: dict[str, Counter[str]] = {what: Counter() for what in NOTICED}
    for scenario in SCENARIOS:
        mine = recorded_sweeps()[scenario.name]
        points.update(mine["moments"])
        if scenario.quiet and not scenario.earlier_crash_facts:  # elsewhere, it may be of another cut
            for what, counts in mine["noticed"].items():
                noticed[what].update(counts)
    for moment in CrashMoment:
        name = moment.name.lower()
        seen = " | ".join(str(noticed[what][name] or "") for what in NOTICED)
        lines.append(f"| {moment} | {points[name]} | {seen} |")
    return "\n".join([*lines, f"| all of them | {points.total()} | {' | '.join('' for _ in NOTICED)} |"])


def scenarios() -> str:
    """How many points each scenario has, by what was called."""
    kinds = ("store", "platform", "model")
    lines = [f"| scenario | points | calls to the {' | to the '.join(kinds)} |", "|---|---|---|---|---|"]
    for scenario in SCENARIOS:
        mine = recorded_sweeps()[scenario.name]
        calls = Counter[str]()
        for what, count in mine["calls"].items():
            calls[what if what in kinds else "platform"] += count
        lines.append(f"| {scenario.name} | {mine['points']} | {' | '.join(str(calls[kind]) for kind in kinds)} |")
    return "\n".join(lines)


@pytest.mark.parametrize(("region", "render"), [("moments", moments), ("scenarios", scenarios)])
def test_table_is_what_the_sweep_has_recorded(region: str, render: Callable[[], str]) -> None:
    fresh = RECOVERY.rendered(region, render())
    if os.environ.get("PERDURE_WRITE_DOCS"):
        RECOVERY.path.write_text(fresh)
    assert RECOVERY.text == fresh, f"{RECOVERY} is out of date; docs/testing.md says how to write it anew"


def test_every_moment_is_told_on_the_page() -> None:
    told = re.findall(r"^\| ([^|]+) \|", RECOVERY.text, re.MULTILINE)
    assert [moment for moment in told if moment in set(CrashMoment)][: len(CrashMoment)] == list(CrashMoment)


def test_every_test_that_is_named_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TESTING.text)
    assert len(named) >= 15
    for file, test in named:
        assert re.search(rf"^(async )?def {test}\(", (ROOT / file).read_text(), re.MULTILINE), f"{file}: no {test}"


def test_every_file_that_is_named_exists() -> None:
    for path in re.findall(r"(?<![\w/])(tests/[\w/]+(?:\.\w+)?)", TESTING.text):
        assert (ROOT / path).exists(), path

"""The short crash sweep: every scenario is crashed at every seventh point; `make soak` takes all points.

Drives `runtime/gateway` and `store`.

A point is a call to the store, the platform or the model, before or after it. See `support/crash_sweep.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.crash_scenarios.registry import SCENARIOS, check_reach, recorded_sweeps
from support.crash_sweep import CrashScenario, run_sweep
from support.keepers import end_all_commands

POINT_STRIDE = 7
MIN_POINTS = 3000  # points of the full sweep

SCENARIO_NUMBERS = {scenario.name: number for number, scenario in enumerate(SCENARIOS)}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in which no command runs any more after the test."""
    yield from end_all_commands(tmp_path)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_nothing_is_lost_or_repeated_when_killed_at_any_call(scenario: type[CrashScenario], folder: Path) -> None:
    """Every n-th point of a scenario, with another offset in each scenario.

    B20, B22, B25, B40, B46, B49, B60, B62, B63, B64, B66, B67, B70, B71, B73, B74, B75, B76, B80, B81, B84, B85,
    B90, B91, B92, B93, B96, B104.
    """
    swept = run_sweep(scenario, folder, every=POINT_STRIDE, first=SCENARIO_NUMBERS[scenario.name] % POINT_STRIDE)
    print(f"sweep {scenario.name}: {swept.points} points")
    check_reach(scenario, swept.calls)


def test_full_sweep_has_every_scenario_and_thousands_of_points() -> None:
    assert list(recorded_sweeps()) == [scenario.name for scenario in SCENARIOS]
    assert sum(each["points"] for each in recorded_sweeps().values()) >= MIN_POINTS

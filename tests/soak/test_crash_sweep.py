"""The full crash sweep: every scenario is crashed at every call to the store, the platform and the model.

Drives `runtime/gateway` and `store`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.crash_scenarios.registry import MIN_CALLS_SHARE, SCENARIOS, check_reach, record_sweep, recorded_sweeps
from support.crash_sweep import CrashScenario, run_sweep
from support.keepers import end_all_commands


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in which no command runs any more after the test."""
    yield from end_all_commands(tmp_path)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_nothing_is_lost_or_repeated_when_killed_at_every_call(
    scenario: type[CrashScenario], folder: Path
) -> None:
    """With PERDURE_WRITE_DOCS, what it went through is recorded, and `docs/recovery.md` is made from that."""
    swept = run_sweep(scenario, folder)
    print(f"sweep {scenario.name}: {swept.points} points")
    if os.environ.get("PERDURE_WRITE_DOCS"):
        record_sweep(scenario, swept)
    check_reach(scenario, swept.calls)
    assert swept.points >= int(MIN_CALLS_SHARE * recorded_sweeps()[scenario.name]["points"]), (
        "the sweep lost points"
    )

"""The full exception sweep: every class of exception is raised at every call of every scenario.

Drives `runtime/gateway` and `containment`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.exception_sweep import ERRORS, SCENARIOS, ExceptionScenario, sweep

pytestmark = pytest.mark.anyio


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_b59_gateway_lives_whatever_is_raised_at_every_call(
    scenario: type[ExceptionScenario], tmp_path: Path
) -> None:
    points = await sweep(scenario, tmp_path, lambda _: list(ERRORS))
    print(f"sweep of exceptions {scenario.name}: {points} points")

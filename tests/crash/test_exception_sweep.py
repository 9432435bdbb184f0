"""The short exception sweep: an exception of a changing class at every fifth point of each scenario.

Drives `runtime/gateway` and `containment`.

`make soak` raises every class at every point. See `support/exception_sweep.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.exception_sweep import ERRORS, SCENARIOS, ExceptionScenario, sweep

pytestmark = pytest.mark.anyio

POINT_STRIDE = 5
ERROR_KINDS = list(ERRORS)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_b59_gateway_lives_whatever_is_raised_at_a_call(
    scenario: type[ExceptionScenario], tmp_path: Path
) -> None:
    """Neighbours are served, and the failure is reported: in the chat or to the platform, and in the log."""
    first = SCENARIOS.index(scenario)

    def choose(point: int) -> list[str]:
        return (
            [ERROR_KINDS[(point // POINT_STRIDE + first) % len(ERROR_KINDS)]]
            if point % POINT_STRIDE == first % POINT_STRIDE
            else []
        )

    points = await sweep(scenario, tmp_path, choose)
    print(f"sweep of exceptions {scenario.name}: {points} points")
    assert points >= 5

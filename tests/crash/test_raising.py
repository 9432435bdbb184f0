"""The sweep of exceptions, quickly: at every fifth point of each scene something is raised, of changing classes.

`make soak` raises every class at every point. See `support/raising.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.raising import ERRORS, SCENES, Scene, sweep

pytestmark = pytest.mark.anyio

EVERY = 5
KINDS = list(ERRORS)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
async def test_b59_gateway_lives_whatever_is_raised_at_a_call(scene: type[Scene], tmp_path: Path) -> None:
    """Neighbours are served, and what failed is told: in the chat or to the platform, and in the log."""
    first = SCENES.index(scene)

    def choose(point: int) -> list[str]:
        return [KINDS[(point // EVERY + first) % len(KINDS)]] if point % EVERY == first % EVERY else []

    points = await sweep(scene, tmp_path, choose)
    print(f"sweep of exceptions {scene.name}: {points} points")
    assert points >= 5

"""The sweep, quickly: every scene is crashed at every seventh point of it; `make soak` takes them all.

A point is a call to the store, the platform or the model, before or after it. See `support/sweeping.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.keeping import end_all
from support.sweeping import World, run_sweep
from support.sweeps.all import SCENES, check_reach, recorded

EVERY = 7
LEAST = 3000  # points of the full sweep

NAMES = {scene.name: number for number, scene in enumerate(SCENES)}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in which no command runs any more after the test."""
    yield from end_all(tmp_path)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_nothing_is_lost_or_repeated_when_killed_at_any_call(scene: type[World], folder: Path) -> None:
    """Every n-th point of a scene, and in each scene others.

    B20, B22, B25, B40, B46, B49, B60, B62, B63, B64, B66, B67, B70, B71, B73, B74, B75, B76, B80, B81, B84, B85,
    B90, B91, B92, B93, B96, B104.
    """
    swept = run_sweep(scene, folder, every=EVERY, first=NAMES[scene.name] % EVERY)
    print(f"sweep {scene.name}: {swept.points} points")
    check_reach(scene, swept.calls)


def test_full_sweep_has_every_scene_and_thousands_of_points() -> None:
    assert list(recorded()) == [scene.name for scene in SCENES]
    assert sum(each["points"] for each in recorded().values()) >= LEAST

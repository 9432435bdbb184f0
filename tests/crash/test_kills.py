"""Real kills: a gateway in a process of its own, SIGKILL at points that differ every time, and a count.

Drives `testing/drill` and `runtime/recovery`.
"""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path

from perdure.config import load_settings
from perdure.testing.drill import Drill, random_points

KILLS = 40


def test_nothing_is_lost_or_repeated_by_forty_kills_of_a_real_process(tmp_path: Path) -> None:
    """B40, B46, B62, B63, B70, B73, B74, B90.

    The drill knows of each kill whether anything was under way: a step, a reply that was owed, or a message that
    was stored and not begun. One that found nothing to cut off proves little, so that may be few of them.
    """
    seed = secrets.randbits(32)  # printed, and `perdure drill --kills 40 --seed N` makes the same kills again
    print(f"perdure drill --kills {KILLS} --seed {seed}")
    report = asyncio.run(Drill(load_settings(tmp_path, {}), random_points(seed, KILLS)).run())
    assert not report.failed, (seed, report.findings)
    assert report.kills == KILLS
    assert report.at_rest <= KILLS // 4, f"seed {seed}: {report.at_rest} kills found nothing to cut off"

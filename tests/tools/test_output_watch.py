"""Glances: whoever waits for output hears of it, whether the kernel tells us or we look.

Drives `runtime/output_watch`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from perdure.runtime.output_watch import OutputWatch
from perdure.testing import SettableClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock()


@pytest.fixture(params=[True, False], ids=["told", "looking"])
async def glances(request: pytest.FixtureRequest, clock: SettableClock) -> AsyncIterator[OutputWatch]:
    glances = OutputWatch(clock, use_inotify=request.param)
    working = asyncio.create_task(glances.run())
    yield glances
    working.cancel()
    with suppress(asyncio.CancelledError):
        await working


async def begins(glances: OutputWatch, place: Path, size: int, due: int | None = None) -> asyncio.Task[None]:
    """Somebody who waits already."""
    waiting = asyncio.create_task(glances.wait_for_change(place, size, due))
    await asyncio.sleep(0)  # it comes as far as it can
    assert not waiting.done()
    return waiting


async def test_change_is_heard_of_when_output_grows(glances: OutputWatch, tmp_path: Path) -> None:
    output = tmp_path / "output"
    output.write_text("one\n")
    for size in (4, 8, 12):
        waiting = await begins(glances, tmp_path, size)
        with output.open("a") as file:
            file.write("two\n")
        await asyncio.wait_for(waiting, 30)


async def test_change_is_heard_of_when_output_goes_on_in_another_file(
    glances: OutputWatch, tmp_path: Path
) -> None:
    (tmp_path / "output").write_text("one\n")
    (tmp_path / "output.4").write_text("two\n")
    waiting = await begins(glances, tmp_path, 8)
    (tmp_path / "output.8").write_text("three\n")
    await asyncio.wait_for(waiting, 30)


async def test_change_that_was_before_is_heard_of_at_once(glances: OutputWatch, tmp_path: Path) -> None:
    (tmp_path / "output").write_text("one\n")
    await asyncio.wait_for(glances.wait_for_change(tmp_path, 0, None), 30)


async def test_waiting_is_over_when_its_time_has_come(
    glances: OutputWatch, tmp_path: Path, clock: SettableClock
) -> None:
    (tmp_path / "output").write_text("one\n")
    waiting = await begins(glances, tmp_path, 4, clock() + 15_000)
    clock.move(16)
    await asyncio.wait_for(waiting, 30)


async def test_many_are_told_apart(glances: OutputWatch, tmp_path: Path) -> None:
    places = [tmp_path / name for name in "abc"]
    for place in places:
        place.mkdir()
    waiting = [await begins(glances, place, 0) for place in places]
    (places[1] / "output").write_text("one\n")
    await asyncio.wait_for(waiting[1], 30)
    assert [task.done() for task in waiting] == [False, True, False]
    for task in waiting:
        task.cancel()


async def test_b89_whoever_waits_for_a_time_is_woken_when_the_clock_is_set_back(
    glances: OutputWatch, clock: SettableClock, tmp_path: Path
) -> None:
    (tmp_path / "output").write_text("one\n")
    waiting = await begins(glances, tmp_path, 4, due=clock() + 60_000)
    clock.move(-86_400)
    await asyncio.wait_for(waiting, 30)

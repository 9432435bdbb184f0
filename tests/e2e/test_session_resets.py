"""Conversations that are begun afresh by themselves, after long silence or with a new day.

Drives `runtime/clocks`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from perdure.core import texts
from perdure.operations.inspect import session_resource
from perdure.runtime.gateway import Gateway
from perdure.store.ids import wall_clock
from perdure.store.sessions import Session
from perdure.testing import SettableClock, SimulatedPlatform
from support.inprocess import crashing_at_the_end, serving
from support.waiting import eventually

pytestmark = pytest.mark.anyio

KEY = "agent:main:web:dm:1"
HOUR = 3600
IDLE = {"SESSION__IDLE": "2h"}


async def current(gateway: Gateway) -> Session:
    found = await gateway.store.sessions.current(KEY)
    assert found is not None
    return found


async def sees(platform: SimulatedPlatform, *texts: str) -> None:
    await eventually(f"the chat sees {texts}", lambda: platform.replies() == list(texts))


async def test_conversation_is_begun_afresh_after_long_silence_and_the_chat_is_told(tmp_path: Path) -> None:
    platform, clock = SimulatedPlatform("web"), SettableClock()
    async with serving(tmp_path, platform, clock=clock, **IDLE) as gateway:
        platform.write("say: one")
        await sees(platform, "one")
        before = await current(gateway)
        clock.move(3 * HOUR)
        platform.write("say: two")
        told = texts.recovery.new_session_after_reset("idle", before.id)
        await sees(platform, "one", told, "two")
        fields = await session_resource(gateway.store, await current(gateway))
        assert fields.id != before.id
        assert (fields.was_auto_reset, fields.auto_reset_reason) == (True, "idle")
        platform.write(f"/resume {before.id}")
        await eventually("it is here again", lambda: _is_current(gateway, before.id))


async def _is_current(gateway: Gateway, session: str) -> bool:
    return (await current(gateway)).id == session


async def test_conversation_goes_on_when_the_silence_was_short(tmp_path: Path) -> None:
    platform, clock = SimulatedPlatform("web"), SettableClock()
    async with serving(tmp_path, platform, clock=clock, **IDLE) as gateway:
        platform.write("say: one")
        await sees(platform, "one")
        before = await current(gateway)
        clock.move(HOUR)
        platform.write("say: two")
        await sees(platform, "one", "two")
        assert (await current(gateway)).id == before.id


async def test_message_that_comes_twice_begins_nothing_afresh(tmp_path: Path) -> None:
    """B71: the second delivery changes nothing, however late it comes."""
    platform, clock = SimulatedPlatform("web"), SettableClock()
    async with serving(tmp_path, platform, clock=clock, **IDLE) as gateway:
        platform.write("say: one")
        await sees(platform, "one")
        before = await current(gateway)
        clock.move(3 * HOUR)
        platform.redeliver = 1
        platform.write("say: two")
        await sees(platform, "one", texts.recovery.new_session_after_reset("idle", before.id), "two")


async def test_new_day_begins_a_conversation_afresh_once(tmp_path: Path) -> None:
    platform, clock = SimulatedPlatform("web"), SettableClock()
    async with serving(tmp_path, platform, clock=clock, SESSION__DAILY="04:00") as gateway:
        platform.write("say: one")
        await sees(platform, "one")
        before = await current(gateway)
        clock.move(25 * HOUR)
        platform.write("say: two")
        await sees(platform, "one", texts.recovery.new_session_after_reset("daily", before.id), "two")
        platform.write("say: three")
        await sees(platform, "one", texts.recovery.new_session_after_reset("daily", before.id), "two", "three")


@pytest.fixture
def central_europe(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The machine is in a zone whose clocks go forward on 2027-03-28 and back on 2027-10-31, at 01:00 UTC."""
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def set_to(clock: SettableClock, moment: str) -> None:
    """Set the clock to a moment, in UTC."""
    there = datetime.fromisoformat(moment).replace(tzinfo=UTC)
    clock.ahead = int(there.timestamp() * 1000) - wall_clock()


@pytest.mark.usefixtures("central_europe")
@pytest.mark.parametrize(
    ("daily", "before", "now", "fresh"),
    [
        pytest.param("04:00", "2027-03-27 02:30", "2027-03-28 01:30", True, id="forward: since yesterday, 03:30"),
        pytest.param("04:00", "2027-03-27 03:10", "2027-03-28 01:30", False, id="forward: since yesterday, 04:10"),
        pytest.param("01:00", "2027-03-27 23:30", "2027-03-28 10:00", True, id="forward: since today, 00:30"),
        pytest.param("01:00", "2027-03-28 00:10", "2027-03-28 10:00", False, id="forward: since today, 01:10"),
        pytest.param("04:00", "2027-10-30 01:30", "2027-10-31 01:30", True, id="back: since yesterday, 03:30"),
        pytest.param("04:00", "2027-10-30 02:30", "2027-10-31 01:30", False, id="back: since yesterday, 04:30"),
        pytest.param("01:00", "2027-10-30 22:30", "2027-10-31 10:00", True, id="back: since today, 00:30"),
        pytest.param("01:00", "2027-10-30 23:30", "2027-10-31 10:00", False, id="back: since today, 01:30"),
        pytest.param("02:30", "2027-03-28 00:50", "2027-03-28 01:10", True, id="gap: 01:50, and then 03:10"),
        pytest.param("02:30", "2027-03-28 01:10", "2027-03-28 01:50", False, id="gap: 03:10, and then 03:50"),
        pytest.param(
            "02:30", "2027-03-28 01:10", "2027-03-28 23:00", False, id="gap: 03:10, and then the evening"
        ),
        pytest.param("02:30", "2027-03-27 01:20", "2027-03-28 00:50", True, id="gap: since the day before, 02:20"),
        pytest.param("02:30", "2027-10-31 00:20", "2027-10-31 00:40", True, id="twice: the first 02:30 passed"),
        pytest.param("02:30", "2027-10-31 00:40", "2027-10-31 01:40", False, id="twice: the second 02:30 passed"),
        pytest.param("02:30", "2027-10-31 01:20", "2027-10-31 01:40", False, id="twice: begun between the two"),
        pytest.param("02:30", "2027-10-31 00:20", "2027-10-31 01:10", True, id="twice: between the two"),
    ],
)
async def test_b12_daily_reset_is_at_its_wall_time_also_when_the_clocks_change(
    tmp_path: Path, daily: str, before: str, now: str, fresh: bool
) -> None:
    platform, clock = SimulatedPlatform("web"), SettableClock()
    set_to(clock, before)
    async with serving(tmp_path, platform, clock=clock, SESSION__DAILY=daily) as gateway:
        platform.write("say: one")
        await sees(platform, "one")
        first = await current(gateway)
        set_to(clock, now)
        platform.write("say: two")
        told = [texts.recovery.new_session_after_reset("daily", first.id)] if fresh else []
        await sees(platform, "one", *told, "two")
        assert ((await current(gateway)).id != first.id) is fresh


async def test_question_to_a_person_is_not_silence(tmp_path: Path) -> None:
    """B67: the answer, whenever it comes, continues the turn."""
    platform, clock = SimulatedPlatform("web"), SettableClock()
    async with serving(tmp_path, platform, clock=clock, **IDLE):
        platform.write("ask: Which way?")
        await sees(platform, "Which way?")
        clock.move(72 * HOUR)
        platform.write("Left")
        await sees(platform, "Which way?", "Left")


@pytest.mark.parametrize(
    ("freshness", "kept"),
    [pytest.param("100h", True, id="a fresh mark"), pytest.param("1h", False, id="an old mark")],
)
async def test_b12_mark_exempts_from_a_reset_only_while_it_is_fresh(
    tmp_path: Path, freshness: str, kept: bool
) -> None:
    """The turn was cut off and is held, since nothing goes on by itself here; then a message comes, late."""
    platform, clock = SimulatedPlatform("web"), SettableClock()
    settings = IDLE | {"RECOVERY__POLICY": "off", "RECOVERY__FRESHNESS": freshness}
    async with crashing_at_the_end(tmp_path, platform, clock=clock, **settings) as gateway:
        platform.write("step long 600s\nsay: one")
        await eventually("the step runs", lambda: gateway.loops.runner.running)
        await eventually("its trace is there", (tmp_path / "rehearsal.log").exists)
        before = await current(gateway)
    async with serving(tmp_path, platform, clock=clock, **settings) as gateway:
        await eventually("it is held, and told", lambda: len(platform.replies()) == 1)
        fields = await session_resource(gateway.store, before)
        assert fields.resume_pending
        clock.move(5 * HOUR)
        platform.write("/status")
        await eventually("a command resets nothing", lambda: len(platform.replies()) == 2)
        assert (await current(gateway)).id == before.id
        platform.write("say: two")
        if kept:
            await eventually("the message is stored", lambda: not platform.pending())
        else:
            await eventually("two is answered", lambda: platform.replies()[-1:] == ["two"])
        assert ((await current(gateway)).id == before.id) is kept
        assert (texts.recovery.new_session_after_reset("idle", before.id) in platform.replies()) is not kept
        gateway.stop()
        gateway.stop()

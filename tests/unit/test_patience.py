"""What long work and long silence call for."""

from __future__ import annotations

import pytest

from perdure.core.effects import Effect
from perdure.core.journal import (
    Began,
    Claimed,
    Entry,
    ModelAnswered,
    Record,
    ToolCall,
    ToolEnded,
    ToolStarted,
    fold,
)
from perdure.core.patience import Due, Patience, Watch, doing, due

PATIENCE = Patience(still_working=180, warning=900, limit=1800)
OFF = Patience(0, 0, 0)


@pytest.mark.parametrize(
    ("watch", "now", "expected"),
    [
        pytest.param(Watch(0, 0), 179, Due.NOTHING, id="nothing before its time"),
        pytest.param(Watch(0, 0), 180, Due.STILL_WORKING, id="a notice after a while"),
        pytest.param(Watch(180, 0), 359, Due.NOTHING, id="no second notice within a period"),
        pytest.param(Watch(180, 0), 360, Due.STILL_WORKING, id="a notice every period"),
        pytest.param(Watch(899, 0), 900, Due.WARNING, id="a warning of a silence"),
        pytest.param(Watch(0, 0), 900, Due.WARNING, id="a warning goes before a notice"),
        pytest.param(
            Watch(0, 0, warned=True), 1799, Due.NOTHING, id="nothing more of a silence that was warned of"
        ),
        pytest.param(Watch(0, 0, warned=True), 1800, Due.END, id="the end of a long silence"),
        pytest.param(Watch(0, 0), 5000, Due.END, id="the end also when nobody could be warned"),
        pytest.param(Watch(99_900, 99_950), 100_000, Due.NOTHING, id="elapsed time alone ends nothing"),
        pytest.param(Watch(0, 500), 1400, Due.WARNING, id="a sign of life begins the silence anew"),
    ],
)
def test_b82_b83_what_is_due(watch: Watch, now: int, expected: Due) -> None:
    assert due(watch, PATIENCE, now) is expected


@pytest.mark.parametrize(
    ("patience", "expected"),
    [
        pytest.param(OFF, Due.NOTHING, id="nothing"),
        pytest.param(Patience(180, 0, 0), Due.STILL_WORKING, id="only the notice"),
        pytest.param(Patience(0, 900, 0), Due.WARNING, id="only the warning"),
        pytest.param(Patience(0, 0, 1800), Due.END, id="only the end"),
    ],
)
def test_b82_b83_what_is_due_when_some_is_switched_off(patience: Patience, expected: Due) -> None:
    assert due(Watch(0, 0), patience, 1_000_000) is expected


def told(*entries: Entry) -> list[Record]:
    return [
        Record(seq, seq * 1000, entry) for seq, entry in enumerate([Began(()), Claimed("r", 1, 1), *entries], 1)
    ]


WISHES = ModelAnswered(1, "", (ToolCall("a", "look", {}), ToolCall("b", "listen", {})), "tool_calls")


def test_turn_is_at_the_calls_that_run() -> None:
    begun = [ToolStarted("a", "look", Effect.PURE, "k"), ToolStarted("b", "listen", Effect.PURE, "k")]
    both = doing(fold(told(WISHES, *begun)))
    one = doing(fold(told(WISHES, *begun, ToolEnded("a", "ok", ""))))
    assert (both.tools, both.since) == (("look", "listen"), 4000)
    assert (one.tools, one.since) == (("listen",), 5000)


def test_turn_is_at_its_model_when_no_call_runs() -> None:
    thinking = doing(fold(told()))
    assert (thinking.tools, thinking.since) == ((), 2000)

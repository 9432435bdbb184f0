"""What long work and long silence call for.

Drives `core/inactivity`.
"""

from __future__ import annotations

import pytest

from perdure.core.effects import Effect
from perdure.core.inactivity import (
    InactivityLimits,
    InactivityResponse,
    WatchState,
    current_activity,
    inactivity_response,
)
from perdure.core.journal import (
    Entry,
    JournalRecord,
    ModelAnswered,
    ToolCall,
    ToolEnded,
    ToolStarted,
    TurnBegan,
    TurnClaimed,
    fold,
)

PATIENCE = InactivityLimits(still_working_ms=180, warning_ms=900, limit_ms=1800)
OFF = InactivityLimits(0, 0, 0)


@pytest.mark.parametrize(
    ("watch", "now", "expected"),
    [
        pytest.param(WatchState(0, 0), 179, InactivityResponse.NOTHING, id="nothing before its time"),
        pytest.param(WatchState(0, 0), 180, InactivityResponse.STILL_WORKING, id="a notice after a while"),
        pytest.param(WatchState(180, 0), 359, InactivityResponse.NOTHING, id="no second notice within a period"),
        pytest.param(WatchState(180, 0), 360, InactivityResponse.STILL_WORKING, id="a notice every period"),
        pytest.param(WatchState(899, 0), 900, InactivityResponse.WARNING, id="a warning of a silence"),
        pytest.param(WatchState(0, 0), 900, InactivityResponse.WARNING, id="a warning goes before a notice"),
        pytest.param(
            WatchState(0, 0, warned=True),
            1799,
            InactivityResponse.NOTHING,
            id="nothing more of a silence that was warned of",
        ),
        pytest.param(WatchState(0, 0, warned=True), 1800, InactivityResponse.END, id="the end of a long silence"),
        pytest.param(
            WatchState(0, 0), 5000, InactivityResponse.END, id="the end also when nobody could be warned"
        ),
        pytest.param(
            WatchState(99_900, 99_950), 100_000, InactivityResponse.NOTHING, id="elapsed time alone ends nothing"
        ),
        pytest.param(
            WatchState(0, 500), 1400, InactivityResponse.WARNING, id="a sign of life begins the silence anew"
        ),
    ],
)
def test_b82_b83_what_is_due(watch: WatchState, now: int, expected: InactivityResponse) -> None:
    assert inactivity_response(watch, PATIENCE, now) is expected


@pytest.mark.parametrize(
    ("patience", "expected"),
    [
        pytest.param(OFF, InactivityResponse.NOTHING, id="nothing"),
        pytest.param(InactivityLimits(180, 0, 0), InactivityResponse.STILL_WORKING, id="only the notice"),
        pytest.param(InactivityLimits(0, 900, 0), InactivityResponse.WARNING, id="only the warning"),
        pytest.param(InactivityLimits(0, 0, 1800), InactivityResponse.END, id="only the end"),
    ],
)
def test_b82_b83_what_is_due_when_some_is_switched_off(
    patience: InactivityLimits, expected: InactivityResponse
) -> None:
    assert inactivity_response(WatchState(0, 0), patience, 1_000_000) is expected


def told(*entries: Entry) -> list[JournalRecord]:
    return [
        JournalRecord(seq, seq * 1000, entry)
        for seq, entry in enumerate([TurnBegan(()), TurnClaimed("r", 1, 1), *entries], 1)
    ]


WISHES = ModelAnswered(1, "", (ToolCall("a", "look", {}), ToolCall("b", "listen", {})), "tool_calls")


def test_turn_is_at_the_calls_that_run() -> None:
    begun = [ToolStarted("a", "look", Effect.PURE, "k"), ToolStarted("b", "listen", Effect.PURE, "k")]
    both = current_activity(fold(told(WISHES, *begun)))
    one = current_activity(fold(told(WISHES, *begun, ToolEnded("a", "ok", ""))))
    assert (both.tools, both.since) == (("look", "listen"), 4000)
    assert (one.tools, one.since) == (("listen",), 5000)


def test_turn_is_at_its_model_when_no_call_runs() -> None:
    thinking = current_activity(fold(told()))
    assert (thinking.tools, thinking.since) == ((), 2000)

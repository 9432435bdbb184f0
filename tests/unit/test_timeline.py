"""The life of a turn as spans of time.

Drives `core/timeline`.
"""

from __future__ import annotations

from perdure.core.effects import Effect
from perdure.core.entries import (
    Entry,
    JournalRecord,
    ModelAnswered,
    ModelAsked,
    ModelFailed,
    QuestionAnswered,
    QuestionAsked,
    RecoveryDecided,
    ToolCall,
    ToolEnded,
    ToolStarted,
    TurnBegan,
    TurnClaimed,
    TurnFinished,
    TurnInterrupted,
    TurnRequeued,
)
from perdure.core.messages import Sender
from perdure.core.timeline import RunEnd, TurnTimeline, build_timeline

WISH = ModelAnswered(1, "", (ToolCall("c1", "step", {"name": "look"}),))


def line(
    *entries: tuple[int, Entry], alive: dict[str, int] | None = None, died: dict[str, RunEnd] | None = None
) -> TurnTimeline:
    ends = {run: RunEnd(at) for run, at in (alive or {}).items()} | (died or {})
    return build_timeline([JournalRecord(seq, at, entry) for seq, (at, entry) in enumerate(entries, 1)], ends)


def started(effect: Effect) -> ToolStarted:
    return ToolStarted("c1", "step", effect, "key")


def begun(effect: Effect) -> list[tuple[int, Entry]]:
    return [
        (0, TurnBegan(())),
        (1, TurnClaimed("run_1", 1, 1)),
        (2, ModelAsked(1, "m")),
        (5, WISH),
        (6, started(effect)),
    ]


def test_spans_last_from_intent_to_result() -> None:
    found = line(*begun(Effect.PURE), (9, ToolEnded("c1", "ok", "there")), (10, TurnFinished("done")))
    assert [(span.kind, span.name, span.at, span.until, span.outcome) for span in found.spans] == [
        ("model", "m", 2, 5, "ok"),
        ("tool", "step", 6, 9, "ok"),
    ]
    assert found.spans[1].arguments == {"name": "look"}
    assert [(one.number, one.at, one.until, one.ending) for one in found.attempts] == [(1, 1, 10, "finished")]


def test_b88_each_failed_try_of_a_model_call_is_a_span_that_says_why() -> None:
    failed = (3, ModelFailed(1, "m", 1, "Slow down.", 429, 1000))
    found = line(*begun(Effect.PURE)[:3], failed, (1003, ModelAsked(1, "m")), (1005, WISH))
    assert [(span.at, span.until, span.outcome, span.text) for span in found.spans] == [
        (2, 3, "error", "Try 1 failed: HTTP 429: Slow down. Next try in 1 s."),
        (1003, 1005, "ok", ""),
    ]


def test_crash_is_seen_where_the_last_sign_of_life_was() -> None:
    again = [(51, TurnClaimed("run_2", 2, 2)), (52, started(Effect.PURE)), (60, ToolEnded("c1", "ok", ""))]
    mark = (50, TurnInterrupted("restart_interrupted", "run_1"))
    decided = (50, RecoveryDecided("resume", "why"))
    found = line(*begun(Effect.PURE), mark, decided, (50, TurnRequeued()), *again, alive={"run_1": 20})
    assert [(cut.at, cut.found_at) for cut in found.interruptions] == [(20, 50)]
    assert [(one.until, one.reason) for one in found.attempts] == [(20, "restart_interrupted"), (None, None)]
    tools = [(span.at, span.until, span.outcome, span.attempt) for span in found.spans if span.kind == "tool"]
    assert tools == [(6, 20, "cut", 1), (52, 60, "ok", 2)]
    assert [point.decided.decision for point in found.decisions] == ["resume"]


def test_crash_is_seen_where_the_supervisor_saw_it() -> None:
    """The attempt, and the call in it, last until then; a wrong clock moves neither out of the journal."""
    for seen, until in ((31, 31), (3, 6), (99, 50)):
        mark = (50, TurnInterrupted("restart_interrupted", "run_1"))
        found = line(*begun(Effect.PURE), mark, died={"run_1": RunEnd(seen, -9), "run_0": RunEnd(7, 1)})
        assert [(cut.at, cut.found_at, cut.exit_code) for cut in found.interruptions] == [(until, 50, -9)]
        assert [one.until for one in found.attempts] == [until]
        assert [(span.until, span.outcome) for span in found.spans if span.kind == "tool"] == [(until, "cut")]


def test_call_that_outlives_us_is_one_span_through_the_downtime() -> None:
    mark = (50, TurnInterrupted("restart_interrupted", "run_1"))
    again = [(51, TurnClaimed("run_2", 2, 2)), (52, started(Effect.ATTACHED)), (60, ToolEnded("c1", "ok", ""))]
    found = line(*begun(Effect.ATTACHED), mark, (50, TurnRequeued()), *again)
    assert [(span.at, span.until) for span in found.spans if span.kind == "tool"] == [(6, 60)]


def test_call_of_unknown_outcome_ends_with_the_run_that_made_it() -> None:
    mark = (50, TurnInterrupted("restart_interrupted", "run_1"))
    again = [(51, TurnClaimed("run_2", 2, 2)), (52, ToolEnded("c1", "unknown", ""))]
    found = line(*begun(Effect.ONCE), mark, (50, TurnRequeued()), *again, alive={"run_1": 9})
    assert [(span.until, span.outcome) for span in found.spans if span.kind == "tool"] == [(9, "unknown")]


def test_planned_stop_is_no_gap() -> None:
    found = line(*begun(Effect.PURE), (30, TurnInterrupted("shutdown_timeout", "run_1")), alive={"run_1": 20})
    assert [(cut.at, cut.found_at) for cut in found.interruptions] == [(30, 30)]
    assert [span.outcome for span in found.spans] == ["ok", "cut"]


def test_question_waits_until_its_answer() -> None:
    asked = QuestionAsked("q1", "Left or right?")
    found = line((1, TurnClaimed("run_1", 1, 1)), (5, asked), (90, QuestionAnswered("q1", "Left", Sender("ann"))))
    assert [(span.kind, span.at, span.until, span.text) for span in found.spans] == [("person", 5, 90, "Left")]
    assert found.attempts[0].ending == "asked"


def test_open_spans_go_on_while_the_turn_does() -> None:
    found = line(*begun(Effect.PURE))
    assert [span.outcome for span in found.spans] == ["ok", None]
    assert found.ended_at is None

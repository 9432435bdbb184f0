"""Which note the model gets, and that it is one at most (B47, B49)."""

from __future__ import annotations

import pytest

from perdure.core import notes
from perdure.core.briefing import briefing
from perdure.core.effects import Effect
from perdure.core.journal import Cancelled, Failed, Finished, Noted, TurnView
from perdure.core.recovery import Reason
from perdure.core.session import Why
from support.journals import again, began, calling, claimed, cut_off, ended, joined, saying, started, told

DONE = told(began(), claimed(), saying(), Finished("All done."))


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        (Reason.RESTART_TIMEOUT, "a gateway restart"),
        (Reason.SHUTDOWN_TIMEOUT, "a gateway shutdown"),
        (Reason.RESTART_INTERRUPTED, "a gateway interruption"),
        (Reason.LEASE_LOST, "a gateway interruption"),
    ],
)
def test_b47_note_names_the_cause_when_the_turn_was_cut_off(reason: str, cause: str) -> None:
    note = briefing(told(began(), claimed(), cut_off(reason), *again()), [])
    assert note is not None
    assert f"cut off by {cause}" in note


def test_b47_note_is_given_once() -> None:
    assert briefing(told(began(), claimed(), cut_off(), *again(), Noted("[note]")), []) is None


def test_b47_note_tells_what_is_known_of_the_steps_that_were_cut_off() -> None:
    calls = calling("c1", "c2", "c3")
    steps = (started("c1", Effect.ONCE), started("c2"), started("c3"), ended("c3"))
    note = briefing(told(began(), claimed(), calls, *steps, cut_off(), *again()), []) or ""
    assert "look(at='c1') was cut off: its outcome is unknown" in note
    assert "look(at='c2') was cut off and is run again" in note
    assert "c3" not in note


def test_b49_note_asks_for_both_when_a_message_joined() -> None:
    note = briefing(told(began(), claimed(), cut_off(), *again(), joined("and this")), []) or ""
    assert "finish what was begun, then answer that too" in note


def test_b49_note_says_that_old_work_was_left_when_it_was_superseded() -> None:
    before = told(
        began(), claimed(), calling("c1"), started("c1", Effect.ONCE), cut_off(), Cancelled(Why.SUPERSEDED)
    )
    note = briefing(told(began("new"), claimed()), [before]) or ""
    assert "left unfinished" in note
    assert "look(at='c1')" in note


def test_b11_note_is_kept_for_the_next_message_when_the_resumed_turn_failed() -> None:
    before = told(began(), claimed(), cut_off(), *again(), Failed("no credit"))
    assert "a gateway interruption" in (briefing(told(began(), claimed()), [before]) or "")


def test_b47_tool_result_note_is_used_when_nothing_was_interrupted() -> None:
    before = told(began(), claimed(), calling("c1"), started("c1"), ended("c1"), Failed("no credit"))
    assert briefing(told(began(), claimed()), [before]) == notes.UNANSWERED_RESULTS


@pytest.mark.parametrize(
    "before",
    [
        pytest.param([], id="the first turn"),
        pytest.param([DONE], id="behind a finished turn"),
        pytest.param([told(began(), claimed(), Cancelled(Why.STOPPED))], id="behind a stopped turn"),
    ],
)
def test_b47_message_is_untouched_when_there_is_nothing_to_tell(before: list[TurnView]) -> None:
    assert briefing(told(began(), claimed()), before) is None

"""The recovery state of a session: derived from its marks, never stored."""

from __future__ import annotations

import pytest

from perdure.core.session import UNMARKING, Mark, Recovery, SessionState, Why, recovery_of

NEVER = 0  # no turn of the session was delivered yet
CRASH = Mark(5, 1_000, "restart_interrupted")
DRAIN = Mark(9, 2_000, "shutdown_timeout")


def test_new_session_has_no_recovery_state() -> None:
    """B1: nothing pending, no reason, no time."""
    assert recovery_of([], NEVER) == Recovery()
    assert Recovery() == Recovery(False, None, None, 0)


def test_mark_makes_the_session_pending() -> None:
    """B10: and it stays so however often it is looked at."""
    marks = [CRASH]
    assert [recovery_of(marks, NEVER) for _ in range(3)] == [Recovery(True, "restart_interrupted", 1_000, 1)] * 3
    assert marks == [CRASH]


def test_newest_mark_tells_reason_and_time_when_there_are_several() -> None:
    assert recovery_of([CRASH, DRAIN], NEVER) == Recovery(True, "shutdown_timeout", 2_000, 2)


def test_mark_outlives_generation_until_delivery() -> None:
    """B11: only a turn that was delivered after the mark clears it."""
    assert recovery_of([CRASH], delivered=4).resume_pending
    assert not recovery_of([CRASH], delivered=6).resume_pending


def test_clearing_empties_every_field_together() -> None:
    """B11: reason, time and count go with the mark."""
    assert recovery_of([CRASH, DRAIN], delivered=10) == Recovery()


def test_older_marks_are_forgotten_when_a_turn_was_delivered_between() -> None:
    """B52: a completed turn sets the count to zero."""
    assert recovery_of([CRASH, DRAIN], delivered=7) == Recovery(True, "shutdown_timeout", 2_000, 1)


@pytest.mark.parametrize("why", [Why.STOPPED, Why.DROPPED, Why.RESET, Why.CLEARED])
def test_mark_counts_no_longer_when_a_person_or_a_clear_decision_ended_its_turn(why: Why) -> None:
    """B11: stop, drop, new and clear end the mark with the turn."""
    ended = Mark(5, 1_000, "restart_interrupted", why)
    assert recovery_of([ended], NEVER) == Recovery()
    assert recovery_of([ended, DRAIN], NEVER) == Recovery(True, "shutdown_timeout", 2_000, 1)


@pytest.mark.parametrize("why", sorted(set(Why) - UNMARKING))
def test_mark_stays_when_its_turn_was_ended_by_us(why: str) -> None:
    """B11: a suspended or superseded turn is still owed an answer."""
    assert recovery_of([Mark(5, 1_000, "lease_lost", why)], NEVER) == Recovery(True, "lease_lost", 1_000, 1)


def test_mark_without_a_time_is_pending_all_the_same() -> None:
    """B4: an imported mark whose time could not be read keeps its reason."""
    assert recovery_of([Mark(5, None, "restart_timeout")], NEVER) == Recovery(True, "restart_timeout", None, 1)


def test_order_is_by_sequence_when_the_clock_goes_back() -> None:
    marks = [Mark(5, 9_000, "restart_timeout"), Mark(9, 1_000, "lease_lost")]
    assert recovery_of(marks, NEVER) == Recovery(True, "lease_lost", 1_000, 2)


def test_states_are_spelled_as_the_database_has_them() -> None:
    assert list(SessionState) == ["open", "suspended", "closed"]

"""The recovery state of a session: derived from its marks, never stored.

Drives `core/states`.
"""

from __future__ import annotations

import pytest

from perdure.core.states import (
    UNMARKING_REASONS,
    CancelReason,
    Mark,
    RecoveryState,
    SessionState,
    derive_recovery_state,
)

NEVER = 0  # no turn of the session was delivered yet
CRASH = Mark(5, 1_000, "restart_interrupted")
DRAIN = Mark(9, 2_000, "shutdown_timeout")


def test_new_session_has_no_recovery_state() -> None:
    """B1: nothing pending, no reason, no time."""
    assert derive_recovery_state([], NEVER) == RecoveryState()
    assert RecoveryState() == RecoveryState(False, None, None, 0)


def test_mark_makes_the_session_pending() -> None:
    """B10: and it stays so however often it is looked at."""
    marks = [CRASH]
    assert [derive_recovery_state(marks, NEVER) for _ in range(3)] == [
        RecoveryState(True, "restart_interrupted", 1_000, 1)
    ] * 3
    assert marks == [CRASH]


def test_newest_mark_tells_reason_and_time_when_there_are_several() -> None:
    assert derive_recovery_state([CRASH, DRAIN], NEVER) == RecoveryState(True, "shutdown_timeout", 2_000, 2)


def test_mark_outlives_generation_until_delivery() -> None:
    """B11: only a turn that was delivered after the mark clears it."""
    assert derive_recovery_state([CRASH], delivered_seq=4).resume_pending
    assert not derive_recovery_state([CRASH], delivered_seq=6).resume_pending


def test_clearing_empties_every_field_together() -> None:
    """B11: reason, time and count go with the mark."""
    assert derive_recovery_state([CRASH, DRAIN], delivered_seq=10) == RecoveryState()


def test_older_marks_are_forgotten_when_a_turn_was_delivered_between() -> None:
    """B52: a completed turn sets the count to zero."""
    assert derive_recovery_state([CRASH, DRAIN], delivered_seq=7) == RecoveryState(
        True, "shutdown_timeout", 2_000, 1
    )


@pytest.mark.parametrize(
    "why", [CancelReason.STOPPED, CancelReason.DROPPED, CancelReason.RESET, CancelReason.CLEARED]
)
def test_mark_counts_no_longer_when_a_person_or_a_clear_decision_ended_its_turn(why: CancelReason) -> None:
    """B11: stop, drop, new and clear end the mark with the turn."""
    ended = Mark(5, 1_000, "restart_interrupted", why)
    assert derive_recovery_state([ended], NEVER) == RecoveryState()
    assert derive_recovery_state([ended, DRAIN], NEVER) == RecoveryState(True, "shutdown_timeout", 2_000, 1)


@pytest.mark.parametrize("why", sorted(set(CancelReason) - UNMARKING_REASONS))
def test_mark_stays_when_its_turn_was_ended_by_us(why: str) -> None:
    """B11: a suspended or superseded turn is still owed an answer."""
    assert derive_recovery_state([Mark(5, 1_000, "lease_lost", why)], NEVER) == RecoveryState(
        True, "lease_lost", 1_000, 1
    )


def test_mark_without_a_time_is_pending_all_the_same() -> None:
    """B4: an imported mark whose time could not be read keeps its reason."""
    assert derive_recovery_state([Mark(5, None, "restart_timeout")], NEVER) == RecoveryState(
        True, "restart_timeout", None, 1
    )


def test_order_is_by_sequence_when_the_clock_goes_back() -> None:
    marks = [Mark(5, 9_000, "restart_timeout"), Mark(9, 1_000, "lease_lost")]
    assert derive_recovery_state(marks, NEVER) == RecoveryState(True, "lease_lost", 1_000, 2)


def test_states_are_spelled_as_the_database_has_them() -> None:
    assert list(SessionState) == ["open", "suspended", "closed"]

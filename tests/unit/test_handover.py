"""Hand-over: every gateway chooses the same taker of a turn, and the turns are spread.

Drives `core/handover` and `core/recovery/decision`.
"""

from __future__ import annotations

from collections import Counter

from perdure.core.entries import Cause, Entry
from perdure.core.handover import Taker, choose_taker
from perdure.core.journal import (
    JournalRecord,
    RecoveryDecided,
    TurnBegan,
    TurnClaimed,
    TurnInterrupted,
    TurnRequeued,
    TurnView,
    fold,
)
from perdure.core.messages import Sender
from perdure.core.recovery.decision import RecoveryChoice, RecoveryContext, RecoveryPolicy, RecoveryRule, decide

TAKERS = [Taker(f"run_{name}", name) for name in "abc"]


def test_b162_turns_of_a_dead_gateway_are_spread_over_those_that_live() -> None:
    takers = Counter(choose_taker(f"agent:main:web:dm:{number}", "gone", TAKERS) for number in range(300))
    assert set(takers) == {"run_a", "run_b", "run_c"}
    assert min(takers.values()) > 60


def test_b162_every_gateway_chooses_the_same_taker_in_whatever_order_it_sees_them() -> None:
    for number in range(20):
        assert choose_taker(str(number), "gone", TAKERS) == choose_taker(str(number), "gone", TAKERS[::-1])


def test_b162_gateway_that_came_back_takes_what_was_its_own() -> None:
    assert {choose_taker(str(number), "b", TAKERS) for number in range(20)} == {"run_b"}


def test_b162_nobody_takes_what_nobody_can_serve() -> None:
    assert choose_taker("key", "gone", []) is None


# ── how often a turn was interrupted ────────────────────────────────────────────────────────────────────────


def interrupted_turn(times: int, evidence: dict[str, bool]) -> TurnView:
    """A turn that was interrupted so often, and requeued in between by decisions with that evidence."""
    entries: list[Entry] = [TurnBegan((Cause("in_1", "go", Sender("ada"), "m1"),)), TurnClaimed("run_1", 1, 1)]
    for number in range(1, times + 1):
        entries.append(TurnInterrupted("shutdown_timeout"))
        if number < times:
            resumed = RecoveryDecided(RecoveryChoice.RESUME, "", dict(evidence), RecoveryRule.RESUME)
            entries += [resumed, TurnRequeued(), TurnClaimed(f"run_{number}", number + 1, number + 1)]
    return fold(JournalRecord(seq, 1_000, entry) for seq, entry in enumerate(entries, 1))


def rule_after(times: int, *, handed_over: bool) -> RecoveryRule:
    view = interrupted_turn(times, {"handed_over": True} if handed_over else {})
    context = RecoveryContext(authorised=True, last_sign_of_life=1_000, handed_over=handed_over)
    return decide(view, context, RecoveryPolicy(), 2_000).rule


def test_b161_planned_hand_overs_count_toward_all_interruptions_and_not_toward_those_without_progress() -> None:
    assert rule_after(3, handed_over=False) is RecoveryRule.NO_PROGRESS
    assert rule_after(3, handed_over=True) is RecoveryRule.RESUME
    assert rule_after(9, handed_over=True) is RecoveryRule.RESUME
    assert rule_after(10, handed_over=True) is RecoveryRule.TOO_OFTEN


def test_b161_decision_about_a_hand_over_says_so_in_its_evidence() -> None:
    context = RecoveryContext(authorised=True, last_sign_of_life=1_000, handed_over=True)
    decision = decide(interrupted_turn(1, {}), context, RecoveryPolicy(), 2_000)
    assert decision.evidence["handed_over"] is True
    assert decision.evidence["without_progress"] == 0

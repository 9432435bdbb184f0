"""Random walks over the transition table: legal moves advance, all others are refused, and the fold agrees.

Drives `core/states` and `core/journal`.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.core.journal import (
    Entry,
    JournalRecord,
    ModelAsked,
    QuestionAnswered,
    QuestionAsked,
    RecoveryDecided,
    RecoveryNoted,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnRequeued,
    fold,
)
from perdure.core.states import FINAL_STATES, INITIAL_STATE, TURN_MOVES, TurnMove, TurnState, advance
from perdure.errors import IllegalMove
from support.journals import ADA, TICK_MS, began, claimed, interruption, joined, journal_records

RECORDED_BY: dict[TurnMove, Entry] = {
    TurnMove.CLAIMED: claimed(),
    TurnMove.FINISHED: TurnFinished("bye"),
    TurnMove.ASKED: QuestionAsked("q1", "Which?"),
    TurnMove.ANSWERED: QuestionAnswered("q1", "this", ADA),
    TurnMove.FAILED: TurnFailed("no"),
    TurnMove.CANCELLED: TurnCancelled("stopped"),
    TurnMove.INTERRUPTED: interruption(),
    TurnMove.REQUEUED: TurnRequeued(),
}
STILL = st.sampled_from(
    [ModelAsked(1, "m"), RecoveryNoted("[note]"), RecoveryDecided("skip", "stale"), joined("hurry")]
)
moves = st.sampled_from(TurnMove)


@st.composite
def walks(draw: st.DrawFn) -> list[TurnMove]:
    """Legal moves from the beginning on, up to a final state or to any place before."""
    state, walk = INITIAL_STATE, []
    for _ in range(draw(st.integers(0, 30))):
        if state in FINAL_STATES:
            break
        walk.append(draw(st.sampled_from(list(TURN_MOVES[state]))))
        state = TURN_MOVES[state][walk[-1]]
    return walk


def end_of(walk: list[TurnMove]) -> TurnState:
    state = INITIAL_STATE
    for move in walk:
        state = advance(state, move)
    return state


def journal_of(walk: list[TurnMove]) -> list[JournalRecord]:
    return journal_records(began(), *(RECORDED_BY[move] for move in walk))


def test_every_move_has_its_entry() -> None:
    assert {move: entry.move for move, entry in RECORDED_BY.items()} == {move: move for move in TurnMove}


@settings(max_examples=200)
@given(wishes=st.lists(moves, max_size=40))
def test_any_wish_is_a_legal_move_or_is_refused_by_name(wishes: list[TurnMove]) -> None:
    state = INITIAL_STATE
    for move in wishes:
        if move in TURN_MOVES[state]:
            state = advance(state, move)
            assert state in TurnState
            continue
        with pytest.raises(IllegalMove) as caught:
            advance(state, move)
        assert f"a turn that is {state} cannot be {move}" in str(caught.value)


@settings(max_examples=200)
@given(walk=walks())
def test_fold_of_a_walk_has_the_state_of_the_walk(walk: list[TurnMove]) -> None:
    view = fold(journal_of(walk))
    assert view.state is end_of(walk)
    assert len(view.interruptions) == walk.count(TurnMove.INTERRUPTED)
    assert (view.ended is not None) == (view.state in FINAL_STATES)


@given(walk=walks(), data=st.data())
def test_fold_has_the_same_state_when_facts_that_move_nothing_stand_between(
    walk: list[TurnMove], data: st.DataObject
) -> None:
    entries: list[Entry] = [began()]
    for move in walk:
        entries += [*data.draw(st.lists(STILL, max_size=2)), RECORDED_BY[move]]
    assert fold(journal_records(*entries)).state is end_of(walk)


@given(walk=walks(), move=moves)
def test_view_is_left_as_it_was_when_a_move_is_refused(walk: list[TurnMove], move: TurnMove) -> None:
    records = journal_of(walk)
    view, seq = fold(records), len(records) + 1
    record = JournalRecord(seq, seq * TICK_MS, RECORDED_BY[move])
    if move in TURN_MOVES[view.state]:
        view.apply(record)
        assert view == fold([*records, record])
    else:
        with pytest.raises(IllegalMove):
            view.apply(record)
        assert view == fold(records)


@given(walk=walks(), more=st.lists(moves, min_size=1, max_size=5))
def test_final_states_have_no_way_out(walk: list[TurnMove], more: list[TurnMove]) -> None:
    state = end_of(walk)
    if state in FINAL_STATES:
        for move in more:
            with pytest.raises(IllegalMove, match="none, it is final"):
                advance(state, move)


def test_every_state_can_be_reached_and_every_begun_one_can_end() -> None:
    reached = {INITIAL_STATE}
    while further := {to for state in reached for to in TURN_MOVES[state].values()} - reached:
        reached |= further
    assert reached == set(TurnState)
    ends = set(FINAL_STATES)
    while earlier := {state for state in TurnState if ends & set(TURN_MOVES[state].values())} - ends:
        ends |= earlier
    assert ends == set(TurnState)

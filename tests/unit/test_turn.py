"""The transition table of a turn: what leads where, and how a wrong move is told.

Drives `core/states`.
"""

from __future__ import annotations

import pytest

from perdure.core.states import (
    FINAL_STATES,
    INITIAL_STATE,
    OPEN_STATES,
    TURN_MOVES,
    TurnMove,
    TurnState,
    advance,
)
from perdure.errors import IllegalMove

# The table as the design tells it, written down a second time on purpose.
LEGAL = {
    (TurnState.QUEUED, TurnMove.CLAIMED): TurnState.RUNNING,
    (TurnState.QUEUED, TurnMove.INTERRUPTED): TurnState.INTERRUPTED,
    (TurnState.QUEUED, TurnMove.CANCELLED): TurnState.CANCELLED,
    (TurnState.QUEUED, TurnMove.ASKED): TurnState.WAITING,
    (TurnState.RUNNING, TurnMove.FINISHED): TurnState.DONE,
    (TurnState.RUNNING, TurnMove.ASKED): TurnState.WAITING,
    (TurnState.RUNNING, TurnMove.FAILED): TurnState.FAILED,
    (TurnState.RUNNING, TurnMove.CANCELLED): TurnState.CANCELLED,
    (TurnState.RUNNING, TurnMove.INTERRUPTED): TurnState.INTERRUPTED,
    (TurnState.WAITING, TurnMove.ANSWERED): TurnState.QUEUED,
    (TurnState.WAITING, TurnMove.CANCELLED): TurnState.CANCELLED,
    (TurnState.INTERRUPTED, TurnMove.REQUEUED): TurnState.QUEUED,
    (TurnState.INTERRUPTED, TurnMove.ASKED): TurnState.WAITING,
    (TurnState.INTERRUPTED, TurnMove.FINISHED): TurnState.DONE,
    (TurnState.INTERRUPTED, TurnMove.CANCELLED): TurnState.CANCELLED,
}
ILLEGAL = [(state, move) for state in TurnState for move in TurnMove if (state, move) not in LEGAL]


@pytest.mark.parametrize(("state", "move"), LEGAL)
def test_turn_advances_when_the_move_is_legal(state: TurnState, move: TurnMove) -> None:
    assert advance(state, move) is LEGAL[state, move]


@pytest.mark.parametrize(("state", "move"), ILLEGAL)
def test_illegal_move_names_both_ends_and_what_is_legal(state: TurnState, move: TurnMove) -> None:
    with pytest.raises(IllegalMove) as caught:
        advance(state, move)
    assert f"a turn that is {state} cannot be {move};" in str(caught.value)
    for legal in TURN_MOVES[state]:
        assert legal in str(caught.value).partition("legal from here: ")[2]


def test_illegal_move_says_that_the_state_is_final_when_it_is() -> None:
    with pytest.raises(IllegalMove, match="legal from here: none, it is final"):
        advance(TurnState.DONE, TurnMove.CLAIMED)


def test_claiming_is_the_only_way_into_running() -> None:
    assert [found for found, to in LEGAL.items() if to is TurnState.RUNNING] == [
        (TurnState.QUEUED, TurnMove.CLAIMED)
    ]
    assert [move for moves in TURN_MOVES.values() for move, to in moves.items() if to is TurnState.RUNNING] == [
        TurnMove.CLAIMED
    ]


def test_waiting_is_left_by_a_person_alone() -> None:
    assert set(TURN_MOVES[TurnState.WAITING]) == {TurnMove.ANSWERED, TurnMove.CANCELLED}


def test_states_are_either_begun_or_final() -> None:
    assert frozenset((TurnState.DONE, TurnState.FAILED, TurnState.CANCELLED)) == FINAL_STATES
    assert OPEN_STATES == (TurnState.QUEUED, TurnState.RUNNING, TurnState.WAITING, TurnState.INTERRUPTED)
    assert INITIAL_STATE is TurnState.QUEUED


def test_every_begun_state_can_be_cancelled() -> None:
    assert all(TURN_MOVES[state][TurnMove.CANCELLED] is TurnState.CANCELLED for state in OPEN_STATES)

"""The transition table of a turn: what leads where, and how a wrong move is told."""

from __future__ import annotations

import pytest

from perdure.core.turn import BEGUN, FINAL, INITIAL, MOVES, Move, State, advance, diagram
from perdure.errors import IllegalMove

# The table as the design tells it, written down a second time on purpose.
LEGAL = {
    (State.QUEUED, Move.CLAIMED): State.RUNNING,
    (State.QUEUED, Move.INTERRUPTED): State.INTERRUPTED,
    (State.QUEUED, Move.CANCELLED): State.CANCELLED,
    (State.QUEUED, Move.ASKED): State.WAITING,
    (State.RUNNING, Move.FINISHED): State.DONE,
    (State.RUNNING, Move.ASKED): State.WAITING,
    (State.RUNNING, Move.FAILED): State.FAILED,
    (State.RUNNING, Move.CANCELLED): State.CANCELLED,
    (State.RUNNING, Move.INTERRUPTED): State.INTERRUPTED,
    (State.WAITING, Move.ANSWERED): State.QUEUED,
    (State.WAITING, Move.CANCELLED): State.CANCELLED,
    (State.INTERRUPTED, Move.REQUEUED): State.QUEUED,
    (State.INTERRUPTED, Move.ASKED): State.WAITING,
    (State.INTERRUPTED, Move.FINISHED): State.DONE,
    (State.INTERRUPTED, Move.CANCELLED): State.CANCELLED,
}
ILLEGAL = [(state, move) for state in State for move in Move if (state, move) not in LEGAL]


@pytest.mark.parametrize(("state", "move"), LEGAL)
def test_turn_advances_when_the_move_is_legal(state: State, move: Move) -> None:
    assert advance(state, move) is LEGAL[state, move]


@pytest.mark.parametrize(("state", "move"), ILLEGAL)
def test_illegal_move_names_both_ends_and_what_is_legal(state: State, move: Move) -> None:
    with pytest.raises(IllegalMove) as caught:
        advance(state, move)
    assert f"a turn that is {state} cannot be {move};" in str(caught.value)
    for legal in MOVES[state]:
        assert legal in str(caught.value).partition("legal from here: ")[2]


def test_illegal_move_says_that_the_state_is_final_when_it_is() -> None:
    with pytest.raises(IllegalMove, match="legal from here: none, it is final"):
        advance(State.DONE, Move.CLAIMED)


def test_claiming_is_the_only_way_into_running() -> None:
    assert [found for found, to in LEGAL.items() if to is State.RUNNING] == [(State.QUEUED, Move.CLAIMED)]
    assert [move for moves in MOVES.values() for move, to in moves.items() if to is State.RUNNING] == [
        Move.CLAIMED
    ]


def test_waiting_is_left_by_a_person_alone() -> None:
    assert set(MOVES[State.WAITING]) == {Move.ANSWERED, Move.CANCELLED}


def test_states_are_either_begun_or_final() -> None:
    assert frozenset((State.DONE, State.FAILED, State.CANCELLED)) == FINAL
    assert BEGUN == (State.QUEUED, State.RUNNING, State.WAITING, State.INTERRUPTED)
    assert INITIAL is State.QUEUED


def test_every_begun_state_can_be_cancelled() -> None:
    assert all(MOVES[state][Move.CANCELLED] is State.CANCELLED for state in BEGUN)


def test_diagram_draws_every_move_once() -> None:
    lines = diagram().splitlines()
    drawn = [f"    {state} --> {to}: {move}" for (state, move), to in LEGAL.items()]
    ends = ["    [*] --> queued", *(f"    {state} --> [*]" for state in FINAL)]
    assert lines[0] == "stateDiagram-v2"
    assert sorted(lines[1:]) == sorted(drawn + ends)

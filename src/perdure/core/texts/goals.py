"""What people and models read about goals, which `/goal` sets."""

from __future__ import annotations

from perdure.core.commands import GOAL_GIVEN_UP, GOAL_REACHED
from perdure.core.states import GoalState
from perdure.core.texts import phrases


def turn_note(number: int, budget: int) -> str:
    """The note to the model with a goal: what the goal is, and how it ends."""
    said = (
        [
            "The words above are a goal that the user has set for you, not a single question.",
            f"You work towards it by yourself, in at most {budget} turns: when this one ends, the next begins.",
        ]
        if number == 1
        else [
            f"This is turn {number} of at most {budget} towards the goal above.",
            "Go on from where you are; do not repeat what is done.",
        ]
    )
    end = (
        f"When the goal is reached, end your answer with the line {GOAL_REACHED}; if you can do nothing "
        "more for it, "
        f"with the line {GOAL_GIVEN_UP}, and say why."
    )
    return " ".join([*said, end])


def started(budget: int, *, busy: bool) -> str:
    begin = "I begin with it as soon as what is under way here has ended" if busy else "I begin with it now"
    return f"The goal is set. {begin}, and go on by myself for at most {budget} turns. /goal off ends it."


_STATES = {
    GoalState.ACTIVE: "It has had {turns} of at most {budget} turns, and goes on after every turn that completes.",
    GoalState.REACHED: "It was reached in turn {turns}.",
    GoalState.GIVEN_UP: "It was given up in turn {turns}.",
    GoalState.SPENT: "It has had its {budget} turns, and does not go on.",
    GoalState.ENDED: "It was ended after {turns} of at most {budget} turns.",
}
NO_GOAL = "There is no goal here. /goal TEXT sets one."


def status(text: str, state: GoalState, turns: int, budget: int) -> str:
    return f"Goal: {phrases.clip(text, 500)}\n{_STATES[state].format(turns=turns, budget=budget)}"


def ended(ended: bool) -> str:
    return "The goal is ended; I do not go on with it." if ended else NO_GOAL


def budget_spent(budget: int) -> str:
    turns = "1 turn" if budget == 1 else f"{budget} turns"
    return f"The goal has had its {turns} and was not reached, so I stop here. /goal TEXT sets it again."

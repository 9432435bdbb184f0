"""What a model says of the goal that it works towards: one line by itself, in an answer."""

from __future__ import annotations

from typing import Literal

GOAL_REACHED = "GOAL REACHED"
GOAL_GIVEN_UP = "GOAL GIVEN UP"

GoalOutcome = Literal["reached", "given_up"]

_OUTCOME_LINES: dict[str, GoalOutcome] = {GOAL_REACHED: "reached", GOAL_GIVEN_UP: "given_up"}
_DECORATION = " \t*_`#>.!\"'"  # what models like to put around a line that matters


def goal_outcome(answer: str) -> GoalOutcome | None:
    """The last line of an answer that says what became of the goal, if there is one."""
    said = (_OUTCOME_LINES.get(line.strip(_DECORATION).upper()) for line in reversed(answer.splitlines()))
    return next((found for found in said if found is not None), None)

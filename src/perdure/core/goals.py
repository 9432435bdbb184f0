"""The line by which a model reports that a goal is reached or given up."""

from __future__ import annotations

from typing import Literal

GOAL_REACHED = "GOAL REACHED"
GOAL_GIVEN_UP = "GOAL GIVEN UP"

GoalOutcome = Literal["reached", "given_up"]

_OUTCOME_LINES: dict[str, GoalOutcome] = {GOAL_REACHED: "reached", GOAL_GIVEN_UP: "given_up"}
_DECORATION = " \t*_`#>.!\"'"  # characters that models put around such a line


def goal_outcome(answer: str) -> GoalOutcome | None:
    """The outcome that the last such line of an answer reports; None if there is no such line."""
    outcomes = (_OUTCOME_LINES.get(line.strip(_DECORATION).upper()) for line in reversed(answer.splitlines()))
    return next((found for found in outcomes if found is not None), None)

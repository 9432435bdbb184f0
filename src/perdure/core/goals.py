"""What a model says of the goal that it works towards: one line by itself, in an answer."""

from __future__ import annotations

from typing import Literal

REACHED = "GOAL REACHED"
GIVEN_UP = "GOAL GIVEN UP"

Verdict = Literal["reached", "given_up"]

_LINES: dict[str, Verdict] = {REACHED: "reached", GIVEN_UP: "given_up"}
_DRESS = " \t*_`#>.!\"'"  # what models like to put around a line that matters


def verdict(answer: str) -> Verdict | None:
    """The last line of an answer that says what became of the goal, if there is one."""
    said = (_LINES.get(line.strip(_DRESS).upper()) for line in reversed(answer.splitlines()))
    return next((found for found in said if found is not None), None)

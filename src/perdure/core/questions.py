"""The names of questions: what the HTTP API, and the buttons under a question, call it."""

from __future__ import annotations

import hashlib

SHORT = "#"  # begins what stands for a question whose own name is too long for a button


def question_name(turn: str, question: str) -> str:
    return f"{turn}.{question}"


def short_name(name: str) -> str:
    """The same name in less than fifty bytes, however long the question's own is."""
    turn, _, question = name.partition(".")
    return f"{turn}.{SHORT}{hashlib.sha256(question.encode()).hexdigest()[:16]}"


def turn_of(name: str) -> str:
    """The turn that asked."""
    return name.partition(".")[0]


def names(given: str, turn: str, question: str) -> bool:
    """Whether a name, in full or short, is that of this question."""
    full = question_name(turn, question)
    return given in (full, short_name(full))

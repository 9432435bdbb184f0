"""The names of questions: what the HTTP API, and the buttons under a question, call it."""

from __future__ import annotations

import hashlib

_ASKS = ".asks."
_AGAIN = ".again."
SHORT = "#"  # begins what stands for a question whose own name is too long for a button


def question_name(turn: str, question: str) -> str:
    return f"{turn}.{question}"


def asking_reply(turn: str, question: str, before: int = 0) -> str:
    """The name of the reply that asks a question, which was asked so many times before."""
    return f"{turn}{_ASKS}{question}" + (f"{_AGAIN}{before}" if before else "")


def asked_in(reply: str) -> str | None:
    """The name of the question that a reply asks; None if it asks none."""
    turn, asks, question = reply.partition(_ASKS)
    return question_name(turn, question.partition(_AGAIN)[0]) if asks else None


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

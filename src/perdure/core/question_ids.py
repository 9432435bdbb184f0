"""The ids of questions, as the HTTP API and buttons use them."""

from __future__ import annotations

import hashlib

_REPLY_INFIX = ".asks."
_REPEAT_INFIX = ".again."
SHORT_ID_MARK = "#"  # begins a short id, used where the full one is too long for a button


def question_id(turn: str, question: str) -> str:
    return f"{turn}.{question}"


def question_reply_id(turn: str, question: str, times_before: int = 0) -> str:
    """The id of the reply that asks a question, after it was asked so many times before."""
    return f"{turn}{_REPLY_INFIX}{question}" + (f"{_REPEAT_INFIX}{times_before}" if times_before else "")


def question_of_reply(reply: str) -> str | None:
    """The id of the question that a reply asks; None if it asks none."""
    turn, asks, question = reply.partition(_REPLY_INFIX)
    return question_id(turn, question.partition(_REPEAT_INFIX)[0]) if asks else None


def short_question_id(name: str) -> str:
    """The short id of a question: below fifty bytes, however long the full id is."""
    turn, _, question = name.partition(".")
    return f"{turn}.{SHORT_ID_MARK}{hashlib.sha256(question.encode()).hexdigest()[:16]}"


def turn_of_question(name: str) -> str:
    """The turn that asked the question."""
    return name.partition(".")[0]


def is_id_of_question(given: str, turn: str, question: str) -> bool:
    """Whether an id, in full or short, is that of this question."""
    full = question_id(turn, question)
    return given in (full, short_question_id(full))

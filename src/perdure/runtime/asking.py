"""A question as the chat sees it: its words, cut to the platform's length, and its buttons."""

from __future__ import annotations

from perdure.core import notes
from perdure.core.address import parse_session_key, work_of
from perdure.core.delivery import split
from perdure.core.journal import Asked, TurnView
from perdure.core.messages import Button, Pick
from perdure.core.questions import asking_reply, question_name
from perdure.core.requests import times_asked
from perdure.store.outbox import Owed


def asking(turn: str, key: str, asked: Asked, view: TurnView, max_length: int | None, why: str = "") -> Owed:
    """The reply that asks a question of a turn; `why` says, if it is put once more, why that is."""
    work, text = work_of(key), asked.text
    words = notes.ask_approval(work, text) if asked.approves else notes.ask_here(work, text, asked.options)
    parts = split(f"{why}\n\n{words}" if why else words, max_length)
    name = asking_reply(turn, asked.question, times_asked(view, asked.question) if why else 0)
    return Owed(parse_session_key(key)[1], name, tuple(parts), view.anchor, _buttons(turn, work, asked))


def _buttons(turn: str, work: int | None, asked: Asked) -> tuple[Button, ...]:
    """One for each option: pressing it says the same as a person who writes."""
    if asked.approves:
        pairs = zip(asked.options, ("approve", "deny"), strict=True)
        name = f"{turn}.{asked.approves}"
        return tuple(Button(label, notes.command(verb, work, name)) for label, verb in pairs)
    name = question_name(turn, asked.question)
    return tuple(
        Button(option, _saying(work, option), Pick(name, number)) for number, option in enumerate(asked.options)
    )


def _saying(work: int | None, option: str) -> str:
    return option if work is None else notes.command("answer", work, option)

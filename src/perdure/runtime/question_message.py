"""Makes the message that asks a question: its text, split to the platform's length, and its buttons."""

from __future__ import annotations

from perdure.core import texts
from perdure.core.address import background_number, split_session_key
from perdure.core.delivery import split_reply
from perdure.core.journal import QuestionAsked, TurnView
from perdure.core.messages import Button, Pick
from perdure.core.question_ids import question_id, question_reply_id
from perdure.core.recovery.pending_requests import times_asked
from perdure.store.outbox import OutboxReply


def question_reply(
    turn: str, key: str, asked: QuestionAsked, view: TurnView, max_length: int | None, repeat_reason: str = ""
) -> OutboxReply:
    """The reply that asks a question of a turn; `repeat_reason` says why a question is asked once more."""
    work, text = background_number(key), asked.text
    words = (
        texts.background.approval(work, text)
        if asked.approves
        else texts.background.question(work, text, asked.options)
    )
    parts = split_reply(f"{repeat_reason}\n\n{words}" if repeat_reason else words, max_length)
    name = question_reply_id(turn, asked.question, times_asked(view, asked.question) if repeat_reason else 0)
    return OutboxReply(split_session_key(key)[1], name, tuple(parts), view.reply_to, _buttons(turn, work, asked))


def _buttons(turn: str, session_number: int | None, asked: QuestionAsked) -> tuple[Button, ...]:
    """One button for each option; pressing it is the same as writing the option."""
    if asked.approves:
        pairs = zip(asked.options, ("approve", "deny"), strict=True)
        name = f"{turn}.{asked.approves}"
        return tuple(Button(label, texts.background.command(verb, session_number, name)) for label, verb in pairs)
    name = question_id(turn, asked.question)
    return tuple(
        Button(option, _button_text(session_number, option), Pick(name, number))
        for number, option in enumerate(asked.options)
    )


def _button_text(session_number: int | None, option: str) -> str:
    return option if session_number is None else texts.background.command("answer", session_number, option)

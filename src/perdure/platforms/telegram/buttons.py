"""Encodes buttons in Telegram's callback data of 64 bytes, so that a press is understood after any restart.

Nothing is stored for a button. The data of a question's option is the id of the question and the number of the
option. The data of a short command is the command. Of a long command that ends in the button's label, the data is
the part before the label, which is read from the button when it is pressed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perdure.core.messages import Button, Pick
from perdure.core.question_ids import short_question_id

MAX_CALLBACK_BYTES = 64
MAX_SHARED_ROW_CHARS = 18  # of a label that shares its row

COMMAND_PREFIX, PARTIAL_COMMAND_PREFIX, OPTION_PREFIX = "=", "+", "?"


def keyboard(buttons: Sequence[Button]) -> dict[str, Any] | None:
    """The inline keyboard for these buttons; a button whose command does not fit is left out."""
    shown = [
        {"text": button.label, "callback_data": data}
        for number, button in enumerate(buttons)
        if button.label.strip() and (data := _callback_data(number, button)) is not None
    ]
    if not shown:
        return None
    narrow = len(shown) <= 3 and all(len(button["text"]) <= MAX_SHARED_ROW_CHARS for button in shown)
    return {"inline_keyboard": [shown] if narrow else [[button] for button in shown]}


def _callback_data(number: int, button: Button) -> str | None:
    if button.pick is not None:
        option = f"{OPTION_PREFIX}{button.pick.option}:"
        named = f"{option}{button.pick.question}"
        return named if _fits(named) else f"{option}{short_question_id(button.pick.question)}"
    whole = f"{COMMAND_PREFIX}{button.command}"
    if _fits(whole):
        return whole
    beginning = f"{PARTIAL_COMMAND_PREFIX}{number}:{button.command.removesuffix(button.label)}"
    return beginning if button.command.endswith(button.label) and _fits(beginning) else None


def _fits(data: str) -> bool:
    return len(data.encode()) <= MAX_CALLBACK_BYTES


def decode_pick(data: str) -> Pick | None:
    """The option that was picked; None if the button is no option, or from before options had ids."""
    number, colon, question = data[1:].partition(":")
    ours = data.startswith(OPTION_PREFIX) and colon and question and number.isdecimal()
    return Pick(question, int(number)) if ours else None


def decode_command(data: str, shown: dict[str, str]) -> str | None:
    """The command of a pressed button; `shown` maps the callback data of each button to its label."""
    if data.startswith(COMMAND_PREFIX):
        return data[1:]
    number, colon, beginning = data[1:].partition(":")
    if data.startswith(PARTIAL_COMMAND_PREFIX) and colon and number.isdigit() and data in shown:
        return f"{beginning}{shown[data]}"
    return None

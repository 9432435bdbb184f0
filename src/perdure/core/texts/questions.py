"""Questions to people, and why a button press did not count."""

from __future__ import annotations

from collections.abc import Sequence

NOT_ANSWERED = "not answered: the user wrote something else instead."
QUESTION_MISSING = "the question is missing: give it as `question`, and the choices, if any, as `options`."


def format_question(text: str, options: Sequence[str]) -> str:
    return f"{text}\n({' / '.join(options)})" if options else text


BUTTON_NOT_ALLOWED = "You may not do that here."
BUTTON_PRESSED_BEFORE = "You have pressed this already."
BUTTON_TOO_LATE = "This question is closed: it was answered, or its work has ended."
BUTTON_NOT_YOURS = "This question is not yours to answer: it is asked in a conversation that you have no part in."
BUTTON_REFUSALS = {
    "too late": BUTTON_TOO_LATE,
    "not yours": BUTTON_NOT_YOURS,
}  # by the result of storing the press
BUTTON_UNKNOWN = "This button means nothing any more. Write instead what you want."

"""Questions and approvals: how a person is asked, and why a button press did not count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.core.entries import QuestionAnswered

NOT_ANSWERED = "not answered: the user wrote something else instead."
QUESTION_MISSING = "the question is missing: give it as `question`, and the choices, if any, as `options`."


def format_question(text: str, options: Sequence[str]) -> str:
    return f"{text}\n({' / '.join(options)})" if options else text


BUTTON_NOT_ALLOWED = "You may not do that here."
BUTTON_PRESSED_BEFORE = "You have pressed this already."
BUTTON_TOO_LATE = "This question is closed: it was answered, or its work has ended."
BUTTON_NOT_YOURS = (
    "This question is not yours to answer: it is asked in a conversation that you have no part in, or of somebody "
    "who may do more here than you."
)
BUTTON_REFUSALS = {
    "too late": BUTTON_TOO_LATE,
    "not yours": BUTTON_NOT_YOURS,
}  # by the result of storing the press
BUTTON_UNKNOWN = "This button means nothing any more. Write instead what you want."


DECISION_ANSWERS = {
    "approved": "Approved.",
    "denied": "Denied; it is not run.",
    "late": "That comes too late: it is not run.",
    "nothing": "Nothing waits for your approval here.",
}


def dangerous_part(why: str, part: str) -> str:
    shown = " ".join(part.split())
    shown = shown if len(shown) <= 200 else f"{shown[:200]}…"
    return f"{why}: `{shown}`"


def unreadable_command(why: str, what: str) -> str:
    return f"{why}: {what}"


def listed_as_dangerous(pattern: str) -> str:
    return f"the operator calls commands such as `{' '.join(pattern.split())}` dangerous"


EVERY_COMMAND = "every command here needs approval"
DANGEROUS_BY_SCRIPT = "the script calls it dangerous"
OPTIONS = ("Approve", "Deny")


def request(tool: str, arguments: Mapping[str, Any], why: str) -> str:
    """The request for approval of a call. It shows the whole call: nobody can approve what they do not see."""
    call = f"{tool}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"
    return f"May I do this? {call}\nI ask because {why}.\nSay /approve or /deny; nothing else counts."


def answered_by(answer: QuestionAnswered) -> str:
    """Who answered or decided, where, and by which message, press or login, as far as the journal says it."""
    person = f"{answer.by.name} ({answer.by.id})" if answer.by.name else answer.by.id
    where = f" on {answer.platform}" if answer.platform else ""
    message = f", message {answer.source}" if answer.source else ""
    login = f", login {answer.login}" if answer.login else ""
    return f"{person}{where}{message}{login}"


def decided(verdict: str, call: str, answer: QuestionAnswered) -> str:
    """One sentence of an explanation about a call that a person has decided about."""
    words = {"approved": "Approved", "denied": "Denied", "late": "Approved too late"}.get(verdict, "Not decided")
    return f"{words}: {call}, by {answered_by(answer)}."


EVERY_CALL = "every call here needs approval"


def asked_for_tool(pattern: str) -> str:
    return f"the operator wants to be asked about `{pattern}`"


def not_run(verdict: str) -> str:
    """The result that the model reads when a guarded call was not run."""
    if verdict == "denied":
        return "not run: the user denied it. Do not try it again in another way; say what you would need it for."
    if verdict == "late":
        return "not run: the approval came too late, and counts no more. Ask for the call again if it is needed."
    return "not run: the user neither approved nor denied it, but wrote something else."

"""The recovery note to the model about an interruption before this answer."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.core.texts import phrases, recovery

FINISHED_STEPS = "Steps that have a result are finished: use their results, do not repeat them."
CARRY_ON = "Carry on with the task; do not merely announce that you are back."
FIRST_LINE = "Begin your answer with one line that says what had been accomplished before the interruption."


STAYED_BEHIND = (
    "This conversation was moved to another machine. Files that were made, and commands that were begun, on the "
    "machine before stayed there, and cannot be seen from here: look what is here before you rely on it."
)


def resumed(
    reason: str, known: Sequence[str] = (), *, finished: bool = False, joined: bool = False, late: str = ""
) -> str:
    """The note about an interruption; `finished`: a step had ended before it; `late`: the age of a reply."""
    said = [f"This turn was cut off by {recovery.cause(reason)} and now goes on."]
    said += [FINISHED_STEPS, CARRY_ON, FIRST_LINE] if finished else [CARRY_ON]
    said += known
    if joined:
        said.append("The user has written again meanwhile: finish what was begun, then answer that too.")
    return phrases.gateway_note([*said, late] if late else said)


def failed(reason: str, known: Sequence[str] = (), *, finished: bool = False) -> str:
    left = f"The turn before this one was cut off by {recovery.cause(reason)}, went on, and then failed."
    use = [FINISHED_STEPS] if finished else []
    return phrases.gateway_note(
        [left, *use, *known, "Answer the new message, and mention the rest if it matters."]
    )


def late_answer_sentence(age: int) -> str:
    """The note about a late reply: how old its question is."""
    return (
        f"The user replied {phrases.duration(age)} after the question was asked. What was true then may "
        "have changed: "
        "check it where it matters."
    )


def late_answer(age: int) -> str:
    return phrases.gateway_note([late_answer_sentence(age)])


def superseded(known: Sequence[str] = ()) -> str:
    left = "The work before this message was cut off and left unfinished."
    return phrases.gateway_note([left, *known, "Answer the new message, and mention the rest if it matters."])


def call_in_doubt(call: str) -> str:
    return f"{call} was cut off: its outcome is unknown, and it may have run; look before you repeat it."


def call_still_running(call: str) -> str:
    return f"{call} was not cut off with it: it may have run on, and what came of it follows."


def call_run_again(call: str) -> str:
    return f"{call} was cut off and is run again."


def call_not_run_again(call: str) -> str:
    return f"{call} was cut off and has no result; it may be repeated."


UNANSWERED_RESULTS = (
    "[Gateway note: The turn before ended with tool results that nobody has answered. Take them into account.]"
)

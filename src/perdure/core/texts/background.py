"""What people read about background sessions, which `/background` starts beside a chat."""

from __future__ import annotations

import re
from collections.abc import Sequence

from perdure.core.texts import offline_model, phrases, questions, recovery


def label(number: int | None, text: str) -> str:
    """An answer or a failure; that of a background session is labelled and never empty."""
    return text if number is None else f"[background {number}] {text.strip() or offline_model.DONE}"


def notice(number: int | None, text: str) -> str:
    """A notice about a turn; of a background session, with the commands that address it."""
    if number is None:
        return text
    return label(number, _address_commands(number, text))


_TURN_COMMANDS = re.compile(r"/(stop|resume|drop|approve|deny)\b")


def _address_commands(number: int, text: str) -> str:
    return _TURN_COMMANDS.sub(lambda found: command(found[1], number), text)


def command(verb: str, number: int | None, *words: str) -> str:
    """The command for a turn; of a background session, with its number."""
    return " ".join((f"/{verb}" if number is None else f"/background {verb} {number}", *words))


def question(number: int | None, text: str, options: Sequence[str]) -> str:
    """A question to a person, labelled if a background session asks it."""
    if number is None:
        return questions.format_question(text, options)
    return (
        f"{label(number, questions.format_question(text, options))}\nSay "
        f"{command('answer', number, '…')} to answer."
    )


def approval(number: int | None, text: str) -> str:
    """The request for an approval; the call in it stays unchanged."""
    if number is None:
        return text
    call, _, how = text.rpartition("\n")
    return f"{label(number, call)}\n{_address_commands(number, how)}"


def suspended(number: int | None, why: str) -> str:
    if number is None:
        return recovery.suspended(why)
    return label(number, f"I have suspended this work, because {why}. {command('resume', number)} continues it.")


def started(number: int) -> str:
    stop = command("stop", number)
    return f"I work on it in the background, as number {number}; the answer comes here. {stop} ends it."


def too_many(limit: int) -> str:
    going = "1 work goes" if limit == 1 else f"{limit} works go"
    return (
        f"I have not begun this: {going} on in the background here already, and that is the most. "
        "/background lists what goes on, and /background stop N ends one."
    )


NONE_RUNNING = "Nothing is going on in the background."


def unknown(number: int) -> str:
    return f"Nothing with the number {number} was begun in the background here."


def status_line(number: int, state: str, text: str) -> str:
    return f"Background {number} {state}: {phrases.clip(' '.join(text.split()), 100)}"


def answered(passed_on: bool) -> str:
    return "Passed on." if passed_on else "It asks nothing now."

"""Answers to slash commands in the chat."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.core.session import SessionState
from perdure.core.texts import phrases


def unknown(name: str, meant: str | None) -> str:
    guess = f" Did you mean /{meant}?" if meant else ""
    return f"There is no command /{name}.{guess} /help lists them all."


def stopped(turn: str | None, waiting: int, dropped: int, withdrawn: int) -> str:
    said = ["Stopped." if turn or withdrawn else "Nothing was running."]
    if dropped:
        said.append(f"{phrases.message_count(dropped)} that waited {'was' if dropped == 1 else 'were'} dropped.")
    if waiting:
        them, are = ("it", "is") if waiting == 1 else ("them", "are")
        said.append(f"{phrases.message_count(waiting)} {are} still waiting; /stop all drops {them} too.")
    return " ".join(said)


def new_conversation(turn: str | None, dropped: int) -> str:
    said = ["This is a fresh conversation."]
    if turn:
        said.append("What was running was ended.")
    if dropped:
        said.append(f"{phrases.message_count(dropped)} that waited {'was' if dropped == 1 else 'were'} dropped.")
    return " ".join(said)


def usage(form: str, got: str) -> str:
    return f"Write it as {form}; I do not understand {got!r}."


NOTHING_HAPPENED = "Nothing has happened here yet."
TURN_OVER = "That work is over: nothing is left of it to go on with, or to give up."
RESUME_ANSWERS = {
    "turn": "Going on.",
    "session": "That conversation is here again, and goes on.",
    "running": "It is running already, or something else is; /status tells.",
    "nothing": "There is nothing to resume here.",
    "over": TURN_OVER,
    "unknown": "I know no conversation with that id; /sessions lists them.",
}


def dropped(gave_up: bool) -> str:
    return "Given up." if gave_up else "There is nothing interrupted here to give up."


_SESSION_STATES: dict[str, str] = {
    SessionState.OPEN: "this one",
    SessionState.SUSPENDED: "suspended",
    SessionState.CLOSED: "earlier",
}


def session_list(found: Sequence[tuple[str, str, int, str]]) -> str:
    """The conversations of a chat: id, state, how long ago it was last used, and its first words."""
    lines = [
        f"{name}  {_SESSION_STATES[state]}, {phrases.duration(age)} ago: "
        f"{f'“{phrases.first_words(words)}”' if words else 'nothing was said'}"
        for name, state, age, words in found
    ]
    if any(state != SessionState.OPEN for _, state, _, _ in found):
        lines.append("/resume ID brings one of them back.")
    return "\n".join(lines)


UNDO_REFUSALS = {
    "running": "The last turn has not ended yet. /stop ends it; then /{command} works.",
    "waiting": "Your last message still waits for its turn. /stop all drops it; then /{command} works.",
    "summed": "I cannot go further back: what came before stands in a summary now. /new begins afresh.",
    "nothing": "There is nothing here to take back.",
    "unasked": "The last turn was not begun by a message, so there is nothing to ask again. /undo takes it back.",
    "unrightful": "The last turn was begun by somebody who may do more here than you, so I do not ask it again "
    "for you.",
}


def undone(words: str, *, acted: bool, still_running: bool, goal: bool) -> str:
    said = [f"Taken back: {_quote(words)} I do not see it any more, nor my answer."]
    said += ["What its tools did stays done."] if acted else []
    said += ["A command that it began still runs; /status shows it."] if still_running else []
    said += ["The goal waits for your next message; /goal off ends it."] if goal else []
    return " ".join(said)


def retried(words: str, *, acted: bool, still_running: bool) -> str:
    said = [f"Asking again: {_quote(words)}"]
    said += ["What its tools did the first time stays done."] if acted else []
    said += ["A command that it began still runs; /status shows it."] if still_running else []
    return " ".join(said)


def _quote(words: str) -> str:
    """The first words of a message in quotes, as the end of a sentence."""
    return f"“{phrases.first_words(words)}”." if words.strip() else "a message without words."


FAILED = "This did not work: something went wrong inside the gateway. The details are in its log."

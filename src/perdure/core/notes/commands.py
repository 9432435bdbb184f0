"""Answers to commands in the chat."""

from __future__ import annotations

from perdure.core.notes.words import count_of_messages


def unknown_command(name: str, meant: str | None) -> str:
    guess = f" Did you mean /{meant}?" if meant else ""
    return f"There is no command /{name}.{guess} /help lists them all."


def stopped(turn: str | None, waiting: int, dropped: int, withdrawn: int) -> str:
    said = ["Stopped." if turn or withdrawn else "Nothing was running."]
    if dropped:
        said.append(f"{count_of_messages(dropped)} that waited {'was' if dropped == 1 else 'were'} dropped.")
    if waiting:
        them, are = ("it", "is") if waiting == 1 else ("them", "are")
        said.append(f"{count_of_messages(waiting)} {are} still waiting; /stop all drops {them} too.")
    return " ".join(said)


def renewed(turn: str | None, dropped: int) -> str:
    said = ["This is a fresh conversation."]
    if turn:
        said.append("What was running was ended.")
    if dropped:
        said.append(f"{count_of_messages(dropped)} that waited {'was' if dropped == 1 else 'were'} dropped.")
    return " ".join(said)


def usage(form: str, got: str) -> str:
    return f"Write it as {form}; I do not understand {got!r}."


NOTHING_HERE = "Nothing has happened here yet."


OVER = "That work is over: nothing is left of it to go on with, or to give up."


RESUMED = {
    "turn": "Going on.",
    "session": "That conversation is here again, and goes on.",
    "running": "It is running already, or something else is; /status tells.",
    "nothing": "There is nothing to resume here.",
    "over": OVER,
    "unknown": "I know no conversation with that id; /sessions lists them.",
}


def dropped(gave_up: bool) -> str:
    return "Given up." if gave_up else "There is nothing interrupted here to give up."


JUDGED = {
    "approved": "Approved.",
    "denied": "Denied; it is not run.",
    "late": "That comes too late: it is not run.",
    "nothing": "Nothing waits for your approval here.",
}


NO_GATEWAY = "No gateway is running here now; what is under way is taken up at the next start."


RESUME_PAUSED = "Automatic resume is paused: the gateway keeps crashing. `perdure resume --all` lifts that."


RESTARTING = "Restarting. I will tell you here when I am back."


RESTART_UNDER_WAY = "A stop or restart is under way already."


RESTARTED_SINCE = "The gateway was restarted after you asked, so I did not do it again."


NOT_ALLOWED = "You may not do that."


BACK = "I am back."

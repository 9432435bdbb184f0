"""Every sentence that people or models see from us, in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

CAUSES = {
    "restart_timeout": "a gateway restart",
    "shutdown_timeout": "a gateway shutdown",
}


def cause_of(reason: str) -> str:
    """The reason of an interruption in words."""
    return CAUSES.get(reason, "a gateway interruption")


def times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def ago(milliseconds: int) -> str:
    """A length of time in one unit, never in a coarser one than a person would use."""
    seconds = max(0, milliseconds) // 1000
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


# ── to the model ────────────────────────────────────────────────────────────────────────────────────────────


SYSTEM_PROMPT = (
    "You are a capable and friendly assistant in a chat. Answer briefly and plainly, in the language of the "
    "person you talk with. Use your tools when they help, and tell what you did with them. When you do not "
    "know something, or could not do it, say so."
)


GOING_ON = (
    "Steps that have a result are finished: use their results, do not repeat them. "
    "Carry on with the task; do not merely announce that you are back."
)


def recovery_note(reason: str, known: Sequence[str] = (), *, joined: bool = False) -> str:
    said = [f"This turn was cut off by {cause_of(reason)} and now goes on.", GOING_ON, *known]
    if joined:
        said.append("The user has written again meanwhile: finish what was begun, then answer that too.")
    return _gateway_note(said)


def failed_note(reason: str, known: Sequence[str] = ()) -> str:
    left = f"The turn before this one was cut off by {cause_of(reason)}, went on, and then failed."
    use = "Steps that have a result are finished: use their results, do not repeat them."
    return _gateway_note([left, use, *known, "Answer the new message, and mention the rest if it matters."])


def superseded_note(known: Sequence[str] = ()) -> str:
    left = "The work before this message was cut off and left unfinished."
    return _gateway_note([left, *known, "Answer the new message, and mention the rest if it matters."])


def _gateway_note(said: Sequence[str]) -> str:
    return f"[Gateway note: {' '.join(said)}]"


def call(tool: str, arguments: Mapping[str, Any]) -> str:
    """A call as one would write it."""
    return f"{tool}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"


def in_doubt(call: str) -> str:
    return f"{call} was cut off: its outcome is unknown, and it may have run; look before you repeat it."


def run_again(call: str) -> str:
    return f"{call} was cut off and is run again."


def not_run_again(call: str) -> str:
    return f"{call} was cut off and has no result; it may be repeated."


UNANSWERED_RESULTS = (
    "[Gateway note: The turn before ended with tool results that nobody has answered. Take them into account.]"
)


def wordless(*files: str) -> str:
    """Stands in for a message without text."""
    return f"[a message without words, with: {', '.join(files)}]" if files else "[a message without words]"


NOT_ANSWERED = "not answered: the user wrote something else instead."
OUTCOME_UNKNOWN = "outcome unknown: this call was cut off; it may have run. Look before you repeat it."
CANCELLED_CALL = "cancelled: the turn ended before this call gave a result."


def unknown_tool(tool: str, known: list[str]) -> str:
    return f"there is no tool named {tool!r}; the tools are: {', '.join(known) or 'none'}"


def tool_failed(error: BaseException) -> str:
    return f"the tool failed: {type(error).__name__}: {error}"


# ── to people ───────────────────────────────────────────────────────────────────────────────────────────────


def turn_failed(error: str) -> str:
    return f"I could not finish this: {error}"


def question(text: str, options: Sequence[str]) -> str:
    return f"{text}\n({' / '.join(options)})" if options else text


AGENT_CRASHED = "something went wrong inside the agent. The details are in the gateway's log."


def too_many_steps(limit: int) -> str:
    return f"I stopped after {limit} steps without reaching an answer. Ask again, perhaps for something smaller."


def recovery_cost(tokens: int, limit: int) -> str:
    return (
        f"it was cut off and went on by itself, and has used {tokens} tokens, of which {limit} were allowed. "
        "Write again if it should be taken up."
    )


def maybe_duplicate(text: str) -> str:
    return f"{text}\n\n(This may be a duplicate: the first try was not confirmed.)"


DROPPED_REPLY = (
    "An earlier reply may not have arrived: the platform did not confirm it, and it was not sent again."
)


def queue_full(cap: int) -> str:
    return f"{cap} messages are waiting here already, so this one was not taken. Send it again a little later."


def too_old(count: int) -> str:
    messages = "1 message was" if count == 1 else f"{count} messages were"
    return f"{messages} too old to answer when I came back. Send again whatever still matters."


# ── the offline model ───────────────────────────────────────────────────────────────────────────────────────

OFFLINE_GREETING = (
    "Hello! I am the offline model: I run scripts, not thoughts, so that you can try Perdure without a key.\n"
    "Send me lines such as these, and kill the gateway while they run:\n"
    "    step research 2s\n"
    "    once send-invoice 2s\n"
    "    parallel: a, b, c\n"
    "    ask: Which way? | Left | Right\n"
    "    say: All done."
)


def not_built(action: str) -> str:
    return f"The offline model knows `{action}`, but this version of Perdure has no tool for it yet."


NO_NAMES = "`parallel:` wants names, such as: parallel: a, b, c"
NOTHING_TO_SAY = "Done."


def bad_flood(size: str) -> str:
    return f"`flood:` wants a number of characters, such as: flood: 5000 (it got {size!r})"


# ── commands ────────────────────────────────────────────────────────────────────────────────────────────────


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count} messages"


def unknown_command(name: str, meant: str | None) -> str:
    guess = f" Did you mean /{meant}?" if meant else ""
    return f"There is no command /{name}.{guess} /help lists them all."


def stopped(turn: str | None, waiting: int, dropped: int, withdrawn: int) -> str:
    said = ["Stopped." if turn or withdrawn else "Nothing was running."]
    if dropped:
        said.append(f"{_messages(dropped)} that waited {'was' if dropped == 1 else 'were'} dropped.")
    if waiting:
        them, are = ("it", "is") if waiting == 1 else ("them", "are")
        said.append(f"{_messages(waiting)} {are} still waiting; /stop all drops {them} too.")
    return " ".join(said)


def renewed(turn: str | None, dropped: int) -> str:
    said = ["This is a fresh conversation."]
    if turn:
        said.append("What was running was ended.")
    if dropped:
        said.append(f"{_messages(dropped)} that waited {'was' if dropped == 1 else 'were'} dropped.")
    return " ".join(said)


def usage(form: str, got: str) -> str:
    return f"Write it as {form}; I do not understand {got!r}."


NOTHING_HERE = "Nothing has happened here yet."

RESUMED = {
    "turn": "Going on.",
    "session": "That conversation is here again, and goes on.",
    "running": "It is running already, or something else is; /status tells.",
    "nothing": "There is nothing to resume here.",
    "unknown": "I know no conversation with that id; /sessions lists them.",
}


def dropped(gave_up: bool) -> str:
    return "Given up." if gave_up else "There is nothing interrupted here to give up."


NO_GATEWAY = "No gateway is running here now; what is under way is taken up at the next start."
RESUME_PAUSED = "Automatic resume is paused: the gateway keeps crashing. `perdure resume --all` lifts that."
RESTARTING = "Restarting. I will tell you here when I am back."
RESTART_UNDER_WAY = "A stop or restart is under way already."
RESTARTED_SINCE = "The gateway was restarted after you asked, so I did not do it again."
NOT_ALLOWED = "You may not do that."
BACK = "I am back."


# ── stopping, starting ──────────────────────────────────────────────────────────────────────────────────────


def banner(*, restart: bool) -> str:
    doing = "restarting" if restart else "shutting down"
    return f"I am {doing}. What I am working on here may be cut off; I will try to resume it when I am back."


def kept_for_later(*, restart: bool) -> str:
    doing = "restarting" if restart else "shutting down"
    return f"I am {doing}. Your message is kept, and answered when I am back."


def ask_to_resume(reason: str) -> str:
    return f"What I was doing here was cut off by {cause_of(reason)}. Shall I go on? Say /resume or /drop."


def will_not_go_on(why: str, waiting: int = 0) -> str:
    said = f"What I was doing here was cut off, and I do not go on by myself, because {why}."
    offer = "Say /resume to go on, or /drop to give it up."
    behind = f" {_messages(waiting)} {'waits' if waiting == 1 else 'wait'} behind it." if waiting else ""
    return f"{said} {offer}{behind}"


def left_behind(why: str) -> str:
    left = f"What I was doing here was cut off and stays unfinished, because {why}."
    return f"{left} I go on with what you wrote since."


def suspended(why: str) -> str:
    return (
        f"I have set this conversation aside, because {why}. Your next message begins a fresh one; /resume brings "
        "this one back."
    )


def fresh_after_suspension(session: str) -> str:
    return f"This is a fresh conversation; the one before was set aside. /resume {session} brings it back."

"""What people read about messages that wait for their turn."""

from __future__ import annotations

from perdure.core.texts import phrases


def full(cap: int) -> str:
    return (
        f"{_messages_waiting(cap)} here already, so this one was not taken, and neither are those behind "
        "it until I have "
        "caught up. Send them again a little later."
    )


def refused_as_full(cap: int) -> str:
    return f"{_messages_waiting(cap)} already"


def _messages_waiting(count: int) -> str:
    return "1 message is waiting" if count == 1 else f"{count} messages are waiting"


def expired(count: int) -> str:
    messages, them = ("1 message was", "it") if count == 1 else (f"{count} messages were", "them")
    return f"{messages} too old to answer when I got to {them}. Send again whatever still matters."


MODES = {
    "queue": "a message that comes while I work waits for a turn of its own",
    "steer": "a message that comes while I work joins what I am doing, at the next step",
    "interrupt": "a message that comes while I work ends what I am doing, and takes its place",
    "collect": "messages that come while I work wait, and are answered together",
}
USAGE = "/queue [queue | steer | interrupt | collect | TEXT]"
STEER_USAGE = "/steer TEXT"


def status(mode: str, waiting: int) -> str:
    """The mode of a chat, and how many messages wait there."""
    others = [f"/queue {name}" for name in MODES if name != mode]
    waits = (
        phrases.message_count(waiting) + (" waits." if waiting == 1 else " wait.") if waiting else "Nothing waits."
    )
    return f"The mode here is `{mode}`: {MODES[mode]}. {waits} Switch it with {', '.join(others)}."


def mode_changed(mode: str) -> str:
    return f"From now on, {MODES[mode]}. What waits already stays as it is."


def mode_line(mode: str) -> str:
    """One line of `/status`."""
    return f"The mode of the queue is `{mode}`: {MODES[mode]}."


def queued(*, busy: bool, before: int) -> str:
    """The answer to a message that waits for its own turn; empty if the turn begins at once."""
    if not busy and not before:
        return ""
    behind = f", behind {phrases.message_count(before)}" if before else ""
    return f"That waits for a turn of its own{behind}."


def steered(*, busy: bool) -> str:
    return "I take that in at my next step." if busy else ""


STEER_TEXT_MISSING = "Write what I should take in behind it: /steer TEXT."


def not_waiting(*, known: bool) -> str:
    """Why a message cannot be changed."""
    return "this message is not waiting any more" if known else "there is no such message of yours in this chat"

"""What people read of the queue of their messages."""

from __future__ import annotations

from perdure.core.notes.words import count_of_messages

QUEUE_MODES = {
    "queue": "a message that comes while I work waits for a turn of its own",
    "steer": "a message that comes while I work joins what I am doing, at the next step",
    "interrupt": "a message that comes while I work ends what I am doing, and takes its place",
    "collect": "messages that come while I work wait, and are answered together",
}

QUEUE_USAGE = "/queue [queue | steer | interrupt | collect | TEXT]"
STEER_USAGE = "/steer TEXT"


def queue_shown(mode: str, waiting: int) -> str:
    """Which mode a chat is in, and what waits there."""
    others = [f"/queue {name}" for name in QUEUE_MODES if name != mode]
    waits = count_of_messages(waiting) + (" waits." if waiting == 1 else " wait.") if waiting else "Nothing waits."
    return f"The mode here is `{mode}`: {QUEUE_MODES[mode]}. {waits} Switch it with {', '.join(others)}."


def queue_switched(mode: str) -> str:
    return f"From now on, {QUEUE_MODES[mode]}. What waits already stays as it is."


def queue_line(mode: str) -> str:
    """One line of `/status`."""
    return f"The mode of the queue is `{mode}`: {QUEUE_MODES[mode]}."


def queued(*, busy: bool, before: int) -> str:
    """The answer to words that wait for a turn of their own; none if that begins at once."""
    if not busy and not before:
        return ""
    behind = f", behind {count_of_messages(before)}" if before else ""
    return f"That waits for a turn of its own{behind}."


def steered(*, busy: bool) -> str:
    return "I take that in at my next step." if busy else ""


STEER_WHAT = "Write what I should take in behind it: /steer TEXT."


def not_waiting(*, known: bool) -> str:
    """Why a message cannot be changed."""
    return "this message is not waiting any more" if known else "there is no such message of yours in this chat"

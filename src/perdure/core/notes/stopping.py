"""What chats are told when the gateway stops, and starts again."""

from __future__ import annotations

from perdure.core.notes.words import cause_of, count_of_messages


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
    behind = f" {count_of_messages(waiting)} {'waits' if waiting == 1 else 'wait'} behind it." if waiting else ""
    return f"{said} {offer}{behind}"


def decided_for_people(decision: str, why: str) -> str:
    """What was decided about a turn that was cut off, for its chat; nothing where what happens next says it."""
    said = {
        "skip": f"It does not go on by itself, because {why}.",
        "ask_user": "It waits for your word: /resume goes on with it, /drop gives it up.",
        "wait_for_platform": "It goes on once its platform is connected.",
        "suspend": f"The conversation was set aside, because {why}.",
    }
    return said.get(decision, "")


def ask_again(*, fresh: bool) -> str:
    """Before a question that was answered, when its answer cannot be acted on after a restart."""
    why = "whoever answered may no longer do so here" if fresh else "the answer came too long ago"
    return f"I was restarted before I could act on the answer to this, and {why}. Please answer it again."


SLOT_AGAIN = "what it waited for has ended, and it may go on"


def waits_for_slot(ahead: int, *, alone: bool) -> str:
    """What comes next for a turn that goes on by itself, but not at once, because so many others do."""
    before = {0: "no other turn is ahead of it", 1: "1 other turn is ahead of it"}
    line = before.get(ahead, f"{ahead} other turns are ahead of it")
    message = "brings it to the head of the line" if alone else "or /resume goes on with it at once"
    why = "only so many turns go on by themselves at a time"
    return f"it waits for a slot, because {why}; {line}. A message here {message}."


def left_behind(why: str) -> str:
    left = f"What I was doing here was cut off and stays unfinished, because {why}."
    return f"{left} I go on with what you wrote since."


def suspended(why: str) -> str:
    return (
        f"I have set this conversation aside, because {why}. Your next message begins a fresh one; /resume brings "
        "this one back."
    )


def fresh_after_reset(reason: str, session: str) -> str:
    why = "a new day has begun" if reason == "daily" else "nothing was said here for long"
    return f"This is a fresh conversation, because {why}. /resume {session} brings the one before back."


def fresh_after_suspension(session: str) -> str:
    return f"This is a fresh conversation; the one before was set aside. /resume {session} brings it back."

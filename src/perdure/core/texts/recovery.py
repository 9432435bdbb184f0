"""What people and operators read about interrupted turns, and what the model reads in the recovery note."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.core.exit_report import signal_name
from perdure.core.texts import phrases, recovery

NO_GATEWAY = "No gateway is running here now; what is under way is taken up at the next start."
RESUME_PAUSED = "Automatic resume is paused: the gateway keeps crashing. `perdure resume --all` lifts that."
RESTARTING = "Restarting. I will tell you here when I am back."
RESTART_UNDER_WAY = "A stop or restart is under way already."
RESTARTED_SINCE = "The gateway was restarted after you asked, so I did not do it again."
BACK = "I am back."
# Which line of the recovery table spoke, in words.
RULES = {
    "final_answer": "The answer was written already",
    "nothing_done": "Nothing was asked and nothing was done",
    "not_open": "The session is not open",
    "question": "It waits for a person's answer",
    "no_address": "There is nowhere to answer to",
    "reason": "After such an interruption nothing goes on by itself",
    "unauthorised": "The sender may not talk here any more",
    "stale": "It is too old",
    "no_progress": "It was interrupted again and again without progress",
    "too_often": "It was interrupted too often",
    "tokens": "Its cost limit is reached",
    "off": "Automatic resume is switched off here",
    "paused": "Automatic resume is paused",
    "not_connected": "Its platform is not connected",
    "ask": "The policy is to ask first",
    "resume": "It was interrupted and can continue",
    "person": "A person asked for it",
    "message": "A message came, and joined it",
}
CHOICES = {
    "resume": "Go on",
    "deliver": "Deliver the answer",
    "clear": "Clear the mark",
    "wait_for_user": "Wait for the answer",
    "ask_user": "Ask first",
    "wait_for_platform": "Wait for the platform",
    "skip": "Leave it as it is",
    "suspend": "Suspend the session",
}
WITHOUT_GATEWAY = "no gateway"  # somebody saw it die
NO_SIGN_OF_LIFE = "no sign of life"  # nobody saw it die


def downtime(exit_words: str | None, reason: str) -> str:
    """What is known of the time between the end of a gateway and the start that found the interrupted turn."""
    if reason in CAUSES:
        return f"interrupted by {CAUSES[reason]} ({reason})"
    known = f"{exit_words}; {WITHOUT_GATEWAY}" if exit_words else NO_SIGN_OF_LIFE
    return f"{known} until it was found ({reason})"


def process_exit(exit_code: int | None) -> str | None:
    """How a process of the gateway died, in words; None if nobody saw it die."""
    if exit_code is None:
        return None
    return f"exited with {exit_code}" if exit_code >= 0 else f"killed by {signal_name(-exit_code)}"


def banner(*, restart: bool) -> str:
    doing = "restarting" if restart else "shutting down"
    return f"I am {doing}. What I am working on here may be cut off; I will try to resume it when I am back."


def message_stored(*, restart: bool) -> str:
    doing = "restarting" if restart else "shutting down"
    return f"I am {doing}. Your message is kept, and answered when I am back."


def ask_to_resume(reason: str) -> str:
    return f"My work here is unfinished because of {cause(reason)}. Shall I continue? Say /resume or /drop."


def not_resumed(why: str, waiting: int = 0) -> str:
    held = f"My work here was interrupted, and I do not continue by myself, because {why}."
    offer = "Say /resume to continue, or /drop to give it up."
    behind = (
        f" {phrases.message_count(waiting)} {'waits' if waiting == 1 else 'wait'} behind it." if waiting else ""
    )
    return f"{held} {offer}{behind}"


def decision(decision: str, why: str) -> str:
    """The decision about an interrupted turn, for its chat; empty where the next event says it."""
    sentences = {
        "skip": f"It does not go on by itself, because {why}.",
        "ask_user": "It waits for your word: /resume goes on with it, /drop gives it up.",
        "wait_for_platform": "It goes on once its platform is connected.",
        "suspend": f"The conversation was suspended, because {why}.",
    }
    return sentences.get(decision, "")


def ask_again(*, fresh: bool) -> str:
    """Stands before a question whose answer cannot be acted on after a restart."""
    why = "whoever answered may no longer do so here" if fresh else "the answer came too long ago"
    return f"I was restarted before I could act on the answer to this, and {why}. Please answer it again."


SLOT_FREE = "what it waited for has ended, and it may go on"


def waits_for_slot(ahead: int, *, alone: bool) -> str:
    """Why a turn that resumes by itself does not do so at once, and what a message here does."""
    before = {0: "no other turn is ahead of it", 1: "1 other turn is ahead of it"}
    line = before.get(ahead, f"{ahead} other turns are ahead of it")
    message = "brings it to the head of the line" if alone else "or /resume goes on with it at once"
    why = "only so many turns go on by themselves at a time"
    return f"it waits for a slot, because {why}; {line}. A message here {message}."


def left_unfinished(why: str) -> str:
    left = f"My work here was interrupted and stays unfinished, because {why}."
    return f"{left} I continue with what you wrote since."


def suspended(why: str) -> str:
    return (
        f"I have suspended this conversation, because {why}. Your next message begins a fresh one; /resume brings "
        "this one back."
    )


def new_session_after_reset(reason: str, session: str) -> str:
    why = "a new day has begun" if reason == "daily" else "nothing was said here for long"
    return f"This is a fresh conversation, because {why}. /resume {session} brings the one before back."


def new_session_after_suspension(session: str) -> str:
    return f"This is a fresh conversation; the one before was suspended. /resume {session} brings it back."


CAUSES = {
    "restart_timeout": "a gateway restart",
    "shutdown_timeout": "a gateway shutdown",
}


def cause(reason: str) -> str:
    """The reason of an interruption in words."""
    return CAUSES.get(reason, "a gateway interruption")


# ── why an interrupted turn goes on or not: these words are journalled with the decision ────────────────────

WHY_FINAL_ANSWER = "the final answer is written; only its delivery is owed"
WHY_NOTHING_DONE = "nothing was asked and nothing was done"
WHY_QUESTION = "it waits for an answer from a person"
WHY_NO_ADDRESS = "there is no address to answer to"
WHY_UNAUTHORISED = "the sender is no longer authorised"
WHY_OFF = "automatic resume is switched off here"
WHY_PAUSED = "automatic resume is paused: the gateway keeps crashing"
WHY_NOT_CONNECTED = "its platform is not connected yet"
WHY_ASK = "the policy here is to ask first"


def why_not_open(session_state: str) -> str:
    return f"the session is {session_state}"


def why_stale(age_ms: int | None, limit_ms: int) -> str:
    seen = (
        "no sign of life is known"
        if age_ms is None
        else f"the last sign of life was {phrases.duration(age_ms)} ago"
    )
    return f"it is too old: {seen}, and the limit is {phrases.duration(limit_ms)}"


def why_no_progress(interruptions: int) -> str:
    return f"it was interrupted {phrases.times(interruptions)} in a row without progress"


def why_too_often(interruptions: int) -> str:
    return f"it was interrupted {phrases.times(interruptions)} in all"


def why_tokens(used: int, limit: int) -> str:
    return f"its cost limit is reached: {used} of {limit} tokens"


def why_reason(reason: str | None) -> str:
    return f"after {reason!r} nothing goes on by itself"


def why_resume(tail: str) -> str:
    return f"it ends with {tail} and may go on"


def heartbeats_missed(seconds: float) -> str:
    return (
        f"no heartbeat was recorded for {seconds:.0f} s: until one is, nothing new begins here, and this gateway "
        "takes over from no other"
    )


DAMAGED_INSTANCE_HINT = (
    "Delete the file: the gateway then gets a new id, and does not know the commands that it has left running."
)
COPIED_HOME_HINT = (
    "Stop the other gateway, if this one is to take its place. If both are to run, delete the file `instance` in "
    "this home: then it is a gateway of its own."
)


def damaged_instance(path: str) -> str:
    return f"{path} is damaged: it does not hold the id of a gateway"


def copied_home(home: str, run: str) -> str:
    return f"another gateway lives with the id of this home, at {home} (run {run}): one of the two homes is a copy"


NOTE_FINISHED_STEPS = "Steps that have a result are finished: use their results, do not repeat them."
NOTE_CARRY_ON = "Carry on with the task; do not merely announce that you are back."
NOTE_FIRST_LINE = "Begin your answer with one line that says what had been accomplished before the interruption."


NOTE_STAYED_BEHIND = (
    "This conversation was moved to another machine. Files that were made, and commands that were begun, on the "
    "machine before stayed there, and cannot be seen from here: look what is here before you rely on it."
)


def note_resumed(
    reason: str, known: Sequence[str] = (), *, finished: bool = False, joined: bool = False, late: str = ""
) -> str:
    """The note about an interruption; `finished`: a step had ended before it; `late`: the age of a reply."""
    said = [f"This turn was cut off by {recovery.cause(reason)} and now goes on."]
    said += [NOTE_FINISHED_STEPS, NOTE_CARRY_ON, NOTE_FIRST_LINE] if finished else [NOTE_CARRY_ON]
    said += known
    if joined:
        said.append("The user has written again meanwhile: finish what was begun, then answer that too.")
    return phrases.gateway_note([*said, late] if late else said)


def note_failed(reason: str, known: Sequence[str] = (), *, finished: bool = False) -> str:
    left = f"The turn before this one was cut off by {recovery.cause(reason)}, went on, and then failed."
    use = [NOTE_FINISHED_STEPS] if finished else []
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


def note_superseded(known: Sequence[str] = ()) -> str:
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

"""What whoever runs the gateway reads of replies, decisions and the verbs."""

from __future__ import annotations

from perdure.core.deaths import signal_name
from perdure.core.notes.words import CAUSES

DROPPED_BY_OPERATOR = "an operator dropped it"

# What a row of the outbox waits for, or what became of it, and what to do.
DELIVERIES = {
    "owed": "It goes out as soon as its turn in the chat has come and the platform takes it. Nothing to do.",
    "sending": "It is on its way right now.",
    "sent": "It has arrived, and the platform has given a receipt.",
    "unknown": (
        "Nobody knows whether it arrived: the platform never confirmed it. It is resolved by itself once the "
        "platform is there; resend it now, or drop it."
    ),
    "refused": "The platform would not take it. Resend it once the reason is gone.",
    "expired": "It was given up. Resend it if it still matters.",
    "withdrawn": "It was taken back before it was confirmed. Resend it if it should go out after all.",
}

# Which line of the recovery table spoke, in words.
RULES = {
    "final_answer": "The answer was written already",
    "nothing_done": "Nothing was asked and nothing was done",
    "not_open": "The session is not open",
    "question": "It waits for a person's answer",
    "no_address": "There is nowhere to answer to",
    "reason": "Its reason is not one to go on after",
    "unauthorised": "The sender may not talk here any more",
    "stale": "It is too old",
    "no_progress": "It was cut off again and again without progress",
    "too_often": "It was cut off too often",
    "tokens": "Its cost limit is reached",
    "off": "Automatic resume is switched off here",
    "paused": "Automatic resume is paused",
    "not_connected": "Its platform is not connected",
    "ask": "The policy is to ask first",
    "resume": "Nothing stands against going on",
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
    "suspend": "Set the session aside",
}


NO_GATEWAY_THEN = "no gateway"  # somebody saw it die
NO_SIGN_OF_LIFE = "no sign of life"  # nobody saw it die


def until_found(exit_words: str | None, reason: str) -> str:
    """What is known of the time between the end of a gateway and the start that found what was cut off."""
    if reason in CAUSES:
        return f"cut off by {CAUSES[reason]} ({reason})"
    known = f"{exit_words}; {NO_GATEWAY_THEN}" if exit_words else NO_SIGN_OF_LIFE
    return f"{known} until it was found ({reason})"


def how_it_died(exit_code: int | None) -> str | None:
    """How a process of the gateway died, in words; None if nobody saw it die."""
    if exit_code is None:
        return None
    return f"exited with {exit_code}" if exit_code >= 0 else f"killed by {signal_name(-exit_code)}"


def resent_as(row: str) -> str:
    return f"an operator sent it again as {row}"


def mended(what: str, state: str, again: str | None) -> str:
    """What came of a resend or drop, for the person who asked for it."""
    said = {
        "hurried": "It is tried again now.",
        "due": "It is due already, and goes out as soon as its platform takes it.",
        "again": f"It is sent again as {again}.",
        "before": f"It was sent again before, as {again}.",
        "dropped": "Dropped: it will not be sent.",
        "refused": MENDED_TOO_LATE.get(state, f"It is {state}: there is nothing left to do."),
    }
    return said[what]


MENDED_TOO_LATE = {
    "sending": "It is being sent right now; look again in a moment.",
    "sent": "It has arrived, so there is nothing to do.",
}


# ── what needs somebody ─────────────────────────────────────────────────────────────────────────────────────

ALL_IS_WELL = "Nothing waits for you. Conversations go on by themselves."
NOT_GOING_ON = "A turn was cut off and does not go on by itself"
NOT_DECIDED_YET = "it is decided about once its platform is connected"
SET_ASIDE_HERE = "This session was set aside"
SET_ASIDE_MEANS = "The next message begins a fresh one; resume brings this one back."
CALL_WAITS = "A call waits for approval"
QUESTION_WAITS = "A question waits for an answer"
QUESTION_WAITS_THERE = f"{QUESTION_WAITS} in the chat"
SOMEBODY_ASKS = "Somebody asks to be let in"
SEND_UNKNOWN = "Nobody knows whether this reply arrived"
SEND_FAILED = "A reply was not delivered"


def not_connected(platform: str) -> str:
    return f"{platform} is not connected"


def tried_again(problem: str) -> str:
    return f"{problem}. It is tried again by itself."


# What stands above a page that cannot be shown, by its status.
NOT_SHOWN = {
    400: "That cannot be shown",
    404: "That is not here",
    503: "The gateway cannot look now",
}

# What an act is, before it is done: the button, the question, and what will come of it.
ASKED_BEFORE = {
    "resume": ("Resume", "Go on with this?", "What was cut off or set aside goes on from where it was."),
    "bring_back": (
        "Bring back",
        "Bring this session back?",
        "Its chat goes on with it; the session that is there now is put away, and can be brought back too.",
    ),
    "drop": ("Drop", "Give this up?", "The interrupted turn ends for good. Messages that wait are answered next."),
    "stop": ("Stop", "Stop this turn?", "It ends for good, and what was not sent yet is taken back."),
    "suspend": (
        "Suspend",
        "Set this session aside?",
        "It does not go on by itself; the next message begins a new one.",
    ),
    "resend": ("Resend", "Send this again?", "If an earlier try may have arrived, the message says so."),
    "drop_reply": (
        "Drop",
        "Give this reply up?",
        "It will not be sent. What waits behind it in the chat goes out.",
    ),
    "approve": ("Approve", "Let this call run?", "It runs once, as it is shown here."),
    "deny": ("Deny", "Deny this call?", "It does not run; the agent is told so and goes on."),
    "answer": ("Answer", "Give this answer?", "It counts as if it were given in the chat, and the work goes on."),
    "resume_all": (
        "Let everything go on",
        "Lift the pause?",
        "Every interrupted turn is decided about anew, now.",
    ),
    "pair": ("Pair", "Let them in?", "They may talk to the agent from now on; you can remove them later."),
    "remove": ("Remove", "Remove this person?", "What they wrote and still waits is not answered any more."),
}

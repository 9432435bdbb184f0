"""What the console says about sessions, questions and replies that need somebody."""

from __future__ import annotations

# ── what needs somebody ─────────────────────────────────────────────────────────────────────────────────────

NOTHING_WAITS = "Nothing waits for you. Conversations go on by themselves."
TURN_INTERRUPTED = "A turn was interrupted and does not go on by itself"
NOT_DECIDED_YET = "it is decided about once its platform is connected"
SESSION_SUSPENDED = "This session was suspended"
SESSION_SUSPENDED_ADVICE = "The next message begins a fresh one; resume brings this one back."
APPROVAL_WAITS = "A call waits for approval"
QUESTION_WAITS = "A question waits for an answer"
QUESTION_WAITS_IN_CHAT = f"{QUESTION_WAITS} in the chat"
PAIRING_REQUESTED = "Somebody asks to be let in"
REPLY_UNKNOWN = "Nobody knows whether this reply arrived"
REPLY_NOT_DELIVERED = "A reply was not delivered"
# What stands above a page that cannot be shown, by its status.
ERROR_TITLES = {
    400: "That cannot be shown",
    404: "That is not here",
    503: "The gateway cannot look now",
}
# What an act is, before it is done: the button, the question, and what will come of it.
ACTIONS = {
    "resume": ("Resume", "Go on with this?", "What was interrupted or suspended goes on from where it was."),
    "bring_back": (
        "Bring back",
        "Bring this session back?",
        "Its chat goes on with it; the session that is there now is closed, and can be brought back too.",
    ),
    "drop": ("Drop", "Give this up?", "The interrupted turn ends for good. Messages that wait are answered next."),
    "stop": ("Stop", "Stop this turn?", "It ends for good, and what was not sent yet is taken back."),
    "suspend": (
        "Suspend",
        "Suspend this session?",
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
    "drain": (
        "Drain",
        "Drain this gateway, and stop it?",
        "Others take over what it receives and its chats. It ends its turns and stays down.",
    ),
    "pair": ("Pair", "Let them in?", "They may talk to the agent from now on; you can remove them later."),
    "remove": ("Remove", "Remove this person?", "What they wrote and still waits is not answered any more."),
}

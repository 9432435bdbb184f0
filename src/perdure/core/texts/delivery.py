"""What people and operators read about replies: their states, duplicates, and replies that were not sent."""

from __future__ import annotations

from perdure.core.delivery import fitting_length

INTERNAL_ERROR = "something went wrong inside the gateway while it was sent; its log says what"
DROPPED_BY_OPERATOR = "an operator dropped it"
# What a row of the outbox waits for, or what became of it, and what to do.
STATE_ADVICE = {
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


def resent_as(row: str) -> str:
    return f"an operator sent it again as {row}"


def verb_result(what: str, state: str, again: str | None) -> str:
    """The result of a resend or drop, for the operator who asked for it."""
    results = {
        "hurried": "It is tried again now.",
        "due": "It is due already, and goes out as soon as its platform takes it.",
        "again": f"It is sent again as {again}.",
        "before": f"It was sent again before, as {again}.",
        "dropped": "Dropped: it will not be sent.",
        "refused": VERB_TOO_LATE.get(state, f"It is {state}: there is nothing left to do."),
    }
    return results[what]


VERB_TOO_LATE = {
    "sending": "It is being sent right now; look again in a moment.",
    "sent": "It has arrived, so there is nothing to do.",
}


def maybe_duplicate(text: str) -> str:
    return f"{text}\n\n(This may be a duplicate: the first try was not confirmed.)"


def preview(text: str, limit: int | None) -> str:
    """An unfinished answer with its mark, shortened to the limit of one message."""
    mark = " …"
    return f"{text if limit is None else text[: fitting_length(text, limit - len(mark))]}{mark}"


PREVIEW_UNFINISHED = "(What stood here was not finished.)"
REPLY_EXPIRED = (
    "An earlier answer could not be delivered in time, and is too old to be sent now. Ask again if you need it."
)
REPLY_DROPPED = (
    "An earlier reply may not have arrived: the platform did not confirm it, and it was not sent again."
)

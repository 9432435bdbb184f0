"""Rules of delivery: delivery keys, the parts of a long reply, the retry schedule, and unknown sends."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Literal

from perdure.core.address import join_parts
from perdure.core.backoff import backoff_delay

MIN_RETRY_MS = 1_000
MAX_RETRY_MS = 300_000

# Where a long reply may be split, best first: after a paragraph, a line, a sentence, a word.
_CUT_PATTERNS = tuple(re.compile(cut) for cut in (r"\n{2,}", r"\n", r"(?<=[.!?…])\s", r"\s"))

UnknownSendPolicy = Literal["resend", "drop"]


class DeliveryState(StrEnum):
    """The states of an outbox row."""

    OWED = "owed"
    SENDING = "sending"
    SENT = "sent"
    UNKNOWN = "unknown"
    REFUSED = "refused"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"


OPEN_DELIVERY_STATES = (DeliveryState.OWED, DeliveryState.SENDING, DeliveryState.UNKNOWN)


class OutboxVerb(StrEnum):
    """What an operator may do with a row of the outbox."""

    RESEND = "resend"
    DROP = "drop"


# A row that was sent stays as it is, and a row that is being sent keeps its outcome.
OUTBOX_VERBS: dict[DeliveryState, tuple[OutboxVerb, ...]] = {
    DeliveryState.OWED: (OutboxVerb.RESEND, OutboxVerb.DROP),  # resending an owed row means sending it now
    DeliveryState.SENDING: (),
    DeliveryState.SENT: (),
    DeliveryState.UNKNOWN: (OutboxVerb.RESEND, OutboxVerb.DROP),
    DeliveryState.REFUSED: (OutboxVerb.RESEND,),
    DeliveryState.EXPIRED: (OutboxVerb.RESEND,),
    DeliveryState.WITHDRAWN: (OutboxVerb.RESEND,),
}


class Resolution(StrEnum):
    """How an unknown send is resolved."""

    SAME_KEY = "send again with the same key"
    READ_BACK = "look whether it is there"
    RESEND = "send again with a visible mark"
    DROP = "drop it with a notice"


# What the outbox records about a reply that may have arrived before: how the unknown send was resolved.
RESOLUTION_REMARKS = {
    Resolution.SAME_KEY: "its outcome was unknown; sent again with the same key",
    Resolution.READ_BACK: "its outcome was unknown; looked up",
    Resolution.RESEND: "its outcome was unknown; sent again with a mark",
    Resolution.DROP: "its outcome stayed unknown; dropped as configured",
}


def delivery_key(turn: str, part: int) -> str:
    """The key of one part of one reply, the same for every try."""
    return join_parts(turn, str(part))


def retry_delay_ms(attempts: int) -> int:
    """Milliseconds to wait after that many failed tries: doubling, up to five minutes."""
    return int(backoff_delay(attempts, first=MIN_RETRY_MS, longest=MAX_RETRY_MS))


def resolve_unknown_send(*, idempotent: bool, read_back: bool, policy: UnknownSendPolicy) -> Resolution:
    """How to resolve an unknown send: what the platform can find out comes before the operator's preference."""
    if idempotent:
        return Resolution.SAME_KEY
    if read_back:
        return Resolution.READ_BACK
    return Resolution.RESEND if policy == "resend" else Resolution.DROP


def split_reply(text: str, limit: int | None) -> list[str]:
    """Split a reply into parts of at most `limit` UTF-16 units, at the best positions; only blanks are lost."""
    parts = []
    rest = text.replace("\x00", "").strip()  # nobody can see a zero byte
    while limit is not None and (room := fitting_length(rest, limit)) < len(rest):
        end, start = _cut_position(rest, room)
        parts.append(rest[:end].rstrip())
        rest = rest[start:].lstrip()
    return [*parts, rest] if rest or not parts else parts


def fitting_length(text: str, limit: int) -> int:
    """How many characters of a text, at least one, fit into so many UTF-16 units.

    The strictest platforms count UTF-16 units; for the others such a part is never too long.
    """
    beginning = text[:limit]
    if beginning.isascii():
        return len(beginning)
    room = limit
    for count, char in enumerate(beginning):
        room -= 2 if char > "\uffff" else 1
        if room < 0:
            return max(count, 1)
    return len(beginning)


def _cut_position(text: str, limit: int) -> tuple[int, int]:
    """Where the first part ends and where the rest starts."""
    for cut in _CUT_PATTERNS:
        places = [place for place in cut.finditer(text, limit // 4, limit + 1) if text[: place.start()].strip()]
        if places:
            return places[-1].start(), places[-1].end()
    return limit, limit

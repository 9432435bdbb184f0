"""What a message does that finds its conversation busy, and which of those that wait make up the next turn."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Literal, get_args

from msgspec import Struct

from perdure.core.turn import TurnState

QueueMode = Literal["queue", "steer", "interrupt", "collect"]
QUEUE_MODE_NAMES: tuple[QueueMode, ...] = get_args(QueueMode)

NO_CAP = 1 << 62


class QueueRules(Struct, frozen=True):
    """How a gateway queues. The defaults hold nothing back: they are for those who only store and claim."""

    mode: QueueMode = "queue"  # where a conversation has none of its own
    cap: int = NO_CAP  # messages that may wait in one conversation
    quiet_ms: int = 0  # how long nothing more must come before a turn of several messages begins
    max_age_ms: int = 0  # a message that was sent longer ago is not answered; 0: it is, at any age
    await_files: bool = False  # whether a message waits until its files are here, or will not come

    def too_old_before(self, now: int) -> int:
        """What was sent before this moment is too old to be answered."""
        return now - self.max_age_ms if self.max_age_ms else 0


class Fate(StrEnum):
    """What became of an event that came in."""

    WAITS = "waits"  # for its turn, or to be carried out
    FULL = "full"  # not taken: too many wait
    EXPIRED = "expired"  # too old to be answered
    CHANGED = "changed"  # the message that it is about has other words now
    DELETED = "deleted"  # the message that it is about is gone
    TOO_LATE = "too late"  # the message that it is about does not wait any more
    NOT_YOURS = "not yours"  # the question that it answers is asked in a conversation of others
    ERASED = "erased"  # it was here once, and must not come back
    UNKNOWN = "unknown"  # its sender has written no such message here


def interrupts_turn(mode: QueueMode | None, state: TurnState) -> bool:
    """Whether a message ends the turn that it finds. One that waits for a person or was cut off takes it in."""
    return mode == "interrupt" and state in (TurnState.QUEUED, TurnState.RUNNING)


def needs_quiet(mode: QueueMode | None, album: str | None) -> bool:
    """Whether more may belong to a message, so that its turn does not begin at once."""
    return mode == "collect" or album is not None


class WaitingMessage(Struct, frozen=True):
    """A message that waits, as far as the queue looks at it."""

    id: str
    mode: QueueMode | None
    album: str | None
    received_at: int

    @property
    def may_share_turn(self) -> bool:
        """Whether others may belong to the same turn."""
        return self.mode in ("collect", "interrupt") or self.album is not None


def messages_of_next_turn(waiting: Sequence[WaitingMessage]) -> list[WaitingMessage]:
    """The messages that make up the turn of the first: in order, and never past one that wants a turn of its own.

    Only the pictures of an album find each other wherever they stand. What interrupts has no time to be answered
    one by one: all that does so is heard at once.
    """
    first, rest = waiting[0], waiting[1:]
    found, unbroken = [first], True
    for each in rest:
        alike = first.mode in ("collect", "interrupt") and each.mode == first.mode
        unbroken = unbroken and alike
        if unbroken or (first.album is not None and each.album == first.album):
            found.append(each)
    return found


def is_due(turn: Sequence[WaitingMessage], quiet_ms: int, now: int) -> bool:
    """Whether a turn of these messages may begin now. A clock that was set back makes nobody wait."""
    if not any(needs_quiet(each.mode, each.album) for each in turn):
        return True
    return not 0 <= now - max(each.received_at for each in turn) < quiet_ms

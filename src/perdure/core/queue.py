"""Queue rules: what a message does to a busy conversation, and which waiting messages form the next turn."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Literal, get_args

from msgspec import Struct

from perdure.core.states import TurnState

QueueMode = Literal["queue", "steer", "interrupt", "collect"]
QUEUE_MODE_NAMES: tuple[QueueMode, ...] = get_args(QueueMode)

NO_CAP = 1 << 62


class QueueRules(Struct, frozen=True):
    """The queue rules of a gateway. The defaults delay nothing; they are for callers that only store and claim."""

    mode: QueueMode = "queue"  # of a conversation that has no mode of its own
    cap: int = NO_CAP  # the most messages that may wait in one conversation
    quiet_ms: int = 0  # the quiet period before a turn of several messages begins
    max_age_ms: int = 0  # an older message is not answered; 0: no limit
    await_files: bool = False  # whether a message waits until its files were fetched or have failed

    def too_old_before(self, now: int) -> int:
        """The time before which a message is too old to be answered."""
        return now - self.max_age_ms if self.max_age_ms else 0


class Fate(StrEnum):
    """The result of storing an event."""

    WAITS = "waits"  # for its turn, or, a command, to be run
    FULL = "full"  # not stored: too many messages wait
    EXPIRED = "expired"  # too old to be answered
    CHANGED = "changed"  # the text of the edited message was replaced
    DELETED = "deleted"  # the message was deleted
    TOO_LATE = "too late"  # the edited or deleted message no longer waits
    NOT_YOURS = "not yours"  # it answers a question of somebody else's conversation
    ERASED = "erased"  # its message was erased and is not stored again
    UNKNOWN = "unknown"  # its sender has written no such message in this chat


def interrupts_turn(mode: QueueMode | None, state: TurnState) -> bool:
    """Whether a message ends the current turn. A waiting or interrupted turn is joined, not ended."""
    return mode == "interrupt" and state in (TurnState.QUEUED, TurnState.RUNNING)


def needs_quiet(mode: QueueMode | None, album: str | None) -> bool:
    """Whether more messages may belong to this one, so that its turn does not begin at once."""
    return mode == "collect" or album is not None


class WaitingMessage(Struct, frozen=True):
    """A waiting message, with the fields that the queue rules read."""

    id: str
    mode: QueueMode | None
    album: str | None
    received_at: int
    may_join: bool = True  # False: its sender has fewer rights than the person who begins the turn

    @property
    def may_share_turn(self) -> bool:
        """Whether other messages may belong to the same turn."""
        return self.mode in ("collect", "interrupt") or self.album is not None


def messages_of_next_turn(waiting: Sequence[WaitingMessage]) -> list[WaitingMessage]:
    """The messages of the next turn: the first, and those behind it that belong to the same turn.

    Messages of the mode `collect` or `interrupt` belong together up to the first message of another mode, or of
    somebody who may not join; those of an album, wherever they stand in the queue.
    """
    first, rest = waiting[0], waiting[1:]
    found, unbroken = [first], True
    for each in rest:
        alike = first.mode in ("collect", "interrupt") and each.mode == first.mode
        unbroken = unbroken and alike and each.may_join
        same_album = first.album is not None and each.album == first.album
        if unbroken or (same_album and each.may_join):
            found.append(each)
    return found


def is_due(turn: Sequence[WaitingMessage], quiet_ms: int, now: int) -> bool:
    """Whether a turn of these messages may begin now. A clock that was set back delays nothing."""
    if not any(needs_quiet(each.mode, each.album) for each in turn):
        return True
    return not 0 <= now - max(each.received_at for each in turn) < quiet_ms

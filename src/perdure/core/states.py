"""The states of received messages, attachments, previews, goals, processes and runs in the store.

`store/schema.sql` lists the same words. Turns have their states in `core/turn.py`, sessions in `core/session.py`,
and deliveries in `core/delivery.py`.
"""

from __future__ import annotations

from enum import StrEnum


class InboxState(StrEnum):
    """The states of a received message or command."""

    WAITING = "waiting"  # for its turn, or, a command, to be run
    TAKEN = "taken"  # a part of a turn
    OBEYED = "obeyed"  # a command or an edit that was carried out
    REJECTED = "rejected"  # not understood, or its sender may not talk
    WITHDRAWN = "withdrawn"
    EXPIRED = "expired"  # too old to be answered
    DELETED = "deleted"  # by its sender


class AttachmentState(StrEnum):
    """The states of a file that came with a message; files that we send are fetched from the beginning."""

    REFERENCED = "referenced"  # named by the platform, still to be fetched
    FETCHED = "fetched"
    FAILED = "failed"


class PreviewState(StrEnum):
    """The states of a message that shows an unfinished answer."""

    SENDING = "sending"
    SHOWN = "shown"
    SETTLED = "settled"  # a reply or a notice replaces it
    LOST = "lost"  # without a receipt: it may still stand in the chat


class GoalState(StrEnum):
    """The states of a goal."""

    ACTIVE = "active"
    REACHED = "reached"  # the model says so
    GIVEN_UP = "given_up"  # the model says so
    SPENT = "spent"  # it has had all its turns
    ENDED = "ended"  # by a person, or with its session


class ProcessState(StrEnum):
    """The states of a background process, as far as the store knows."""

    LIVE = "live"
    ENDED = "ended"
    LOST = "lost"  # it ended in a way that nobody saw


class RunEnding(StrEnum):
    """How a run of the gateway ended."""

    CLEAN = "clean"
    LOST = "lost"  # another run found it dead

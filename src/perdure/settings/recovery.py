"""Settings of planned stops, and of turns that were interrupted."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from perdure.core.states import ResumePolicy
from perdure.settings.value_types import Duration, PositiveCount


class DrainSettings(msgspec.Struct, frozen=True):
    """How a planned stop ends."""

    deadline: Annotated[
        Duration,
        Meta(description="How long a planned stop waits for running turns before it interrupts them."),
    ] = 20.0
    teardown: Annotated[
        Duration,
        Meta(description="How long all the rest of a stop may take before the process is ended the hard way."),
    ] = 20.0

    @property
    def max_seconds(self) -> float:
        """The most seconds that a stop takes."""
        return self.deadline + self.teardown


class HandoverSettings(msgspec.Struct, frozen=True):
    """How chats go from one gateway to another, where several share a PostgreSQL database."""

    wait: Annotated[
        Duration,
        Meta(
            description="How long a chat with files or commands on the machine of a gateway that was stopped "
            "waits for it to come back, before another gateway goes on with the chat."
        ),
    ] = 60.0


class RecoverySettings(msgspec.Struct, frozen=True):
    """What becomes of interrupted turns."""

    policy: Annotated[
        ResumePolicy,
        Meta(
            description="What becomes of an interrupted turn: it goes on by itself (`auto`), the chat is "
            "asked first (`ask`), or it is left to the people there (`off`)."
        ),
    ] = "auto"
    freshness: Annotated[
        Duration,
        Meta(description="A turn interrupted longer ago than this does not go on by itself; 0 means at any age."),
    ] = 3600.0
    concurrency: Annotated[PositiveCount, Meta(description="How many turns are recovered at the same time.")] = 4
    max_without_progress: Annotated[
        PositiveCount,
        Meta(description="After so many interruptions in a row without a new step, the session is suspended."),
    ] = 3
    max_interruptions: Annotated[
        PositiveCount, Meta(description="After so many interruptions of one turn, the session is suspended.")
    ] = 10
    max_tokens: Annotated[
        PositiveCount | None,
        Meta(description="The most tokens a turn may have used and still go on by itself.", examples=[200000]),
    ] = None

"""Settings of long work: turns that hang, what people are told in passing, goals, and work beside a chat."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from perdure.settings.value_types import Duration, PositiveCount


class TurnSettings(msgspec.Struct, frozen=True):
    """When a turn is taken to hang: only its silence counts, and not how long it takes."""

    inactivity_warning: Annotated[
        Duration,
        Meta(
            description="The chat is warned when a running turn has given no sign of life for so long: no step, "
            "no piece of an answer, no output of a tool; 0 means never."
        ),
    ] = 900.0
    inactivity_limit: Annotated[
        Duration,
        Meta(description="A running turn that gives no sign of life for so long is ended; 0 means never."),
    ] = 1800.0


class NotifySettings(msgspec.Struct, frozen=True):
    """What people are told in passing."""

    still_working: Annotated[
        Duration,
        Meta(description="How often the chat is told that a long turn goes on, and at what; 0 means never."),
    ] = 180.0


class GoalSettings(msgspec.Struct, frozen=True):
    """How far `/goal` goes by itself."""

    max_turns: Annotated[PositiveCount, Meta(description="How many turns one goal may begin.")] = 10


class BackgroundSettings(msgspec.Struct, frozen=True):
    """What goes on beside a chat, with `/background`."""

    at_once: Annotated[
        PositiveCount, Meta(description="How many works may go on in the background of one chat.")
    ] = 5

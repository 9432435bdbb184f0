"""Settings of sessions, waiting messages, turns, progress notices, goals, background sessions and replies."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from perdure.core.delivery import UnknownSendPolicy
from perdure.core.queue import QueueMode
from perdure.settings.value_types import Duration, PositiveCount, TimeOfDay


class SessionSettings(msgspec.Struct, frozen=True):
    """When a conversation is begun afresh by itself. The one before stays, and `/resume` brings it back."""

    idle: Annotated[
        Duration,
        Meta(
            description="A message that comes after so long a silence begins a fresh conversation; 0 means never.",
            examples=["12h"],
        ),
    ] = 0.0
    daily: Annotated[
        TimeOfDay | None,
        Meta(
            description="The first message after this time of the day, by this machine's clock, begins a fresh "
            "conversation.",
            examples=["04:00"],
        ),
    ] = None
    groups: Annotated[
        Literal["shared", "person"],
        Meta(
            description="In a group, everybody talks in one conversation (`shared`), or each person has one of "
            "their own (`person`). A guest always has one of their own."
        ),
    ] = "shared"


class QueueSettings(msgspec.Struct, frozen=True):
    """What a message does that comes while the agent is at work in its conversation."""

    mode: Annotated[
        QueueMode,
        Meta(
            description="It waits for a turn of its own (`queue`), joins the running turn at its next step "
            "(`steer`), ends the running turn and takes its place (`interrupt`), or waits with the others for "
            "one turn of them all (`collect`). `/queue` switches it for a chat."
        ),
    ] = "queue"
    cap: Annotated[
        PositiveCount,
        Meta(description="How many messages may wait in a conversation; those beyond are not taken, and told so."),
    ] = 100
    quiet: Annotated[
        Duration,
        Meta(
            description="How long nothing more must come before the turn of an album, or one in the mode "
            "`collect`, begins."
        ),
    ] = 1.5


class InboxSettings(msgspec.Struct, frozen=True):
    """Which messages are answered at all."""

    max_age: Annotated[
        Duration,
        Meta(
            description="Messages and commands that were sent longer ago than this and have not begun are given "
            "up, and the chat is told how many; 0 means never."
        ),
    ] = 86400.0
    max_file: Annotated[
        Annotated[int, Meta(ge=1, le=2000)],
        Meta(
            description="How large a file may be that somebody sends, in MB; of a larger one, the agent and the "
            "chat are told that it was not taken. Telegram gives bots no more than 20."
        ),
    ] = 20


class AttachmentSettings(msgspec.Struct, frozen=True):
    """How much disk the files may take that people and the agent send each other."""

    max_total: Annotated[
        PositiveCount,
        Meta(
            description="How much all files together may take, in MB. A file that has no room is refused, and its "
            "sender is told; what is there already stays. Erasing conversations makes room. Where gateways "
            "share a database, it counts over all of them."
        ),
    ] = 10_000
    max_per_chat: Annotated[
        PositiveCount,
        Meta(description="How much the files that came in one conversation may take, in MB."),
    ] = 2_000


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


class DeliverySettings(msgspec.Struct, frozen=True):
    """How replies are sent."""

    unknown: Annotated[
        UnknownSendPolicy,
        Meta(
            description="A reply that may or may not have arrived is sent again with a mark (`resend`), "
            "or given up with a notice (`drop`)."
        ),
    ] = "resend"
    max_age: Annotated[Duration, Meta(description="A reply that could not be sent for this long expires.")] = (
        86400.0
    )

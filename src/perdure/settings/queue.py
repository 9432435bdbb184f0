"""What becomes of messages that cannot be answered at once."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from perdure.core.queue import QueueMode
from perdure.settings.value_types import Duration, PositiveCount


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

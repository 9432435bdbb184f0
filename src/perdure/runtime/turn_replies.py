"""The replies that the entries of a turn owe to its chat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perdure.core import texts
from perdure.core.address import background_number, split_session_key
from perdure.core.delivery import split_reply
from perdure.core.journal import Entry, ToolEnded
from perdure.store.outbox import OutboxReply


def final_replies(
    turn: str, key: str, text: str, reply_to: str | None, max_length: int | None
) -> list[OutboxReply]:
    """The reply at the end of a turn, in parts that its platform takes; none if the text is empty."""
    parts = split_reply(texts.background.label(background_number(key), text), max_length)
    return [OutboxReply(split_session_key(key)[1], turn, tuple(parts), reply_to)] if any(parts) else []


def file_replies(turn: str, key: str, entries: Sequence[Entry], reply_to: str | None) -> Iterator[OutboxReply]:
    """One reply for each file that the results of tool calls send."""
    for entry in entries:
        if not isinstance(entry, ToolEnded):
            continue
        for number, file in enumerate(entry.files):
            text = texts.background.label(background_number(key), file.caption) if file.caption else file.name
            name = f"{turn}.sends.{entry.call}.{number}"
            yield OutboxReply(split_session_key(key)[1], name, (text,), reply_to, file=file)

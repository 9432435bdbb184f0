"""Sends a scripted answer to a client, whole or as a stream, in the format of either API."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress

from msgspec import Struct, structs

from perdure.testing.local_server import ClientConnection
from perdure.testing.providers.answers import (
    Answer,
    Asked,
    CutsOff,
    Fails,
    Floods,
    Hangs,
    NeverEnds,
    PreparedReply,
    Says,
    flood_pieces,
)
from perdure.testing.providers.dialect import ApiDialect


class StreamEnded(Exception):
    """The stream has ended early."""


class StreamHalt(Struct, frozen=True):
    """An error, a cut or a pause after a number of pieces."""

    after: int
    happen: Callable[[], Awaitable[None]]


async def play_answer(answer: Answer, asked: Asked, line: ClientConnection, dialect: ApiDialect) -> None:
    """Send the client its answer. The outcome is recorded before the client can see the end."""
    if isinstance(answer, Fails) and not (asked.streamed and answer.after is not None):
        asked.outcome = "failed"
        await send_error(answer, line, dialect)
        return
    says = answer if isinstance(answer, Says) else getattr(answer, "of", Says())
    reply = prepare_reply(says, asked, dialect)
    if isinstance(answer, Floods | NeverEnds):
        reply.words = flood_pieces(answer)
    await line.pause(says.think)
    if asked.streamed:
        pause = answer.pause if isinstance(answer, NeverEnds) else says.pause
        with suppress(StreamEnded):
            await _stream(asked, reply, line, dialect, pause, _halt_for(answer, asked, line, dialect))
    else:
        await _play_whole(answer, asked, reply, line, dialect)


async def send_error(
    failure: Fails, line: ClientConnection, dialect: ApiDialect, param: str | None = None
) -> None:
    """Answer with an error."""
    headers = []
    if failure.retry_after is not None:
        headers.append((b"retry-after", f"{failure.retry_after:g}".encode()))
    await line.answer(failure.status, dialect.encode_error(failure, param), *headers)


def prepare_reply(says: Says, asked: Asked, dialect: ApiDialect) -> PreparedReply:
    """Return the answer with ids for itself and for its calls."""
    return PreparedReply(
        dialect.REPLY_PREFIX + secrets.token_hex(12),
        str(asked.body["model"]),
        says.words(),
        [structs.replace(call, id=call.id or dialect.CALL_PREFIX + secrets.token_hex(12)) for call in says.calls],
        says.finish,
        says.usage,
        dialect.wants_usage(asked.body, asked.streamed),
    )


async def _play_whole(
    answer: Answer, asked: Asked, reply: PreparedReply, line: ClientConnection, dialect: ApiDialect
) -> None:
    if isinstance(answer, CutsOff):
        asked.outcome = "cut off"
        await line.cut()
        return
    if isinstance(answer, NeverEnds):
        await line.pause()
    if isinstance(answer, Hangs):
        await _hang(answer, line)
    asked.outcome = "answered"
    await line.answer(200, dialect.encode_whole(reply))


async def _stream(
    asked: Asked,
    reply: PreparedReply,
    line: ClientConnection,
    dialect: ApiDialect,
    pause: float,
    halt: StreamHalt | None,
) -> None:
    await line.begin()
    for frame in dialect.opening_frames(reply):
        await line.push(frame.body)
    await _push_body(reply, line, dialect, pause, halt)
    asked.outcome = "answered"
    # In one write: a client may leave as soon as it has the end, and must not count as having left early.
    await line.finish(b"".join(frame.body for frame in dialect.closing_frames(reply)))


async def _push_body(
    reply: PreparedReply, line: ClientConnection, dialect: ApiDialect, pause: float, halt: StreamHalt | None
) -> None:
    pieces = 0
    for frame in dialect.body_frames(reply):
        if frame.piece:
            if halt is not None and pieces == halt.after:
                await halt.happen()
            elif pieces:
                await line.pause(pause)
            pieces += 1
        await line.push(frame.body)
    if halt is not None and pieces <= halt.after:
        await halt.happen()


def _halt_for(answer: Answer, asked: Asked, line: ClientConnection, dialect: ApiDialect) -> StreamHalt | None:
    match answer:
        case CutsOff(after=after):
            return StreamHalt(after, lambda: _cut(asked, line))
        case Hangs(after=after):
            return StreamHalt(after, lambda: _hang(answer, line))
        case Fails(after=int(after)):
            return StreamHalt(after, lambda: _break(answer, asked, line, dialect))
    return None


async def _cut(asked: Asked, line: ClientConnection) -> None:
    asked.outcome = "cut off"
    await line.cut()
    raise StreamEnded


async def _break(failure: Fails, asked: Asked, line: ClientConnection, dialect: ApiDialect) -> None:
    asked.outcome = "failed"
    await line.finish(dialect.stream_error_frame(failure).body)
    raise StreamEnded


async def _hang(answer: Hangs, line: ClientConnection) -> None:
    """Pause until the test releases the answer, from any thread."""
    loop, released = asyncio.get_running_loop(), asyncio.Event()

    def wake(_: Future[None]) -> None:
        with suppress(RuntimeError):  # the provider's event loop ended before the release
            loop.call_soon_threadsafe(released.set)

    answer.released.add_done_callback(wake)
    answer.reached.set()
    await line.wait_for(released.wait())

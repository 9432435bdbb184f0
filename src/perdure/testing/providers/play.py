"""An answer of the script is played to a client, whole or as a stream, in the words of either API."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress

from msgspec import Struct, structs

from perdure.testing.line import Line
from perdure.testing.providers.answers import (
    Answer,
    Asked,
    CutsOff,
    Fails,
    Floods,
    Hangs,
    NeverEnds,
    Reply,
    Says,
    flood,
)
from perdure.testing.providers.dialect import Dialect


class Over(Exception):
    """Nothing more is to be said in this stream."""


class Halt(Struct, frozen=True):
    """What happens after so many pieces."""

    after: int
    happen: Callable[[], Awaitable[None]]


async def play(answer: Answer, asked: Asked, line: Line, dialect: Dialect) -> None:
    """Give the client its answer. What became of it is noted before the client can know that it is over."""
    if isinstance(answer, Fails) and not (asked.streamed and answer.after is not None):
        asked.outcome = "failed"
        await fail(answer, line, dialect)
        return
    says = answer if isinstance(answer, Says) else getattr(answer, "of", Says())
    reply = ready(says, asked, dialect)
    if isinstance(answer, Floods | NeverEnds):
        reply.words = flood(answer)
    await line.idle(says.think)
    if asked.streamed:
        pause = answer.pause if isinstance(answer, NeverEnds) else says.pause
        with suppress(Over):
            await _stream(asked, reply, line, dialect, pause, _halt(answer, asked, line, dialect))
    else:
        await _play_whole(answer, asked, reply, line, dialect)


async def fail(failure: Fails, line: Line, dialect: Dialect, param: str | None = None) -> None:
    """Answer with an error."""
    headers = []
    if failure.retry_after is not None:
        headers.append((b"retry-after", f"{failure.retry_after:g}".encode()))
    await line.answer(failure.status, dialect.error(failure, param), *headers)


def ready(says: Says, asked: Asked, dialect: Dialect) -> Reply:
    """The answer with ids for itself and for its calls."""
    return Reply(
        dialect.REPLY_PREFIX + secrets.token_hex(12),
        str(asked.body["model"]),
        says.words(),
        [structs.replace(call, id=call.id or dialect.CALL_PREFIX + secrets.token_hex(12)) for call in says.calls],
        says.finish,
        says.usage,
        dialect.wants_usage(asked.body, asked.streamed),
    )


async def _play_whole(answer: Answer, asked: Asked, reply: Reply, line: Line, dialect: Dialect) -> None:
    if isinstance(answer, CutsOff):
        asked.outcome = "cut off"
        await line.cut()
        return
    if isinstance(answer, NeverEnds):
        await line.idle()
    if isinstance(answer, Hangs):
        await _hang(answer, line)
    asked.outcome = "answered"
    await line.answer(200, dialect.whole(reply))


async def _stream(
    asked: Asked, reply: Reply, line: Line, dialect: Dialect, pause: float, halt: Halt | None
) -> None:
    await line.begin()
    for frame in dialect.opening(reply):
        await line.push(frame.body)
    await _push_body(reply, line, dialect, pause, halt)
    asked.outcome = "answered"
    # In one go: a client that has heard the end may leave at once, and must not count as having left early.
    await line.finish(b"".join(frame.body for frame in dialect.closing(reply)))


async def _push_body(reply: Reply, line: Line, dialect: Dialect, pause: float, halt: Halt | None) -> None:
    pieces = 0
    for frame in dialect.body(reply):
        if frame.piece:
            if halt is not None and pieces == halt.after:
                await halt.happen()
            elif pieces:
                await line.idle(pause)
            pieces += 1
        await line.push(frame.body)
    if halt is not None and pieces <= halt.after:
        await halt.happen()


def _halt(answer: Answer, asked: Asked, line: Line, dialect: Dialect) -> Halt | None:
    match answer:
        case CutsOff(after=after):
            return Halt(after, lambda: _cut(asked, line))
        case Hangs(after=after):
            return Halt(after, lambda: _hang(answer, line))
        case Fails(after=int(after)):
            return Halt(after, lambda: _break(answer, asked, line, dialect))
    return None


async def _cut(asked: Asked, line: Line) -> None:
    asked.outcome = "cut off"
    await line.cut()
    raise Over


async def _break(failure: Fails, asked: Asked, line: Line, dialect: Dialect) -> None:
    asked.outcome = "failed"
    await line.finish(dialect.broken(failure).body)
    raise Over


async def _hang(answer: Hangs, line: Line) -> None:
    """Say nothing until the test releases it, from whichever thread."""
    loop, released = asyncio.get_running_loop(), asyncio.Event()

    def wake(_: Future[None]) -> None:
        with suppress(RuntimeError):  # the provider, and its loop with it, has ended before the release
            loop.call_soon_threadsafe(released.set)

    answer.released.add_done_callback(wake)
    answer.reached.set()
    await line.wait_for(released.wait())

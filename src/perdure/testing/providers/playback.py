"""Sends a scripted answer to a client, whole or streamed, or for benchmarks a constant one, encoded beforehand."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from itertools import count, pairwise
from typing import Any

import msgspec
from msgspec import Struct, field, structs

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
    Usage,
    Wish,
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


ID_PLACEHOLDER = "0123456789abcdef01234567"  # a placeholder for the number of an answer
MODEL = "constant"


class RequestBlock(Struct):
    """The part of a content block that decides the answer."""

    type: str = ""


class RequestMessage(Struct):
    """The part of a message that tells whose message is last."""

    role: str
    content: str | list[RequestBlock] | None = None

    @property
    def is_result(self) -> bool:
        blocks = self.content if isinstance(self.content, list) else []
        return self.role == "tool" or any(block.type == "tool_result" for block in blocks)


class RequestEnvelope(Struct):
    """The part of a request that decides the answer; the rest stays undecoded."""

    messages: list[msgspec.Raw]
    stream: bool = False
    stream_options: dict[str, Any] | None = None


class Constant(Struct, eq=False):
    """Answers with `text`; with `call`, makes that call first and answers after its result.

    A stream sends the text in `pieces`, `pause` seconds apart, after `think` seconds. `served` counts the answers.
    """

    text: str = "ok"
    call: Wish | None = None
    think: float = 0.0
    pieces: int = 1
    pause: float = 0.0
    served: int = 0
    prepared: dict[tuple[str, bool, bool, bool], list[bytes]] = field(default_factory=dict)
    number: Callable[[], int] = field(default_factory=lambda: count(secrets.randbits(80)).__next__)

    async def answer(self, line: ClientConnection, dialect: ApiDialect, body: bytes) -> None:
        """Answer one request."""
        envelope = msgspec.json.decode(body, type=RequestEnvelope)
        calls = (
            self.call is not None and not msgspec.json.decode(envelope.messages[-1], type=RequestMessage).is_result
        )
        counted = dialect.wants_usage({"stream_options": envelope.stream_options}, envelope.stream)
        frames = self._frames(dialect, calls, envelope.stream, counted)
        number = b"%024x" % self.number()
        await line.pause(self.think)
        if envelope.stream:
            await self._stream(line, frames, number)
        else:
            await line.answer(200, frames[0].replace(ID_PLACEHOLDER.encode(), number))
        self.served += 1

    async def _stream(self, line: ClientConnection, frames: list[bytes], number: bytes) -> None:
        await line.begin()
        for frame in frames[:-1]:
            await line.push(frame.replace(ID_PLACEHOLDER.encode(), number))
            await line.pause(self.pause)
        await line.finish(frames[-1].replace(ID_PLACEHOLDER.encode(), number))

    def _frames(self, dialect: ApiDialect, calls: bool, streamed: bool, counted: bool) -> list[bytes]:
        """Return the bodies to send, encoded once for each kind of request."""
        wanted = (dialect.NAME, calls, streamed, counted)
        if wanted not in self.prepared:
            reply = self._reply(dialect, calls, counted)
            self.prepared[wanted] = self._encode(dialect, reply) if streamed else [dialect.encode_whole(reply)]
        return self.prepared[wanted]

    def _reply(self, dialect: ApiDialect, calls: bool, counted: bool) -> PreparedReply:
        identity = dialect.REPLY_PREFIX + ID_PLACEHOLDER
        if calls and self.call is not None:
            call = Wish(self.call.tool, self.call.arguments, dialect.CALL_PREFIX + ID_PLACEHOLDER)
            return PreparedReply(identity, MODEL, (), [call], counted=counted)
        return PreparedReply(
            identity, MODEL, self._text_pieces(), usage=Usage(output=self.pieces), counted=counted
        )

    def _text_pieces(self) -> list[str]:
        """Split the text into `pieces`, at most one per character."""
        ends = [len(self.text) * index // self.pieces for index in range(self.pieces + 1)]
        return [self.text[start:end] for start, end in pairwise(ends) if start < end]

    def _encode(self, dialect: ApiDialect, reply: PreparedReply) -> list[bytes]:
        """Return one body for each piece, framing included; a single body without pauses."""
        bodies = [b"".join(frame.body for frame in dialect.opening_frames(reply))]
        begun = False
        for frame in dialect.body_frames(reply):
            if frame.piece and begun and self.pause > 0 and not reply.calls:
                bodies.append(frame.body)
            else:
                bodies[-1] += frame.body
            begun = begun or frame.piece
        bodies[-1] += b"".join(frame.body for frame in dialect.closing_frames(reply))
        return bodies

"""A constant answer for benchmarks: encoded beforehand, without checks and without a record of requests."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from itertools import count, pairwise
from typing import Any

import msgspec
from msgspec import Struct, field

from perdure.testing.local_server import ClientConnection
from perdure.testing.providers.answers import PreparedReply, Usage, Wish
from perdure.testing.providers.dialect import ApiDialect

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

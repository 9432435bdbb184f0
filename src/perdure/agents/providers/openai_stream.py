"""The pieces of a streamed chat answer of OpenAI's kind. Words that have come at once are one piece.

Each piece has its price in the libraries above. With a provider that is faster than we are, or a gateway that is
busy, it is paid for as much as there is, and not for every word.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import suppress
from typing import Any

import httpx2
from openai import APIConnectionError, APIError, APITimeoutError, AsyncStream
from openai.types.chat import ChatCompletionChunk
from pydantic import ValidationError
from pydantic_ai.exceptions import UnexpectedModelBehavior

STREAM_FAILED = "the provider failed while it answered"
DRAIN_SECONDS = 0.1  # seconds
MAX_LINE_BYTES = 8 * 1024 * 1024  # bytes
PADDING_FIELD = "obfuscation"  # of no meaning, and of another length each time


class ChatCompletionStream(AsyncStream[ChatCompletionChunk]):
    """The stream of one answer."""

    async def __stream__(self) -> AsyncIterator[ChatCompletionChunk]:
        events, reads = SseDecoder(), self.response.aiter_bytes()
        try:
            async for read in reads:
                for data in merge_text_chunks(events.decode(read)):
                    yield self._chunk(data)
                if events.done:
                    await _read_out(reads)
                    return
        except httpx2.TimeoutException as error:
            raise APITimeoutError(self.response.request) from error
        except httpx2.RequestError as error:
            raise APIConnectionError(request=self.response.request) from error
        finally:
            await self.response.aclose()

    def _chunk(self, data: Any) -> ChatCompletionChunk:
        if not isinstance(data, dict):
            raise UnexpectedModelBehavior(f"a piece of the answer is no object: {data!r:.100}")
        if error := data.get("error"):
            said = error.get("message") if isinstance(error, dict) else error
            raise APIError(str(said or STREAM_FAILED), self.response.request, body=error)
        try:
            return ChatCompletionChunk.model_validate(data)
        except ValidationError:
            return ChatCompletionChunk.construct(**data)


async def _read_out(reads: AsyncIterator[bytes]) -> None:
    """Read what still comes behind a whole answer, for a moment, so that its connection can be used again."""
    with suppress(TimeoutError, httpx2.RequestError):
        async with asyncio.timeout(DRAIN_SECONDS):
            async for _ in reads:
                pass


class SseDecoder:
    """Server-sent events whose data is JSON, until one says that it was the last."""

    def __init__(self) -> None:
        self.done = False
        self._rest = b""
        self._data: list[bytes] = []
        self._half = False  # a line has ended that may have one more sign to its end

    def decode(self, read: bytes) -> Iterator[Any]:
        """What the events tell that have become whole with what was read."""
        for line in self._lines(read):
            field, _, value = line.partition(b":")
            if field == b"data":
                self._data.append(value)
            elif not line and self._data:
                data, self._data = b"\n".join(self._data), []
                if data.strip().startswith(b"[DONE]"):
                    self.done = True
                    return
                yield _decoded(data)

    def _lines(self, read: bytes) -> Iterator[bytes]:
        """Lines end with CR, LF, or both."""
        if self._half and read.startswith(b"\n"):
            read = read[1:]
        self._half = read.endswith(b"\r")
        lines = (self._rest + read).splitlines(keepends=True)
        self._rest = b"" if not lines or lines[-1].endswith((b"\r", b"\n")) else lines.pop()
        if len(self._rest) > MAX_LINE_BYTES:
            raise UnexpectedModelBehavior(f"a piece of the answer is larger than {MAX_LINE_BYTES} bytes")
        for line in lines:
            yield line.rstrip(b"\r\n")


def _decoded(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError as error:
        raise UnexpectedModelBehavior(f"a piece of the answer is no JSON: {error}") from error


def merge_text_chunks(chunks: Iterable[Any]) -> Iterator[Any]:
    """The chunks, but neighbours that differ in their words alone as one."""
    last: Any = None
    beside: Any = None
    for chunk in chunks:
        words, rest = _apart(chunk)
        if words and rest == beside:
            last["choices"][0]["delta"]["content"] += words
            continue
        if last is not None:
            yield last
        last, beside = chunk, rest
    if last is not None:
        yield last


def _apart(chunk: Any) -> tuple[str, Any]:
    """The words of a chunk that has nothing else to say, and what it has beside them."""
    try:
        (choice,) = chunk["choices"]
        ((name, words),) = choice["delta"].items()
    except (KeyError, TypeError, ValueError, AttributeError):
        return "", None
    if name != "content" or not isinstance(words, str) or chunk.get("usage"):  # what they cost is added up
        return "", None
    return words, {**chunk, "choices": {**choice, "delta": None}, PADDING_FIELD: None}

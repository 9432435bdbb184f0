"""Bounds what is read of the answers of servers that we ask, before and after decompression.

A few bytes can decompress to gigabytes. So the answer is decompressed here, piece by piece, and no further than
the limit; the client above gets it as if it had never been compressed.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Iterator
from functools import cache
from importlib import import_module
from typing import Any, cast

import httpx2
from httpx2 import AsyncBaseTransport, AsyncByteStream, AsyncClient, Request, Response
from msgspec import Struct

PIECE_BYTES = 64 * 1024  # decompressed at once
ACCEPTED_ENCODING = "gzip"  # what servers are asked for: with the others, a limit cannot be kept
ZLIB_ENCODINGS = ("gzip", "x-gzip", "deflate")
GZIP_OR_ZLIB = 47  # for zlib: it finds out by itself which of the two it is
EVENT_STREAM = "text/event-stream"
EVENT_ENDS = (b"\n\n", b"\r\r", b"\r\n\r\n")
LONGEST_EVENT_END = 4  # bytes


class AnswerLimits(Struct, frozen=True):
    """How many bytes of an answer are read at most."""

    body: int  # of an answer that is no stream of events
    event: int  # of one event of a stream
    stream: int | None = None  # of all events of a stream; None: a stream may go on for ever


class AnswerTooLarge(httpx2.RemoteProtocolError):
    """An answer is larger than we read."""

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(f"{what} is larger than {limit} bytes, and was not read further")


class BoundedTransport(AsyncBaseTransport):
    """Carries requests over another transport, and reads no answer beyond its limits.

    `library` is httpx2, or httpx for clients of its own: both have the same classes under the same names.
    """

    def __init__(self, inner: AsyncBaseTransport, limits: AnswerLimits, library: Any = httpx2) -> None:
        self._inner = inner
        self._limits = limits
        self._library = library

    async def handle_async_request(self, request: Request) -> Response:
        if "accept-encoding" in request.headers:
            request.headers["accept-encoding"] = ACCEPTED_ENCODING
        response = await self._inner.handle_async_request(request)
        encoding = response.headers.get("content-encoding", "").strip().lower()
        if encoding not in ("", "identity", *ZLIB_ENCODINGS):
            await response.aclose()
            raise self._library.RemoteProtocolError(
                f"the answer is compressed by {encoding[:50]!r}, which nobody asked for"
            )
        headers = [
            (name, value)
            for name, value in response.headers.raw
            if name.lower() != b"content-encoding" and not (encoding and name.lower() == b"content-length")
        ]
        stream_class = _stream_class(self._library)
        stream = stream_class(cast("AsyncByteStream", response.stream), self._limits_of(response), encoding)
        bounded: Response = self._library.Response(
            response.status_code, headers=headers, stream=stream, extensions=response.extensions
        )
        return bounded

    def _limits_of(self, response: Response) -> tuple[int | None, int | None]:
        """The most bytes of this answer, and of each of its events."""
        if response.headers.get("content-type", "").lower().startswith(EVENT_STREAM):
            return self._limits.stream, self._limits.event
        return self._limits.body, None

    async def aclose(self) -> None:
        await self._inner.aclose()


def bound_answers(client: Any, limits: AnswerLimits) -> None:
    """Let a client of httpx2 or httpx read no answer beyond its limits, whichever transports it uses."""
    library = httpx2 if isinstance(client, AsyncClient) else import_module("httpx")
    transport, mounts = client._transport, client._mounts  # noqa: SLF001 reason: there is no other way in
    client._transport = _bounded(transport, limits, library)  # noqa: SLF001
    client._mounts = {  # noqa: SLF001
        pattern: None if each is None else _bounded(each, limits, library) for pattern, each in mounts.items()
    }


def _bounded(transport: AsyncBaseTransport, limits: AnswerLimits, library: Any) -> AsyncBaseTransport:
    bounded = isinstance(transport, BoundedTransport)
    return transport if bounded else BoundedTransport(transport, limits, library)


class _ByteCounter:
    """Counts the bytes of an answer, and of its present event."""

    def __init__(self, most: int | None, most_in_event: int | None = None) -> None:
        self._most = most
        self._most_in_event = most_in_event
        self._all = 0
        self._in_event = 0
        self._last = b""

    def count(self, piece: bytes) -> bytes:
        """The same piece; `AnswerTooLarge` if it is one too many."""
        self._all += len(piece)
        if self._most is not None and self._all > self._most:
            raise AnswerTooLarge("the answer", self._most)
        if self._most_in_event is not None:
            self._count_event(piece, self._most_in_event)
        return piece

    def _count_event(self, piece: bytes, most: int) -> None:
        searched = self._last + piece
        end = max(searched.rfind(mark) for mark in EVENT_ENDS)
        self._in_event = self._in_event + len(piece) if end < 0 else len(searched) - end
        self._last = searched[-LONGEST_EVENT_END + 1 :]
        if self._in_event > most:
            raise AnswerTooLarge("a part of the answer", most)


class _BoundedStream(AsyncByteStream):
    """The decompressed bytes of an answer, up to its limit."""

    def __init__(self, inner: AsyncByteStream, limits: tuple[int | None, int | None], encoding: str) -> None:
        self._inner = inner
        self._received = _ByteCounter(limits[0])
        self._decompressed = _ByteCounter(*limits)
        self._decompress = _Decompressor().pieces if encoding in ZLIB_ENCODINGS else _as_it_is

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for received in self._inner:
            for piece in self._decompress(self._received.count(received)):
                yield self._decompressed.count(piece)

    async def aclose(self) -> None:
        await self._inner.aclose()


@cache
def _stream_class(library: Any) -> Any:
    """The class of a library's answers: its client takes no stream that is not one of its own."""
    if library is httpx2:
        return _BoundedStream

    class BoundedStreamOfLibrary(_BoundedStream, library.AsyncByteStream):  # type: ignore[misc]
        async def __aiter__(self) -> AsyncIterator[bytes]:
            try:
                async for piece in super().__aiter__():
                    yield piece
            except httpx2.RemoteProtocolError as error:
                raise library.RemoteProtocolError(str(error)) from error

    return BoundedStreamOfLibrary


def _as_it_is(received: bytes) -> Iterator[bytes]:
    yield received


class _Decompressor:
    """Decompresses gzip or zlib, never more than one piece at a time."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(wbits=GZIP_OR_ZLIB)

    def pieces(self, received: bytes) -> Iterator[bytes]:
        try:
            while received and not self._zlib.eof:
                piece = self._zlib.decompress(received, PIECE_BYTES)
                received = self._zlib.unconsumed_tail
                if piece:
                    yield piece
        except zlib.error as error:
            raise httpx2.RemoteProtocolError(f"the answer cannot be decompressed: {error}") from error

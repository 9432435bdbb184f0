"""Bounds what is read of the answers of servers that we ask, before and after decompression.

A few bytes can decompress to gigabytes. So an answer is decompressed here, piece by piece, and no further than its
limit.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

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


class UnreadableAnswer(ValueError):
    """An answer is larger than we read, or cannot be decompressed."""


class BodyDecoder:
    """Decompresses the body of one answer, up to its limits."""

    def __init__(self, limits: AnswerLimits, content_type: str, encoding: str) -> None:
        """Raises `UnreadableAnswer` for an encoding that nobody asked for."""
        encoding = encoding.strip().lower()
        if encoding not in ("", "identity", *ZLIB_ENCODINGS):
            raise UnreadableAnswer(f"the answer is compressed by {encoding[:50]!r}, which nobody asked for")
        is_stream = content_type.lower().startswith(EVENT_STREAM)
        most, most_in_event = (limits.stream, limits.event) if is_stream else (limits.body, None)
        self._received = _ByteCounter(most)
        self._decompressed = _ByteCounter(most, most_in_event)
        self._decompress = _Decompressor().pieces if encoding in ZLIB_ENCODINGS else _as_it_is

    def decode(self, received: bytes) -> Iterator[bytes]:
        """The decompressed pieces of what was received; `UnreadableAnswer` if it is too much."""
        for piece in self._decompress(self._received.count(received)):
            yield self._decompressed.count(piece)


class _ByteCounter:
    """Counts the bytes of an answer, and of its present event."""

    def __init__(self, most: int | None, most_in_event: int | None = None) -> None:
        self._most = most
        self._most_in_event = most_in_event
        self._all = 0
        self._in_event = 0
        self._last = b""

    def count(self, piece: bytes) -> bytes:
        """The same piece; `UnreadableAnswer` if it is one too many."""
        self._all += len(piece)
        if self._most is not None and self._all > self._most:
            raise _too_large("the answer", self._most)
        if self._most_in_event is not None:
            self._count_event(piece, self._most_in_event)
        return piece

    def _count_event(self, piece: bytes, most: int) -> None:
        searched = self._last + piece
        end = max(searched.rfind(mark) for mark in EVENT_ENDS)
        self._in_event = self._in_event + len(piece) if end < 0 else len(searched) - end
        self._last = searched[-LONGEST_EVENT_END + 1 :]
        if self._in_event > most:
            raise _too_large("a part of the answer", most)


def _too_large(what: str, limit: int) -> UnreadableAnswer:
    return UnreadableAnswer(f"{what} is larger than {limit} bytes, and was not read further")


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
            raise UnreadableAnswer(f"the answer cannot be decompressed: {error}") from error

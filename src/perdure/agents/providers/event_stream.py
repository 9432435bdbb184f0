"""Reads server-sent events whose data is JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

DONE = b"[DONE]"  # ends a stream of OpenAI's kind


class EventDecoder:
    """Decodes the events of a stream, wherever its bytes are cut, until one says that it was the last."""

    def __init__(self) -> None:
        self.done = False
        self.is_new = True  # nothing was decoded yet
        self._rest = b""
        self._data: list[bytes] = []
        self._after_cr = False  # a line has ended with CR; an LF that follows belongs to it

    def decode(self, read: bytes) -> Iterator[Any]:
        """The data of the events that have become complete; ValueError for data that is no JSON."""
        self.is_new = False
        for line in self._lines(read):
            field, _, value = line.partition(b":")
            if field == b"data":
                self._data.append(value)
            elif not line and self._data:
                data, self._data = b"\n".join(self._data).strip(), []
                if data.startswith(DONE):
                    self.done = True
                    return
                yield _json(data)

    def _lines(self, read: bytes) -> Iterator[bytes]:
        """Lines end with CR, LF, or both."""
        if self._after_cr and read.startswith(b"\n"):
            read = read[1:]
        self._after_cr = read.endswith(b"\r")
        lines = (self._rest + read).splitlines(keepends=True)
        self._rest = b"" if not lines or lines[-1].endswith((b"\r", b"\n")) else lines.pop()
        for line in lines:
            yield line.rstrip(b"\r\n")


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"a piece of the answer is no JSON: {error}") from error

"""Calls over HTTP, with the one thing known for certain that senders need: whether a request left us at all.

A client of our own over h11, which the console's server has loaded already: see the decision records.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import h11

from perdure.errors import NotConnected, SendUnknown

CONNECTING = 10.0  # seconds
STILL_FRESH = 15.0  # seconds that an idle connection is trusted to be there still
PIECE = 65536
LARGEST = 32 * 1024 * 1024  # bytes of one answer


class Http:
    """Posts JSON to one server, over connections that are used again."""

    def __init__(self, root: str) -> None:
        parts = urlsplit(root)
        self._host = parts.hostname or ""
        self._tls = parts.scheme == "https"
        self._port = parts.port or (443 if self._tls else 80)
        self._path = parts.path.rstrip("/")
        self._authority = parts.netloc.rpartition("@")[2]
        self._context: ssl.SSLContext | None = None
        self._idle: list[_Connection] = []

    async def post(
        self, path: str, body: bytes, timeout: float, headers: Sequence[tuple[str, str]] = ()
    ) -> tuple[int, bytes]:
        """The status and the body of the answer.

        `NotConnected`: the request was not sent. `SendUnknown`: it was, perhaps in part, and no answer came.
        """
        connection = self._reused() or await self._opened()
        try:
            async with asyncio.timeout(timeout):
                status, answer = await connection.exchange(self._request(path, body, headers), body)
        except (OSError, EOFError, TimeoutError, h11.RemoteProtocolError) as error:
            connection.abort()
            raise SendUnknown(f"no answer came from {self._host}: {_reason(error)}") from error
        except BaseException:  # reason: half an exchange must not be left to the next one
            connection.abort()
            raise
        self._keep(connection)
        return status, answer

    async def close(self) -> None:
        while self._idle:
            self._idle.pop().abort()

    def _request(self, path: str, body: bytes, more: Sequence[tuple[str, str]]) -> h11.Request:
        headers = [
            *more,
            ("Host", self._authority),
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
            ("Accept", "application/json"),
        ]
        return h11.Request(method="POST", target=f"{self._path}{path}", headers=headers)

    def _reused(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.fresh:
                return connection
            connection.abort()
        return None

    def _keep(self, connection: _Connection) -> None:
        """Keep a connection for the next request, and let go of those that nobody has needed for long."""
        if connection.reusable:
            self._idle.append(connection)
        else:
            connection.abort()
        while self._idle and not self._idle[0].fresh:
            self._idle.pop(0).abort()

    async def _opened(self) -> _Connection:
        try:
            async with asyncio.timeout(CONNECTING):
                return _Connection(*await asyncio.open_connection(self._host, self._port, **self._secured()))
        except (OSError, TimeoutError, ValueError) as error:
            raise NotConnected(f"{self._host} cannot be reached: {_reason(error)}") from error

    def _secured(self) -> dict[str, Any]:
        if not self._tls:
            return {}
        if self._context is None:
            self._context = ssl.create_default_context()
        return {"ssl": self._context, "happy_eyeballs_delay": 0.25}


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._state = h11.Connection(h11.CLIENT)
        self._since = time.monotonic()

    @property
    def fresh(self) -> bool:
        """Whether it may be used again: nobody has closed it, and it has not been idle for long."""
        return not self._reader.at_eof() and time.monotonic() - self._since < STILL_FRESH

    @property
    def reusable(self) -> bool:
        return self._state.our_state is h11.IDLE

    async def exchange(self, request: h11.Request, body: bytes) -> tuple[int, bytes]:
        events = (request, h11.Data(data=body), h11.EndOfMessage())
        self._writer.write(b"".join(self._state.send(event) or b"" for event in events))
        await self._writer.drain()
        status, pieces, size = 0, [], 0
        while not isinstance(event := await self._next(), h11.EndOfMessage):
            if isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                pieces.append(bytes(event.data))
                size += len(event.data)
                if size > LARGEST:
                    raise OSError(f"the answer is longer than {LARGEST} bytes")
        if self._state.our_state is h11.DONE and self._state.their_state is h11.DONE:
            self._state.start_next_cycle()
        self._since = time.monotonic()
        return status, b"".join(pieces)

    async def _next(self) -> Any:
        while (event := self._state.next_event()) is h11.NEED_DATA:
            self._state.receive_data(await self._reader.read(PIECE))
        if isinstance(event, h11.ConnectionClosed):
            raise EOFError("the connection was closed")  # noqa: TRY004 reason: it is no wrong type
        return event

    def abort(self) -> None:
        self._writer.transport.abort()


def _reason(error: BaseException) -> str:
    return str(error) or ("it took too long" if isinstance(error, TimeoutError) else type(error).__name__)

"""Calls over HTTP, with the one thing known for certain that senders need: whether a request left us at all.

A client of our own over h11, which the console's server has loaded already: see the decision records.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any
from urllib.parse import urlsplit

import h11

from perdure.core import notes
from perdure.errors import FetchFailed, FetchRefused, NotConnected, SendUnknown
from perdure.platforms.telegram.files import Form

CONNECTING = 10.0  # seconds
STILL_FRESH = 15.0  # seconds that an idle connection is trusted to be there still
SILENCE = 30.0  # seconds in which the other side takes nothing more
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
        return await self._exchange(path, "application/json", len(body), _once(body), timeout, headers)

    async def upload(self, path: str, form: Form, timeout: float) -> tuple[int, bytes]:
        """The same with a form, of which never more than a piece is in memory."""
        return await self._exchange(path, form.kind, form.size, form.pieces(), timeout)

    async def _exchange(
        self,
        path: str,
        kind: str,
        size: int,
        body: AsyncGenerator[bytes],
        timeout: float,
        more: Sequence[tuple[str, str]] = (),
    ) -> tuple[int, bytes]:
        headers = (("Content-Type", kind), ("Content-Length", str(size)), ("Accept", "application/json"), *more)
        connection = self._reused() or await self._opened()
        try:
            await connection.send(self._asking("POST", path, *headers), body)
            async with asyncio.timeout(timeout):
                status, answer = await connection.answer()
        except (OSError, EOFError, TimeoutError, h11.ProtocolError) as error:
            connection.abort()
            raise SendUnknown(f"no answer came from {self._host}: {_reason(error)}") from error
        except BaseException:  # reason: half an exchange must not be left to the next one
            connection.abort()
            raise
        self._keep(connection)
        return status, answer

    async def get(self, path: str) -> AsyncGenerator[bytes]:
        """The body of what is there, piece by piece. `FetchRefused`: it is not there, and will not be."""
        connection = self._reused() or await self._opened()
        try:
            async with asyncio.timeout(CONNECTING + STILL_FRESH):
                await connection.send(self._asking("GET", path), _once())
                status = await connection.status()
            _expect_found(status)
            async for piece in connection.pieces():
                yield piece
        except (OSError, EOFError, TimeoutError, h11.RemoteProtocolError) as error:
            connection.abort()
            raise FetchFailed(f"{self._host} did not give it whole: {_reason(error)}") from error
        except BaseException:  # reason: half an exchange must not be left to the next one
            connection.abort()
            raise
        self._keep(connection)

    async def close(self) -> None:
        while self._idle:
            self._idle.pop().abort()

    def _asking(self, method: str, path: str, *headers: tuple[str, str]) -> h11.Request:
        target = f"{self._path}{path}"
        return h11.Request(method=method, target=target, headers=[("Host", self._authority), *headers])

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

    async def answer(self) -> tuple[int, bytes]:
        """The status and the whole body of an answer."""
        status, pieces, size = await self.status(), [], 0
        async for piece in self.pieces():
            pieces.append(piece)
            size += len(piece)
            if size > LARGEST:
                raise OSError(f"the answer is longer than {LARGEST} bytes")
        return status, b"".join(pieces)

    async def send(self, request: h11.Request, body: AsyncGenerator[bytes]) -> None:
        """Send a request, as fast as the other side takes it."""
        head = self._state.send(request) or b""
        async with aclosing(body):
            async for piece in body:
                self._writer.write(head + (self._state.send(h11.Data(data=piece)) or b""))
                head = b""
                async with asyncio.timeout(SILENCE):
                    await self._writer.drain()
        self._writer.write(head + (self._state.send(h11.EndOfMessage()) or b""))
        await self._writer.drain()

    async def status(self) -> int:
        """The status of an answer, whose pieces are still to be read."""
        while not isinstance(event := await self._next(), h11.Response):
            pass  # only what says that an answer will come
        return event.status_code

    async def pieces(self) -> AsyncGenerator[bytes]:
        """The body of the answer as it comes, to its end."""
        while not isinstance(event := await self._next(), h11.EndOfMessage):
            yield bytes(event.data)
        if self._state.our_state is h11.DONE and self._state.their_state is h11.DONE:
            self._state.start_next_cycle()
        self._since = time.monotonic()

    async def _next(self) -> Any:
        while (event := self._state.next_event()) is h11.NEED_DATA:
            self._state.receive_data(await self._reader.read(PIECE))
        if isinstance(event, h11.ConnectionClosed):
            raise EOFError("the connection was closed")  # noqa: TRY004 reason: it is no wrong type
        return event

    def abort(self) -> None:
        self._writer.transport.abort()


async def _once(*pieces: bytes) -> AsyncGenerator[bytes]:
    for piece in pieces:
        yield piece


def _expect_found(status: int) -> None:
    if status in (400, 404, 410):
        raise FetchRefused(notes.GONE_THERE)
    if status != 200:
        raise FetchFailed(f"it was answered with {status}")


def _reason(error: BaseException) -> str:
    return str(error) or ("it took too long" if isinstance(error, TimeoutError) else type(error).__name__)

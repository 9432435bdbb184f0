"""Connections that speak HTTP/1.1 over asyncio's streams with h11, each used again for as long as it is fresh."""

from __future__ import annotations

import asyncio
import select
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterable, Callable
from typing import Any

import h11

STILL_FRESH = 15.0  # seconds that an idle connection is trusted to be there still
SILENCE = 30.0  # seconds in which the other side takes nothing more
PIECE = 65536


class Server:
    """One server, and the connections to it that nobody uses now."""

    def __init__(self, host: str, port: int, secure: Callable[[], ssl.SSLContext] | None = None) -> None:
        """`secure` makes what is needed for TLS, where that is spoken: asked once, and only when it is needed."""
        self._host = host
        self._port = port
        self._secure = secure
        self._context: ssl.SSLContext | None = None
        self._idle: list[Connection] = []

    async def connect(self, at_most: float | None) -> Connection:
        """A connection that nobody uses. Raises OSError, TimeoutError, or ValueError for a host that is none."""
        while self._idle:
            connection = self._idle.pop()
            if connection.fresh:
                return connection
            connection.abort()
        async with asyncio.timeout(at_most):
            return Connection(*await asyncio.open_connection(self._host, self._port, **self._secured()))

    def keep(self, connection: Connection) -> None:
        """Keep a connection for the next request, and let go of those that nobody has needed for long."""
        if connection.reusable:
            self._idle.append(connection)
        else:
            connection.abort()
        while self._idle and not self._idle[0].fresh:
            self._idle.pop(0).abort()

    def close(self) -> None:
        while self._idle:
            self._idle.pop().abort()

    def _secured(self) -> dict[str, Any]:
        if self._secure is None:
            return {}
        if self._context is None:
            self._context = self._secure()
        return {"ssl": self._context, "happy_eyeballs_delay": 0.25}


class Connection:
    """One connection: a request, its answer to the end, and then the next.

    Whatever goes wrong is an OSError, an EOFError or an error of h11; then it is of no use any more, but to be
    aborted.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._state = h11.Connection(h11.CLIENT)
        self._since = time.monotonic()
        self._held: Any = None  # the event behind what was given last

    @property
    def fresh(self) -> bool:
        """Whether it may be used again: it has not been idle for long, and nobody has closed it."""
        closed = self._writer.is_closing() or self._reader.at_eof()
        return time.monotonic() - self._since < STILL_FRESH and not closed and not self._readable()

    def _readable(self) -> bool:
        """Whether the kernel has something for us that the event loop has not seen yet. Unasked, it is the end."""
        poll = select.poll()
        poll.register(self._writer.get_extra_info("socket").fileno(), select.POLLIN)
        return bool(poll.poll(0))

    @property
    def reusable(self) -> bool:
        return self._state.our_state is h11.IDLE

    async def send(self, request: h11.Request, body: AsyncIterable[bytes]) -> None:
        """Send a request, as fast as the other side takes it."""
        head = self._state.send(request) or b""
        async for piece in body:
            self._writer.write(head + (self._state.send(h11.Data(data=piece)) or b""))
            head = b""
            async with asyncio.timeout(SILENCE):
                await self._writer.drain()
        self._writer.write(head + (self._state.send(h11.EndOfMessage()) or b""))
        await self._writer.drain()

    async def head(self) -> h11.Response:
        """The status and the headers of the answer, whose pieces are still to be read."""
        while not isinstance(event := await self._next(), h11.Response):
            pass  # only what says that an answer will come
        return event

    async def piece(self) -> bytes | None:
        """What has come of the answer's body since the last piece; None at its end."""
        event = self._held or await self._next()
        self._held, pieces = None, []
        while isinstance(event, h11.Data):
            pieces.append(bytes(event.data))
            event = self._state.next_event()
        if pieces:
            self._held = None if event is h11.NEED_DATA else event
            return b"".join(pieces)
        if self._state.our_state is h11.DONE and self._state.their_state is h11.DONE:
            self._state.start_next_cycle()
        self._since = time.monotonic()
        return None

    async def pieces(self) -> AsyncGenerator[bytes]:
        while (piece := await self.piece()) is not None:
            yield piece

    async def _next(self) -> Any:
        while (event := self._state.next_event()) is h11.NEED_DATA:
            self._state.receive_data(await self._reader.read(PIECE))
        if isinstance(event, h11.ConnectionClosed):
            raise EOFError("the connection was closed")  # noqa: TRY004 reason: it is no wrong type
        return event

    def abort(self) -> None:
        self._writer.transport.abort()


def reason(error: BaseException) -> str:
    """Why an exchange failed, in words."""
    return str(error) or ("it took too long" if isinstance(error, TimeoutError) else type(error).__name__)

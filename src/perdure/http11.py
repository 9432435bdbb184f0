"""Connections that speak HTTP/1.1 on asyncio's transports with h11, each used again for as long as it is fresh."""

from __future__ import annotations

import asyncio
import select
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterable, Callable
from typing import Any, cast

import h11

STILL_FRESH = 15.0  # seconds that an idle connection is trusted to be there still
SILENCE = 30.0  # seconds in which the other side takes nothing more
PIECE = 65536  # bytes that are given to the other side at once
MOST_AHEAD = 4 * PIECE  # bytes that may come before somebody has read them


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
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(at_most):
            _, connection = await loop.create_connection(Connection, self._host, self._port, **self._secured())
        return connection

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


class Connection(asyncio.Protocol):
    """One connection: a request, its answer to the end, and then the next.

    Whatever goes wrong is an OSError, an EOFError or an error of h11; then it is of no use any more, but to be
    aborted. What comes unasked belongs to no request, and ends it.
    """

    def __init__(self) -> None:
        self._state = h11.Connection(h11.CLIENT)
        self._since = time.monotonic()
        self._idle = True
        self._held: Any = None  # the event, or error, behind what was given last
        self._ahead = 0  # bytes that have come since somebody waited for more
        self._over = False
        self._error: Exception | None = None
        self._more = asyncio.Event()  # something has come, or nothing will any more
        self._room = asyncio.Event()  # the other side takes more
        self._room.set()

    # ── what the event loop says ────────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._idle:
            self.abort()
            return
        self._state.receive_data(data)
        self._ahead += len(data)
        if self._ahead > MOST_AHEAD:
            self._transport.pause_reading()
        self._more.set()

    def eof_received(self) -> None:
        if not self._idle:
            self._state.receive_data(b"")
        self._end(None)

    def connection_lost(self, error: Exception | None) -> None:
        self._end(error)

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    def _end(self, error: Exception | None) -> None:
        self._over = True
        self._error = self._error or error
        self._more.set()
        self._room.set()

    # ── what its user does ──────────────────────────────────────────────────────────────────────────────────

    @property
    def fresh(self) -> bool:
        """Whether it may be used again: it has not been idle for long, and nobody has ended it."""
        return time.monotonic() - self._since < STILL_FRESH and not self._over and not self._readable()

    def _readable(self) -> bool:
        """Whether the kernel has something for us that the event loop has not seen yet. Unasked, it is the end."""
        poll = select.poll()
        poll.register(self._transport.get_extra_info("socket").fileno(), select.POLLIN)
        return bool(poll.poll(0))

    @property
    def reusable(self) -> bool:
        return self._idle and not self._over

    async def send(self, request: h11.Request, body: AsyncIterable[bytes]) -> None:
        """Send a request, as fast as the other side takes it."""
        self._idle = False
        head = self._state.send(request) or b""
        async for piece in body:
            for start in range(0, len(piece), PIECE):
                data = h11.Data(data=piece[start : start + PIECE])
                await self._write(head + (self._state.send(data) or b""))
                head = b""
        await self._write(head + (self._state.send(h11.EndOfMessage()) or b""))

    async def _write(self, data: bytes) -> None:
        if data and self._over:  # with nothing left to say, what was answered before the end is still to be read
            raise self._error or EOFError("the connection was closed")
        if data:
            self._transport.write(data)
        if not self._room.is_set():
            async with asyncio.timeout(SILENCE):
                await self._room.wait()

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
            event = self._look()
        if pieces:
            self._held = None if event is h11.NEED_DATA else event
            return b"".join(pieces)
        if isinstance(event, h11.RemoteProtocolError):
            raise event
        self._end_exchange()
        return None

    def _look(self) -> Any:
        """The next event, if it is there. What is wrong with it does not take away what came before."""
        try:
            return self._state.next_event()
        except h11.RemoteProtocolError as error:
            return error

    def _end_exchange(self) -> None:
        both = self._state.our_state is h11.DONE and self._state.their_state is h11.DONE
        if both and not self._state.trailing_data[0]:
            self._state.start_next_cycle()
            self._idle, self._since = True, time.monotonic()

    async def pieces(self) -> AsyncGenerator[bytes]:
        while (piece := await self.piece()) is not None:
            yield piece

    async def _next(self) -> Any:
        while (event := self._state.next_event()) is h11.NEED_DATA:
            if self._over:
                raise self._error or EOFError("the connection was closed")
            self._more.clear()
            if self._ahead > MOST_AHEAD:
                self._transport.resume_reading()
            self._ahead = 0
            await self._more.wait()
        if isinstance(event, h11.ConnectionClosed):
            raise EOFError("the connection was closed")  # noqa: TRY004 reason: it is no wrong type
        return event

    def abort(self) -> None:
        self._over = True
        self._transport.abort()


def reason(error: BaseException) -> str:
    """Why an exchange failed, in words."""
    return str(error) or ("it took too long" if isinstance(error, TimeoutError) else type(error).__name__)

"""A pool of HTTP/1.1 client connections on asyncio's transports, with h11."""

from __future__ import annotations

import asyncio
import select
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Sequence
from typing import Any, cast

import h11
from msgspec import Struct

MAX_IDLE_SECONDS = 15.0  # after which an idle connection is not used again
WRITE_TIMEOUT_SECONDS = 30.0  # without progress in writing to the server
CHUNK_BYTES = 65536  # written at once
MAX_BUFFERED_BYTES = 4 * CHUNK_BYTES  # received and not yet read, before reading is paused


class ProxyTunnel(Struct, frozen=True):
    """A proxy that passes bytes on to a server, without reading them."""

    host: str
    port: int
    make_tls_context: Callable[[], ssl.SSLContext] | None = None  # of the connection to the proxy itself
    headers: tuple[tuple[str, str], ...] = ()


class ConnectionPool:
    """The idle connections to one server."""

    def __init__(
        self,
        host: str,
        port: int,
        make_tls_context: Callable[[], ssl.SSLContext] | None = None,
        tunnel: ProxyTunnel | None = None,
    ) -> None:
        """`make_tls_context` is called once, for the first connection; None: no TLS, and no tunnel."""
        self._host = host
        self._port = port
        self._make_tls_context = make_tls_context
        self._tls_context: ssl.SSLContext | None = None
        self._tunnel = tunnel
        self._idle: list[HttpConnection] = []

    async def connect(self, timeout_seconds: float | None) -> HttpConnection:
        """An idle or a new connection. Raises OSError, TimeoutError, or ValueError for an invalid host."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_fresh:
                return connection
            connection.abort()
        async with asyncio.timeout(timeout_seconds):
            if self._tunnel is not None:
                return await self._connect_through(self._tunnel)
            return await _connect(self._host, self._port, self._server_tls())

    def release(self, connection: HttpConnection) -> None:
        """Keep a connection for the next request, and close those that were idle for too long."""
        if connection.is_reusable:
            self._idle.append(connection)
        else:
            connection.abort()
        while self._idle and not self._idle[0].is_fresh:
            self._idle.pop(0).abort()

    def close(self) -> None:
        while self._idle:
            self._idle.pop().abort()

    def _server_tls(self) -> ssl.SSLContext | None:
        if self._tls_context is None and self._make_tls_context is not None:
            self._tls_context = self._make_tls_context()
        return self._tls_context

    async def _connect_through(self, tunnel: ProxyTunnel) -> HttpConnection:
        """A connection whose bytes a proxy passes on; TLS begins inside it, so the proxy cannot read them."""
        to_proxy = tunnel.make_tls_context() if tunnel.make_tls_context else None
        proxy = await _connect(tunnel.host, tunnel.port, to_proxy)
        try:
            await proxy.request_tunnel(format_authority(self._host, self._port), tunnel.headers)
            return await proxy.begin_tls(cast("ssl.SSLContext", self._server_tls()), self._host)
        except BaseException:  # reason: half a tunnel must not be left open
            proxy.abort()
            raise


async def _connect(host: str, port: int, tls_context: ssl.SSLContext | None) -> HttpConnection:
    options: dict[str, Any] = {"ssl": tls_context, "happy_eyeballs_delay": 0.25} if tls_context else {}
    _, connection = await asyncio.get_running_loop().create_connection(HttpConnection, host, port, **options)
    return connection


def format_authority(host: str, port: int) -> str:
    """A host and its port as a request names them."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class HttpConnection(asyncio.Protocol):
    """One connection: a request, its whole response, and then the next request.

    Failures raise OSError, EOFError or an error of h11; after one, the connection can only be aborted. Data that
    arrives between requests belongs to none of them and ends the connection.
    """

    def __init__(self) -> None:
        self._h11 = h11.Connection(h11.CLIENT)
        self._idle_since = time.monotonic()
        self._idle = True
        self._held_event: Any = None  # the event, or error, that follows the chunk read last
        self._buffered_bytes = 0  # received since the last wait for data
        self._closed = False
        self._error: Exception | None = None
        self._data_arrived = asyncio.Event()  # data or the end has arrived
        self._writable = asyncio.Event()  # the transport accepts more data
        self._writable.set()

    # ── callbacks of the event loop ─────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._idle:
            self.abort()
            return
        self._h11.receive_data(data)
        self._buffered_bytes += len(data)
        if self._buffered_bytes > MAX_BUFFERED_BYTES:
            self._transport.pause_reading()
        self._data_arrived.set()

    def eof_received(self) -> None:
        if not self._idle:
            self._h11.receive_data(b"")
        self._mark_closed(None)

    def connection_lost(self, error: Exception | None) -> None:
        self._mark_closed(error)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _mark_closed(self, error: Exception | None) -> None:
        self._closed = True
        self._error = self._error or error
        self._data_arrived.set()
        self._writable.set()

    # ── requests and responses ──────────────────────────────────────────────────────────────────────────────

    @property
    def is_fresh(self) -> bool:
        """Whether the connection may be used again: it was not idle for too long and is not closed."""
        return (
            time.monotonic() - self._idle_since < MAX_IDLE_SECONDS
            and not self._closed
            and not self._has_unread_bytes()
        )

    def _has_unread_bytes(self) -> bool:
        """Whether the kernel has data that the event loop has not read yet; between requests, it means the end."""
        poll = select.poll()
        poll.register(self._transport.get_extra_info("socket").fileno(), select.POLLIN)
        return bool(poll.poll(0))

    @property
    def is_reusable(self) -> bool:
        return self._idle and not self._closed

    async def send(self, request: h11.Request, body: AsyncIterable[bytes]) -> None:
        """Send a request, as fast as the server reads it."""
        self._idle = False
        head = self._h11.send(request) or b""
        async for piece in body:
            for start in range(0, len(piece), CHUNK_BYTES):
                data = h11.Data(data=piece[start : start + CHUNK_BYTES])
                await self._write(head + (self._h11.send(data) or b""))
                head = b""
        await self._write(head + (self._h11.send(h11.EndOfMessage()) or b""))

    async def _write(self, data: bytes) -> None:
        if data and self._closed:  # without data to send, a response that came before the end can still be read
            raise self._error or EOFError("the connection was closed")
        if data:
            self._transport.write(data)
        if not self._writable.is_set():
            async with asyncio.timeout(WRITE_TIMEOUT_SECONDS):
                await self._writable.wait()

    async def read_head(self) -> h11.Response:
        """Read the status and the headers of the response."""
        while not isinstance(event := await self._next_event(), h11.Response):
            pass  # an informational response; the final one follows
        return event

    async def read_chunk(self) -> bytes | None:
        """Read the part of the body that has arrived since the last chunk; None at its end."""
        event = self._held_event or await self._next_event()
        self._held_event, pieces = None, []
        while isinstance(event, h11.Data):
            pieces.append(bytes(event.data))
            event = self._try_next_event()
        if pieces:
            self._held_event = None if event is h11.NEED_DATA else event
            return b"".join(pieces)
        if isinstance(event, h11.RemoteProtocolError):
            raise event
        self._end_exchange()
        return None

    def _try_next_event(self) -> Any:
        """The next event, or its protocol error as a value, so that the data before it is not lost."""
        try:
            return self._h11.next_event()
        except h11.RemoteProtocolError as error:
            return error

    def _end_exchange(self) -> None:
        both = self._h11.our_state is h11.DONE and self._h11.their_state is h11.DONE
        if both and not self._h11.trailing_data[0]:
            self._h11.start_next_cycle()
            self._idle, self._idle_since = True, time.monotonic()

    async def read_chunks(self) -> AsyncGenerator[bytes]:
        while (piece := await self.read_chunk()) is not None:
            yield piece

    async def _next_event(self) -> Any:
        while (event := self._h11.next_event()) is h11.NEED_DATA:
            if self._closed:
                raise self._error or EOFError("the connection was closed")
            self._data_arrived.clear()
            if self._buffered_bytes > MAX_BUFFERED_BYTES:
                self._transport.resume_reading()
            self._buffered_bytes = 0
            await self._data_arrived.wait()
        if isinstance(event, h11.ConnectionClosed):
            raise EOFError("the connection was closed")  # noqa: TRY004 reason: it is no wrong type
        return event

    async def request_tunnel(self, authority: str, headers: Sequence[tuple[str, str]]) -> None:
        """Ask the proxy at the other end to connect to a server; OSError if it refuses."""
        request = h11.Request(method="CONNECT", target=authority, headers=[("Host", authority), *headers])
        await self.send(request, _no_body())
        answer = await self.read_head()
        if not 200 <= answer.status_code < 300:
            reason = bytes(answer.reason).decode(errors="replace")
            raise ConnectionRefusedError(f"the proxy refused to connect: {answer.status_code} {reason}".strip())

    async def begin_tls(self, context: ssl.SSLContext, host: str) -> HttpConnection:
        """Begin TLS with whoever is at the other end now; returns the connection inside it."""
        inner = HttpConnection()
        loop = asyncio.get_running_loop()
        transport = await loop.start_tls(self._transport, inner, context, server_hostname=host)
        inner.connection_made(cast("asyncio.BaseTransport", transport))
        return inner

    def abort(self) -> None:
        self._closed = True
        self._transport.abort()


async def _no_body() -> AsyncGenerator[bytes]:
    yield b""


def failure_reason(error: BaseException) -> str:
    """Why an exchange failed, in words."""
    return str(error) or ("it took too long" if isinstance(error, TimeoutError) else type(error).__name__)

"""A proxy to a local server that can be cut and mended, for stages whose platform is a server."""

from __future__ import annotations

import asyncio
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeAlias

import uvicorn
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

CHUNK_BYTES = 65536


class CutLine:
    """A proxy on a port of its own that passes everything on until it is cut. Use it within one event loop."""

    def __init__(self, port: int) -> None:
        self._target_port = port
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.port = 0

    async def mend(self) -> None:
        """Listen again, always on the same port."""
        if self._server is None:
            self._server = await asyncio.start_server(self._forward, "127.0.0.1", self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """Close every connection and refuse new ones. After return: all are closed."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for link in self._connections:
            link.cancel()
        if self._connections:
            await asyncio.wait(self._connections)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 reason: for the type; a server runs each connection in a task
        self._connections.add(task)
        far: asyncio.StreamWriter | None = None
        # Without this, asyncio would report the cancellation of a link as an error.
        with suppress(OSError, asyncio.CancelledError):
            beyond, far = await asyncio.open_connection("127.0.0.1", self._target_port)
            ends = [asyncio.create_task(_copy_stream(*ways)) for ways in ((reader, far), (beyond, writer))]
            try:
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for end in ends:
                    end.cancel()
        for end_of_line in (writer, far):
            if end_of_line is not None:
                end_of_line.transport.abort()
        self._connections.discard(task)


async def _copy_stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(CHUNK_BYTES):
            writer.write(piece)
            await writer.drain()


CloseConnection: TypeAlias = Callable[[Scope], None]  # closes the connection of a request

EVENT_STREAM_HEADER = (b"content-type", b"text/event-stream; charset=utf-8")
JSON_HEADER = (b"content-type", b"application/json")


class ClientGone(Exception):
    """The client has closed the connection."""


class ClientConnection:
    """Sends the answer to one client, and notices when the client leaves."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, close_connection: CloseConnection) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._close_connection = close_connection
        self._disconnected: asyncio.Task[None] | None = None

    async def read(self) -> bytes:
        """Read the body of the request; from then on, watch whether the client leaves."""
        parts: list[bytes] = []
        more = True
        while more:
            event = await self._receive()
            if event["type"] == "http.disconnect":
                raise ClientGone
            parts.append(event.get("body", b""))
            more = event.get("more_body", False)
        self._disconnected = asyncio.create_task(self._wait_for_disconnect())
        return b"".join(parts)

    async def answer(self, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
        """Send a complete answer."""
        self._raise_if_gone()
        length = (b"content-length", str(len(body)).encode())
        await self._start(status, JSON_HEADER, length, *headers)
        await self._send({"type": "http.response.body", "body": body})

    async def start(self, status: int, size: int) -> None:
        """Send the head of an answer of a known size; its body follows in pieces."""
        self._raise_if_gone()
        await self._start(status, (b"content-length", str(size).encode()))

    async def begin(self) -> None:
        """Send the head of a stream."""
        await self._start(200, EVENT_STREAM_HEADER, (b"cache-control", b"no-cache"))

    async def push(self, body: bytes) -> None:
        """Send more of the body as soon as the client can take it."""
        self._raise_if_gone()
        await self._send({"type": "http.response.body", "body": body, "more_body": True})
        # A fast client never blocks this loop; let other tasks run, and let the client's leaving be noticed.
        await asyncio.sleep(0)

    async def finish(self, body: bytes) -> None:
        """Send the last bytes of a stream and end it."""
        self._raise_if_gone()
        await self._send({"type": "http.response.body", "body": body})

    async def pause(self, seconds: float | None = None) -> None:
        """Send nothing for some seconds, or until the client leaves."""
        if seconds is None or seconds > 0:
            await asyncio.wait({self._disconnect_task()}, timeout=seconds)
        self._raise_if_gone()

    async def wait_for(self, fact: Awaitable[Any]) -> None:
        """Send nothing until an event is set."""
        awaited = asyncio.ensure_future(fact)
        try:
            await asyncio.wait({self._disconnect_task(), awaited}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            awaited.cancel()
        self._raise_if_gone()

    async def cut(self) -> None:
        """Close the connection in the middle of the answer."""
        self._close_connection(self._scope)
        await self._disconnect_task()

    async def stop_watching(self) -> None:
        """Stop watching whether the client leaves."""
        if self._disconnected is not None:
            self._disconnected.cancel()
            await asyncio.wait({self._disconnected})

    def _disconnect_task(self) -> asyncio.Task[None]:
        assert self._disconnected is not None, "the request was not read"  # noqa: S101
        return self._disconnected

    def _raise_if_gone(self) -> None:
        if self._disconnect_task().done():
            raise ClientGone

    async def _start(self, status: int, *headers: tuple[bytes, bytes]) -> None:
        identity = ((b"x-request-id", b"req_local"), (b"request-id", b"req_local"))
        await self._send({"type": "http.response.start", "status": status, "headers": [*headers, *identity]})

    async def _wait_for_disconnect(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass


KEEP_ALIVE_SECONDS = 75  # seconds; longer than clients keep a connection open
CLOSE_SECONDS = 5  # seconds that clients have to notice their disconnection


class LocalServer(ABC):
    """Serves inside a `with` block."""

    def __init__(self, name: str, port: int = 0) -> None:
        self._port = port
        self._port_ready: Future[int] = Future()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        self._port = self._port_ready.result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @abstractmethod
    def _app(self, close_connection: CloseConnection) -> Starlette:
        """Return the application; `close_connection` closes the connection of a request."""

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # the thread that waits for the start raises the error
            if self._port_ready.done():
                raise
            self._port_ready.set_exception(error)

    async def _serve(self) -> None:
        listening = _listening_socket(self._port)
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = _CuttingServer(
            self._app, self._stop, lambda: self._port_ready.set_result(listening.getsockname()[1])
        )
        await server.serve(sockets=[listening])


class _CuttingServer(uvicorn.Server):
    """A uvicorn server that stops at an event, disconnects its clients then, and can disconnect any client."""

    def __init__(
        self,
        make_app: Callable[[CloseConnection], Starlette],
        stop: asyncio.Event,
        notify_listening: Callable[[], None],
    ) -> None:
        super().__init__(
            uvicorn.Config(
                make_app(self.close_connection),
                http="h11",
                lifespan="off",
                log_config=None,
                access_log=False,
                ws="none",
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=CLOSE_SECONDS,
            )
        )
        self._stop = stop
        self._notify_listening = notify_listening

    async def main_loop(self) -> None:
        self._notify_listening()
        await self._stop.wait()
        for connection in list(self.server_state.connections):
            connection.transport.close()

    def close_connection(self, scope: Scope) -> None:
        for connection in list(self.server_state.connections):
            if getattr(connection, "client", None) == scope["client"]:
                connection.transport.close()


def _listening_socket(port: int) -> socket.socket:
    # Declared as TCP, so that asyncio sets TCP_NODELAY: otherwise a small write may wait 40 ms for an ACK.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
    except OSError:
        listening.close()
        raise
    return listening

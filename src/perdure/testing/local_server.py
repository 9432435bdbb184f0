"""An HTTP server in a thread with its own event loop, which can disconnect any of its clients."""

from __future__ import annotations

import asyncio
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Self

import uvicorn
from starlette.applications import Starlette
from starlette.types import Scope

from perdure.testing.client_connection import CloseConnection

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

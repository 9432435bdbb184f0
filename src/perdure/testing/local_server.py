"""A real HTTP server of a test, in a thread with its own event loop; it can cut off any of its clients."""

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

KEEP_ALIVE_SECONDS = 75  # seconds; longer than clients keep a connection
CLOSE_SECONDS = 5  # seconds that clients get to notice that they were cut off


class LocalServer(ABC):
    """Listens while its `with` block runs."""

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
        """What answers; `hang_up` closes the connection that a request came over."""

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # whatever it is, it belongs to the thread that waits for us to listen
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
    """Uvicorn that stops at an event, cuts off whoever is still being answered, and can cut off any client."""

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
    # Named as TCP, so that asyncio sends small pieces at once: otherwise each may wait 40 ms for the one before.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
    except OSError:
        listening.close()
        raise
    return listening

"""The gateway as a process: its loops and its HTTP server in one event loop, stopped by signals."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import quote

import uvicorn

from perdure.config import Settings
from perdure.console.app import create_app
from perdure.console.tokens import ensure_token
from perdure.errors import ConfigurationError
from perdure.logs import Log
from perdure.runtime.gateway import Ending, Gateway

log = Log("serve")

_BUSY = "Is another gateway running? Stop it, or choose another port: PERDURE_WEB__PORT=8421, say."

CLOSING = 3  # seconds that open requests get when everything else has stopped
WEDGED = 20.0  # seconds after the drain deadline at which a stop that does not end is ended


class _Server(uvicorn.Server):
    """Uvicorn without its signal handlers: the gateway decides when to stop."""

    def __init__(self, config: uvicorn.Config, on_listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_listening = on_listening

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._on_listening()


async def serve(settings: Settings, *, on_ready: Callable[[str], None], lifeline: int | None = None) -> Ending:
    """Run a gateway until a signal stops it. `on_ready` gets the address to log in at."""
    listening = listen(settings.web.host, settings.web.port)
    token = ensure_token(settings.home)
    gateway = Gateway(settings)
    config = uvicorn.Config(
        create_app(gateway, token),
        lifespan="off",
        log_config=None,
        access_log=False,
        ws="none",
        timeout_graceful_shutdown=CLOSING,
    )
    url = _login_url(listening, token)
    server = _Server(config, lambda: on_ready(url))
    _obey_signals(gateway, lifeline)
    try:
        return await _run_both(gateway, server, listening)
    finally:
        listening.close()


async def _run_both(gateway: Gateway, server: _Server, listening: socket.socket) -> Ending:
    """The server listens from the moment the gateway is ready until the gateway has stopped."""
    ready = asyncio.Event()
    running = asyncio.create_task(gateway.run(ready.set))
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    serving = asyncio.create_task(server.serve(sockets=[listening])) if ready.is_set() else None
    try:
        return await running
    finally:
        server.should_exit = True
        if serving is not None:
            await serving


def listen(host: str, port: int) -> socket.socket:
    """Take the port, without answering on it yet."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP, so that asyncio sends small answers at once: otherwise each may wait 40 ms for the one before.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, UnicodeError) as error:  # the latter if the host can be no name at all
        listening.close()
        busy = getattr(error, "errno", None) == errno.EADDRINUSE
        raise ConfigurationError(
            f"cannot listen on {host} port {port}: {getattr(error, 'strerror', None) or error}",
            hint=_BUSY if busy else "Set web.host to an address of this machine, and web.port to one you may use.",
        ) from error
    return listening


def _login_url(listening: socket.socket, token: str) -> str:
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/login?token={quote(token)}"


def _obey_signals(gateway: Gateway, lifeline: int | None) -> None:
    """A signal asks for an orderly stop, a second one for a quick one; so does the end of our supervisor."""
    loop = asyncio.get_running_loop()
    longest = gateway.settings.drain.deadline + WEDGED

    def stop() -> None:
        gateway.stop()
        _end_by(longest)

    def restart() -> None:
        gateway.restart()
        _end_by(longest)

    def abandoned() -> None:
        loop.remove_reader(lifeline or 0)
        stop()
        stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    loop.add_signal_handler(signal.SIGUSR1, restart)

    if lifeline is not None:
        loop.add_reader(lifeline, abandoned)


def _end_by(seconds: float) -> None:
    """Whatever wedges, the process ends: what was not recorded as done is found at the next start."""

    def give_up() -> None:
        log.error("teardown_wedged", after=seconds)
        os._exit(1)

    last_resort = threading.Timer(seconds, give_up)
    last_resort.daemon = True
    last_resort.start()

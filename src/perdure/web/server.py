"""Runs the gateway and its HTTP server in one event loop until a signal stops them."""

from __future__ import annotations

import asyncio
import errno
import faulthandler
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from ipaddress import ip_address
from typing import cast
from urllib.parse import quote

import uvicorn

from perdure import logs
from perdure.config import Settings
from perdure.errors import ConfigurationError, Unavailable
from perdure.logs import Log
from perdure.runtime.gateway import Gateway, StopKind
from perdure.web.app import create_app
from perdure.web.auth.lookup import record_home_token
from perdure.web.auth.token import ensure_token, has_token, is_token_shared
from perdure.web.connection_limits import KEEP_ALIVE_SECONDS, ConnectionLimits, LimitedHttpProtocol

log = Log("server")

_PORT_BUSY_HINT = "Is another gateway running? Stop it, or choose another port: PERDURE_WEB__PORT=8421, say."

LISTEN_BACKLOG = 1024  # connections that the kernel keeps until they are accepted
SHUTDOWN_SECONDS = 3  # for open requests, after everything else has stopped
MIN_STOP_SECONDS = 1.0  # for any stop
TICKS_PER_SECOND = 10  # of uvicorn's main loop


class ExitDeadline:
    """Ends the process by the earliest deadline it was given, with code 1 and every thread's stack in the log.

    The next start recovers the turns that were interrupted. It works even if the event loop is stuck.
    """

    def __init__(self) -> None:
        self._deadline = float("inf")

    def exit_within(self, seconds: float) -> None:
        now = time.monotonic()
        if now + seconds < self._deadline:
            self._deadline = now + seconds
            faulthandler.dump_traceback_later(max(seconds, MIN_STOP_SECONDS), exit=True)


class _GatewayServer(uvicorn.Server):
    """Uvicorn without its signal handlers, and with limits: the gateway decides when to stop."""

    def __init__(self, config: uvicorn.Config, limits: ConnectionLimits, on_listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._limits = limits
        self._on_listening = on_listening

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        for each in sockets or ():
            each.listen(LISTEN_BACKLOG)  # again: asyncio has taken the number that it accepts at once
        self._on_listening()

    async def on_tick(self, counter: int) -> bool:
        if counter % TICKS_PER_SECOND == 0:
            self._limits.close_overdue()
            logs.report_left_out()
        return await super().on_tick(counter)


async def serve(
    settings: Settings,
    *,
    on_ready: Callable[[str], None],
    lifeline: int | None = None,
    make_gateway: Callable[..., Gateway] = Gateway,
) -> StopKind:
    """Run a gateway until a signal stops it; `on_ready` gets the URL of the login link."""
    listening = listen(settings.web.host, settings.web.port)
    loopback = ip_address(listening.getsockname()[0].partition("%")[0]).is_loopback
    token = _login_token(settings, loopback=loopback)
    last_resort = ExitDeadline()
    gateway = make_gateway(settings)
    gateway.end_by = last_resort.exit_within
    web = settings.web
    limits = ConnectionLimits(web.max_connections, web.proxies)
    protocol = partial(LimitedHttpProtocol, limits=limits, request_seconds=web.request_timeout)
    config = uvicorn.Config(
        create_app(gateway, token, loopback=loopback, supervised=lifeline is not None),
        http=cast("type[asyncio.Protocol]", protocol),
        backlog=limits.accepted_at_once,
        proxy_headers=bool(web.proxies),
        forwarded_allow_ips=web.proxies,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    url = _login_url(listening, token)
    server = _GatewayServer(config, limits, lambda: on_ready(url))
    _install_signal_handlers(gateway, last_resort, lifeline)
    try:
        return await _run_gateway_and_server(gateway, server, listening, token)
    finally:
        listening.close()


async def _run_gateway_and_server(
    gateway: Gateway, server: _GatewayServer, listening: socket.socket, token: str
) -> StopKind:
    """The server listens from the moment the gateway is ready until the gateway has stopped."""
    ready = asyncio.Event()
    running = asyncio.create_task(gateway.run(ready.set))
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    serving = None
    try:
        if ready.is_set():
            with suppress(Unavailable):  # the next login of a browser stores it
                await record_home_token(gateway, token)
            serving = asyncio.create_task(server.serve(sockets=[listening]))
        return await running
    finally:
        server.should_exit = True
        if serving is not None:
            await serving


def listen(host: str, port: int) -> socket.socket:
    """Bind the port; nothing is accepted on it yet."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio sets TCP_NODELAY; otherwise a small response may wait 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, UnicodeError) as error:  # UnicodeError if the host cannot be a name at all
        listening.close()
        busy = getattr(error, "errno", None) == errno.EADDRINUSE
        raise ConfigurationError(
            f"cannot listen on {host} port {port}: {getattr(error, 'strerror', None) or error}",
            hint=_PORT_BUSY_HINT
            if busy
            else "Set web.host to an address of this machine, and web.port to one you may use.",
        ) from error
    return listening


def _login_token(settings: Settings, *, loopback: bool) -> str:
    """The token of the home. On an address that other machines reach, an operator must have created it."""
    home = settings.home
    if not loopback and not has_token(home):
        raise ConfigurationError(
            f"web.host is {settings.web.host}, where other machines reach it, and there is no login token yet",
            hint="Run `perdure token` once, with the same PERDURE_HOME: it makes the token that everybody needs "
            "to get in, and shows it. Then start the gateway again.",
        )
    token = ensure_token(home)
    if is_token_shared(home):
        log.warning(
            "token_is_shared", file=home / "token", hint="Others may read it. Run: chmod 600, or make a new one."
        )
    return token


def _login_url(listening: socket.socket, token: str) -> str:
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/login?token={quote(token)}"


def _install_signal_handlers(gateway: Gateway, exit_deadline: ExitDeadline, lifeline: int | None) -> None:
    """A signal asks for an orderly stop, a second signal for a quick one; the supervisor's end counts as both."""
    loop = asyncio.get_running_loop()

    def set_deadline(*_: object) -> None:
        exit_deadline.exit_within(gateway.settings.drain.max_seconds)

    def stop_quickly() -> None:
        loop.remove_reader(lifeline or 0)
        gateway.stop()
        gateway.stop()

    actions = {signal.SIGTERM: gateway.stop, signal.SIGINT: gateway.stop, signal.SIGUSR1: gateway.restart}
    for number, action in actions.items():
        loop.add_signal_handler(number, action)
        # Beside the loop's handler, which never runs if the loop is stuck.
        signal.signal(number, set_deadline)

    if lifeline is not None:
        loop.add_reader(lifeline, stop_quickly)

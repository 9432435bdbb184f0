"""A process with all modules loaded that forks a gateway for each launch spec it reads.

The drill starts it as `python -m perdure.testing.drill.fork_server`. It reads one launch spec per line, and writes
the pid of each gateway and later its exit status. It has no threads and no event loop, so that forking is safe.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct

from perdure import logs
from perdure.plugins import load_object
from perdure.runtime.gateway import Gateway
from perdure.store.database import Database
from perdure.testing.drill import protocol
from perdure.testing.drill.gateway_spawner import GatewayExited, GatewayLaunchSpec, GatewayStarted, decode_settings
from perdure.testing.drill.scenarios import PLATFORMS
from perdure.testing.drill.socket_adapter import PlatformSocket, SocketAdapter
from perdure.testing.faults import KillingDatabase, SettableClock

# Modules that a gateway imports lazily, and would import again after every fork.
PRELOADED_MODULES = ("perdure.store.backends.sqlite", "perdure.store.migrate", "perdure.tools.shell_policy.policy")


def main() -> None:
    for name in PRELOADED_MODULES:
        importlib.import_module(name)
    for line in sys.stdin.buffer:
        order = msgspec.json.decode(line, type=GatewayLaunchSpec)
        pid = os.fork()
        if pid == 0:
            _run_gateway(order)
        _write_message(GatewayStarted(pid))
        _write_message(GatewayExited(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))


def _write_message(message: Struct) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
    sys.stdout.buffer.flush()


def _run_gateway(spec: GatewayLaunchSpec) -> None:
    """Run the gateway until this process ends."""
    code = 1
    try:
        _redirect(Path(spec.log))
        logs.to_stderr()
        asyncio.run(_serve(spec))
        code = 0
    except BaseException:  # noqa: BLE001 reason: it is in the log, and there is nobody above us to tell
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


def _redirect(log: Path) -> None:
    """Detach standard input and output from those of the fork server."""
    nothing = os.open(os.devnull, os.O_RDWR)
    written = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for here, there in ((nothing, 0), (nothing, 1), (written, 2)):
        os.dup2(here, there)


async def _serve(spec: GatewayLaunchSpec) -> None:
    socket = await PlatformSocket.open(Path(spec.line))
    databases: list[KillingDatabase] = []

    def wrap(database: Database) -> Database:
        databases.append(KillingDatabase(database, spec.at, after=spec.after, lease_ahead=spec.lease_ahead))
        return databases[0]

    def arm(armed: protocol.Arm) -> None:
        databases[0].arm(armed.at, after=armed.after, refuse=armed.refuse)

    clock = SettableClock()
    clock.ahead = spec.ahead
    names = spec.platforms or list(PLATFORMS)
    adapters = [SocketAdapter(name, PLATFORMS[name], socket) for name in names]
    settings = decode_settings(spec.settings)
    gateway = _gateway_factory(spec)(settings, adapters=adapters, wrap=wrap, clock=clock)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, gateway.stop)
    hearing = asyncio.create_task(socket.read_messages(arm))
    await gateway.run(lambda: socket.send(protocol.GatewayReady()))
    hearing.cancel()


def _gateway_factory(spec: GatewayLaunchSpec) -> Callable[..., Gateway]:
    maker: Callable[..., Gateway] = load_object(spec.gateway, Path(spec.modules)) if spec.gateway else Gateway
    return maker


if __name__ == "__main__":
    main()

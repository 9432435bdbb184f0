"""Starts the gateways of a drill one at a time, and ends them with SIGKILL or in an orderly way."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from perdure.config import Settings
from perdure.errors import PerdureError

KILLED_EXIT_CODE = -signal.SIGKILL
STOP_TIMEOUT_SECONDS = 60.0  # seconds that an orderly stop may take


class GatewayLaunchSpec(Struct, frozen=True):
    """The settings, socket and kill point of a gateway to fork."""

    settings: dict[str, Any]
    line: str  # path of the platforms' socket
    log: str
    ahead: int = 0  # milliseconds by which the gateway's clock is ahead
    at: int | None = None  # number of the store call at which the gateway is killed
    after: bool = False
    gateway: str = ""  # `module:object` that makes the gateway; empty: `perdure.Gateway`
    modules: str = ""  # a directory to import that module from
    lease_ahead: int = 0  # milliseconds by which the database's clock is ahead for this gateway
    platforms: list[str] = []  # the platforms that it has; empty: all


class GatewayStarted(Struct, frozen=True, tag=True):
    pid: int


class GatewayExited(Struct, frozen=True, tag=True):
    code: int  # exit code; negative: the number of the signal


def encode_settings(settings: Settings) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(settings, enc_hook=str)  # JSON has no paths
    return found


def decode_settings(settings: dict[str, Any]) -> Settings:
    return msgspec.convert(settings, Settings, dec_hook=lambda kind, value: kind(value))


message_decoder: msgspec.json.Decoder[GatewayStarted | GatewayExited] = msgspec.json.Decoder(
    GatewayStarted | GatewayExited
)


class DrilledGateway:
    """A gateway of a drill, running or ended."""

    def __init__(self, pid: int, ending: asyncio.Task[int]) -> None:
        self._pid = pid
        self._exit_task = ending

    @property
    def is_over(self) -> bool:
        return self._exit_task.done()

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    async def wait_until_killed(self) -> None:
        """Wait for the end of the gateway; fail unless SIGKILL ended it."""
        code = await self._exit_task
        if code != KILLED_EXIT_CODE:
            raise PerdureError(f"the gateway was to be killed, but ended by itself with code {code}")

    async def stop(self) -> None:
        """Stop the gateway in an orderly way."""
        self._signal(signal.SIGTERM)
        async with asyncio.timeout(STOP_TIMEOUT_SECONDS):
            code = await self._exit_task
        if code != 0:
            raise PerdureError(f"the gateway was to stop in an orderly way, but ended with code {code}")

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        if not self.is_over:
            with suppress(ProcessLookupError):  # the gateway has ended by itself
                os.kill(self._pid, number)


class GatewaySpawner:
    """Owns the fork server from which the gateways of a drill are forked."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._current: DrilledGateway | None = None

    async def open(self, home: Path) -> None:
        # In a session of its own: Ctrl-C at the terminal interrupts the drill, not its gateways.
        words = [sys.executable, "-m", "perdure.testing.drill.fork_server"]
        self._process = await asyncio.create_subprocess_exec(
            *words, stdin=PIPE, stdout=PIPE, cwd=home, start_new_session=True
        )

    async def start(self, spec: GatewayLaunchSpec) -> DrilledGateway:
        process = self._require_process()
        assert process.stdin is not None  # noqa: S101 reason: for the type; it is a pipe
        process.stdin.write(msgspec.json.encode(spec) + b"\n")
        begun = await self._read_message()
        if not isinstance(begun, GatewayStarted):
            raise PerdureError(f"the drill's own process said {begun}, and began no gateway")
        self._current = DrilledGateway(begun.pid, asyncio.create_task(self._wait_for_exit()))
        return self._current

    def kill(self) -> None:
        """Kill the gateway that runs, if there is one."""
        if self._current is not None:
            self._current.kill()

    async def close(self) -> None:
        self.kill()
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            await self._process.wait()

    def _require_process(self) -> Process:
        if self._process is None:
            raise PerdureError("the drill has not been opened")
        return self._process

    async def _read_message(self) -> GatewayStarted | GatewayExited:
        output = self._require_process().stdout
        assert output is not None  # noqa: S101 reason: for the type; it is a pipe
        line = await output.readline()
        if not line:
            raise PerdureError("the process that starts the drill's gateways has ended by itself")
        return message_decoder.decode(line)

    async def _wait_for_exit(self) -> int:
        over = await self._read_message()
        return over.code if isinstance(over, GatewayExited) else 0

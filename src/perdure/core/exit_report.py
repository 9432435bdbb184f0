"""How a gateway's process died, as its supervisor saw it and reports it to the next process."""

from __future__ import annotations

import signal

import msgspec
from msgspec import Struct

LAUNCH_VERSION = 1  # of the text that a supervisor passes to the gateway


class ExitReport(Struct, frozen=True):
    """How one launch of the gateway ended."""

    launch: str
    at: int  # UTC in milliseconds
    code: int  # the exit code; below zero, the number of the signal that killed the process


class GatewayLaunch(Struct, frozen=True):
    """What a supervisor passes to the gateway that it starts: the name of this launch, and earlier exits."""

    name: str
    deaths: tuple[ExitReport, ...] = ()
    version: int = LAUNCH_VERSION


def encode_launch(launch: GatewayLaunch) -> str:
    return msgspec.json.encode(launch).decode()


def decode_launch(text: str) -> GatewayLaunch | None:
    """The launch that a supervisor described; None if the text has another version or is not valid."""
    try:
        launch = msgspec.json.decode(text, type=GatewayLaunch)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    return launch if launch.version == LAUNCH_VERSION else None


def signal_name(number: int) -> str:
    """The name of a signal, such as SIGKILL."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"  # most real-time signals have no name

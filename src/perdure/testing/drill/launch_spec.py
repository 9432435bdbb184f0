"""The messages between a drill and its fork server: launch specs, and the pids and exit codes of gateways."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from perdure.config import Settings


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


class GatewayStarted(Struct, frozen=True, tag=True):
    pid: int


class GatewayExited(Struct, frozen=True, tag=True):
    code: int  # exit code; negative: the number of the signal


def encode_settings(settings: Settings) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(settings, enc_hook=str)  # JSON has no paths
    return found


def decode_settings(settings: dict[str, Any]) -> Settings:
    return msgspec.convert(settings, Settings, dec_hook=lambda kind, value: kind(value))

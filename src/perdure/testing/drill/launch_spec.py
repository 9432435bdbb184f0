"""What the drill tells the process that gateways are forked from, and hears of it."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from perdure.config import Settings


class GatewayLaunchSpec(Struct, frozen=True):
    """A gateway to become."""

    settings: dict[str, Any]
    line: str  # the socket of the platforms
    log: str
    ahead: int = 0  # milliseconds by which its clock is ahead of ours
    at: int | None = None  # the store call at which it is killed
    after: bool = False
    gateway: str = ""  # `module:object` that makes the gateway; empty: `perdure.Gateway`
    modules: str = ""  # where that module may be


class GatewayStarted(Struct, frozen=True, tag=True):
    pid: int


class GatewayExited(Struct, frozen=True, tag=True):
    code: int  # as the process exited; negative: the signal that ended it


def encode_settings(settings: Settings) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(
        settings, enc_hook=str
    )  # paths are the only thing it does not know
    return found


def decode_settings(settings: dict[str, Any]) -> Settings:
    return msgspec.convert(settings, Settings, dec_hook=lambda kind, value: kind(value))

"""The words between a drilled gateway and the simulated platforms: JSON, a line each."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from perdure.core.messages import Inbound, Outbound, Receipt

MAX_LINE_BYTES = 1 << 24  # bytes of one line


class Listen(Struct, frozen=True, tag=True):
    """The gateway wants to hear of a platform."""

    platform: str


class GatewayReady(Struct, frozen=True, tag=True):
    """The gateway has started."""


class Send(Struct, frozen=True, tag=True):
    number: int  # of the request; the answer has the same
    platform: str
    outbound: Outbound


class Edit(Struct, frozen=True, tag=True):
    number: int
    platform: str
    receipt: Receipt
    outbound: Outbound


class Find(Struct, frozen=True, tag=True):
    number: int
    platform: str
    key: str


class Ack(Struct, frozen=True, tag=True):
    number: int
    platform: str
    key: str


class EventHandedOver(Struct, frozen=True, tag=True):
    """Something that a person did."""

    platform: str
    inbound: Inbound


class RequestAnswer(Struct, frozen=True, tag=True):
    """The answer to a request."""

    number: int
    receipt: Receipt | None = None
    refused: str = ""


class Arm(Struct, frozen=True, tag=True):
    """Be killed at the n-th store call from now on; or let the store refuse so many writes from there on."""

    at: int
    after: bool
    refuse: int = 0  # with `after` nobody is killed when there is room again


Request = Send | Edit | Find | Ack
FromGateway = Listen | GatewayReady | Send | Edit | Find | Ack
FromPlatforms = EventHandedOver | RequestAnswer | Arm

gateway_message_decoder = msgspec.json.Decoder(FromGateway)
platform_message_decoder = msgspec.json.Decoder(FromPlatforms)


@contextmanager
def short_socket_path(path: Path) -> Iterator[str]:
    """Another path of a socket, short enough for the kernel, which takes 107 bytes, however long its own is."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def write_message(writer: asyncio.StreamWriter, message: Struct) -> None:
    """Say something, if there is still somebody to hear it."""
    if not writer.is_closing():
        writer.write(msgspec.json.encode(message) + b"\n")


async def read_lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Every whole line until the other side is gone; half of one was never said."""
    with suppress(ConnectionError):
        async for line in reader:
            if line.endswith(b"\n"):
                yield line

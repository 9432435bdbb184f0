"""The protocol between a drilled gateway and the simulated platforms: JSON lines."""

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
    """The gateway subscribes to the events of a platform."""

    platform: str


class GatewayReady(Struct, frozen=True, tag=True):
    """The gateway has started."""


class Send(Struct, frozen=True, tag=True):
    number: int  # number of the request, repeated by its answer
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
    """An event of a platform for the gateway."""

    platform: str
    inbound: Inbound


class RequestAnswer(Struct, frozen=True, tag=True):
    """The answer to a request."""

    number: int
    receipt: Receipt | None = None
    refused: str = ""


class Arm(Struct, frozen=True, tag=True):
    """The gateway kills itself at the n-th store call from now on, or refuses that many writes from there on."""

    at: int
    after: bool
    refuse: int = 0  # with `after`, the gateway is not killed after the refused writes


Request = Send | Edit | Find | Ack
FromGateway = Listen | GatewayReady | Send | Edit | Find | Ack
FromPlatforms = EventHandedOver | RequestAnswer | Arm

gateway_message_decoder = msgspec.json.Decoder(FromGateway)
platform_message_decoder = msgspec.json.Decoder(FromPlatforms)


@contextmanager
def short_socket_path(path: Path) -> Iterator[str]:
    """Yield a path of a socket of at most 107 bytes, the kernel's limit, however long its real path is."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def write_message(writer: asyncio.StreamWriter, message: Struct) -> None:
    """Write a message, unless the connection is closing."""
    if not writer.is_closing():
        writer.write(msgspec.json.encode(message) + b"\n")


async def read_lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield every complete line until the connection ends; an incomplete last line is dropped."""
    with suppress(ConnectionError):
        async for line in reader:
            if line.endswith(b"\n"):
                yield line

"""The bodies of requests: read up to a limit, and understood or refused with an example of what is meant."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from perdure.web.responses import HttpRefusal

T = TypeVar("T")

MAX_BODY_BYTES = 1 << 20


async def read_body(request: Request) -> bytes:
    body = bytearray()
    try:
        async for piece in request.stream():
            body += piece
            if len(body) > MAX_BODY_BYTES:
                raise HttpRefusal(413, f"the body is larger than {MAX_BODY_BYTES} bytes", "Send less at a time.")
    except ClientDisconnect as error:
        raise HttpRefusal(400, "the connection closed before the message was whole", "Send it again.") from error
    return bytes(body)


async def read_json(
    request: Request, body_type: type[T], example: str, problem: str = "the body does not fit"
) -> T:
    """The body as what is expected there; whatever else it is, is refused with the problem and the example."""
    body = await read_body(request)
    try:
        return msgspec.json.decode(body, type=body_type)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HttpRefusal(400, f"{problem}: {error}", example) from error

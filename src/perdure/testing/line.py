"""One client's connection while it is answered: it can be cut, and knows when the client has left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from starlette.types import Receive, Scope, Send

HangUp: TypeAlias = Callable[[Scope], None]  # closes the connection that a request came over

TEXT = (b"content-type", b"text/event-stream; charset=utf-8")
JSON = (b"content-type", b"application/json")


class Left(Exception):
    """The client has hung up."""


class Line:
    """What the provider says to one client, and whether there is still somebody to say it to."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, hang_up: HangUp) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._hang_up = hang_up
        self._gone: asyncio.Task[None] | None = None

    async def read(self) -> bytes:
        """The body of the request; from then on, watch for the client's leaving."""
        parts: list[bytes] = []
        more = True
        while more:
            event = await self._receive()
            if event["type"] == "http.disconnect":
                raise Left
            parts.append(event.get("body", b""))
            more = event.get("more_body", False)
        self._gone = asyncio.create_task(self._until_gone())
        return b"".join(parts)

    async def answer(self, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
        """Say all there is to say."""
        self._expect_somebody()
        length = (b"content-length", str(len(body)).encode())
        await self._start(status, JSON, length, *headers)
        await self._send({"type": "http.response.body", "body": body})

    async def start(self, status: int, size: int) -> None:
        """Begin to say something of a certain size, which follows in pieces."""
        self._expect_somebody()
        await self._start(status, (b"content-length", str(size).encode()))

    async def begin(self) -> None:
        """Begin a stream."""
        await self._start(200, TEXT, (b"cache-control", b"no-cache"))

    async def push(self, body: bytes) -> None:
        """Say some more, as soon as the client can take it."""
        self._expect_somebody()
        await self._send({"type": "http.response.body", "body": body, "more_body": True})
        # A fast client never makes us wait; the others, and the news that it has left, must have their turn.
        await asyncio.sleep(0)

    async def finish(self, body: bytes) -> None:
        """End a stream, with the last there is to say."""
        self._expect_somebody()
        await self._send({"type": "http.response.body", "body": body})

    async def idle(self, seconds: float | None = None) -> None:
        """Say nothing for a while, or until the client leaves."""
        if seconds is None or seconds > 0:
            await asyncio.wait({self._watch()}, timeout=seconds)
        self._expect_somebody()

    async def wait_for(self, fact: Awaitable[Any]) -> None:
        """Say nothing until something has happened."""
        awaited = asyncio.ensure_future(fact)
        try:
            await asyncio.wait({self._watch(), awaited}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            awaited.cancel()
        self._expect_somebody()

    async def cut(self) -> None:
        """Close the connection in the middle of whatever was said."""
        self._hang_up(self._scope)
        await self._watch()

    async def forget(self) -> None:
        """Stop watching."""
        if self._gone is not None:
            self._gone.cancel()
            await asyncio.wait({self._gone})

    def _watch(self) -> asyncio.Task[None]:
        assert self._gone is not None, "the request was not read"  # noqa: S101
        return self._gone

    def _expect_somebody(self) -> None:
        if self._watch().done():
            raise Left

    async def _start(self, status: int, *headers: tuple[bytes, bytes]) -> None:
        identity = ((b"x-request-id", b"req_local"), (b"request-id", b"req_local"))
        await self._send({"type": "http.response.start", "status": status, "headers": [*headers, *identity]})

    async def _until_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

"""The connection of one client to a local server, which can cut it and notices when the client leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from starlette.types import Receive, Scope, Send

CloseConnection: TypeAlias = Callable[[Scope], None]  # closes the connection of a request

EVENT_STREAM_HEADER = (b"content-type", b"text/event-stream; charset=utf-8")
JSON_HEADER = (b"content-type", b"application/json")


class ClientGone(Exception):
    """The client has closed the connection."""


class ClientConnection:
    """Sends the answer to one client, and notices when the client leaves."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, close_connection: CloseConnection) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._close_connection = close_connection
        self._disconnected: asyncio.Task[None] | None = None

    async def read(self) -> bytes:
        """Read the body of the request; from then on, watch whether the client leaves."""
        parts: list[bytes] = []
        more = True
        while more:
            event = await self._receive()
            if event["type"] == "http.disconnect":
                raise ClientGone
            parts.append(event.get("body", b""))
            more = event.get("more_body", False)
        self._disconnected = asyncio.create_task(self._wait_for_disconnect())
        return b"".join(parts)

    async def answer(self, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
        """Send a complete answer."""
        self._raise_if_gone()
        length = (b"content-length", str(len(body)).encode())
        await self._start(status, JSON_HEADER, length, *headers)
        await self._send({"type": "http.response.body", "body": body})

    async def start(self, status: int, size: int) -> None:
        """Send the head of an answer of a known size; its body follows in pieces."""
        self._raise_if_gone()
        await self._start(status, (b"content-length", str(size).encode()))

    async def begin(self) -> None:
        """Send the head of a stream."""
        await self._start(200, EVENT_STREAM_HEADER, (b"cache-control", b"no-cache"))

    async def push(self, body: bytes) -> None:
        """Send more of the body as soon as the client can take it."""
        self._raise_if_gone()
        await self._send({"type": "http.response.body", "body": body, "more_body": True})
        # A fast client never blocks this loop; let other tasks run, and let the client's leaving be noticed.
        await asyncio.sleep(0)

    async def finish(self, body: bytes) -> None:
        """Send the last bytes of a stream and end it."""
        self._raise_if_gone()
        await self._send({"type": "http.response.body", "body": body})

    async def pause(self, seconds: float | None = None) -> None:
        """Send nothing for some seconds, or until the client leaves."""
        if seconds is None or seconds > 0:
            await asyncio.wait({self._disconnect_task()}, timeout=seconds)
        self._raise_if_gone()

    async def wait_for(self, fact: Awaitable[Any]) -> None:
        """Send nothing until an event is set."""
        awaited = asyncio.ensure_future(fact)
        try:
            await asyncio.wait({self._disconnect_task(), awaited}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            awaited.cancel()
        self._raise_if_gone()

    async def cut(self) -> None:
        """Close the connection in the middle of the answer."""
        self._close_connection(self._scope)
        await self._disconnect_task()

    async def stop_watching(self) -> None:
        """Stop watching whether the client leaves."""
        if self._disconnected is not None:
            self._disconnected.cancel()
            await asyncio.wait({self._disconnected})

    def _disconnect_task(self) -> asyncio.Task[None]:
        assert self._disconnected is not None, "the request was not read"  # noqa: S101
        return self._disconnected

    def _raise_if_gone(self) -> None:
        if self._disconnect_task().done():
            raise ClientGone

    async def _start(self, status: int, *headers: tuple[bytes, bytes]) -> None:
        identity = ((b"x-request-id", b"req_local"), (b"request-id", b"req_local"))
        await self._send({"type": "http.response.start", "status": status, "headers": [*headers, *identity]})

    async def _wait_for_disconnect(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

"""Calls over HTTP, with the one thing known for certain that senders need: whether a request left us at all.

A client of our own over h11, which the console's server has loaded already: see the decision records.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from urllib.parse import urlsplit

import h11

from perdure.core import notes
from perdure.errors import FetchFailed, FetchRefused, NotConnected, SendUnknown
from perdure.http11 import Connection, Server, reason
from perdure.platforms.telegram.files import Form

CONNECTING = 10.0  # seconds
BEGINNING = 25.0  # seconds until the first bytes of a file come
LARGEST = 32 * 1024 * 1024  # bytes of one answer


class Http:
    """Posts JSON to one server, over connections that are used again."""

    def __init__(self, root: str) -> None:
        parts = urlsplit(root)
        self._host = parts.hostname or ""
        tls = parts.scheme == "https"
        secure = ssl.create_default_context if tls else None
        self._server = Server(self._host, parts.port or (443 if tls else 80), secure)
        self._path = parts.path.rstrip("/")
        self._authority = parts.netloc.rpartition("@")[2]

    async def post(
        self, path: str, body: bytes, timeout: float, headers: Sequence[tuple[str, str]] = ()
    ) -> tuple[int, bytes]:
        """The status and the body of the answer.

        `NotConnected`: the request was not sent. `SendUnknown`: it was, perhaps in part, and no answer came.
        """
        return await self._exchange(path, "application/json", len(body), _once(body), timeout, headers)

    async def upload(self, path: str, form: Form, timeout: float) -> tuple[int, bytes]:
        """The same with a form, of which never more than a piece is in memory."""
        return await self._exchange(path, form.kind, form.size, form.pieces(), timeout)

    async def _exchange(
        self,
        path: str,
        kind: str,
        size: int,
        body: AsyncGenerator[bytes],
        timeout: float,
        more: Sequence[tuple[str, str]] = (),
    ) -> tuple[int, bytes]:
        headers = (("Content-Type", kind), ("Content-Length", str(size)), ("Accept", "application/json"), *more)
        connection = await self._connect()
        try:
            async with aclosing(body):
                await connection.send(self._asking("POST", path, *headers), body)
            async with asyncio.timeout(timeout):
                status, answer = await _whole(connection)
        except (OSError, EOFError, TimeoutError, h11.ProtocolError) as error:
            connection.abort()
            raise SendUnknown(f"no answer came from {self._host}: {reason(error)}") from error
        except BaseException:  # reason: half an exchange must not be left to the next one
            connection.abort()
            raise
        self._server.keep(connection)
        return status, answer

    async def get(self, path: str) -> AsyncGenerator[bytes]:
        """The body of what is there, piece by piece. `FetchRefused`: it is not there, and will not be."""
        connection = await self._connect()
        try:
            async with asyncio.timeout(BEGINNING):
                await connection.send(self._asking("GET", path), _once())
                head = await connection.head()
            _expect_found(head.status_code)
            async for piece in connection.pieces():
                yield piece
        except (OSError, EOFError, TimeoutError, h11.RemoteProtocolError) as error:
            connection.abort()
            raise FetchFailed(f"{self._host} did not give it whole: {reason(error)}") from error
        except BaseException:  # reason: half an exchange must not be left to the next one
            connection.abort()
            raise
        self._server.keep(connection)

    async def close(self) -> None:
        self._server.close()

    def _asking(self, method: str, path: str, *headers: tuple[str, str]) -> h11.Request:
        target = f"{self._path}{path}"
        return h11.Request(method=method, target=target, headers=[("Host", self._authority), *headers])

    async def _connect(self) -> Connection:
        try:
            return await self._server.connect(CONNECTING)
        except (OSError, TimeoutError, ValueError) as error:
            raise NotConnected(f"{self._host} cannot be reached: {reason(error)}") from error


async def _whole(connection: Connection) -> tuple[int, bytes]:
    """The status and the whole body of an answer."""
    head, pieces, size = await connection.head(), [], 0
    async for piece in connection.pieces():
        pieces.append(piece)
        size += len(piece)
        if size > LARGEST:
            raise OSError(f"the answer is longer than {LARGEST} bytes")
    return head.status_code, b"".join(pieces)


async def _once(*pieces: bytes) -> AsyncGenerator[bytes]:
    for piece in pieces:
        yield piece


def _expect_found(status: int) -> None:
    if status in (400, 404, 410):
        raise FetchRefused(notes.GONE_THERE)
    if status != 200:
        raise FetchFailed(f"it was answered with {status}")

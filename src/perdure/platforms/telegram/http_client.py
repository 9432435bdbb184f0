"""An HTTP client that tells senders for certain whether a request left the gateway at all.

It is built on h11, which the web server has loaded already: see the decision records.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from urllib.parse import urlsplit

import h11

from perdure.core import texts
from perdure.errors import FetchFailed, FetchRefused, NotConnected, SendUnknown
from perdure.http11 import ConnectionPool, HttpConnection, failure_reason
from perdure.platforms.telegram.uploads import MultipartForm

CONNECT_TIMEOUT_SECONDS = 10.0
FIRST_BYTE_TIMEOUT_SECONDS = 25.0  # of a file
MAX_RESPONSE_BYTES = 32 * 1024 * 1024  # of one answer


class HttpClient:
    """Posts JSON to one server over reused connections."""

    def __init__(self, root: str) -> None:
        parts = urlsplit(root)
        self._host = parts.hostname or ""
        tls = parts.scheme == "https"
        secure = ssl.create_default_context if tls else None
        self._server = ConnectionPool(self._host, parts.port or (443 if tls else 80), secure)
        self._path = parts.path.rstrip("/")
        self._authority = parts.netloc.rpartition("@")[2]

    async def post(
        self, path: str, body: bytes, timeout: float, headers: Sequence[tuple[str, str]] = ()
    ) -> tuple[int, bytes]:
        """Post a body; return the status and the body of the answer.

        `NotConnected`: the request was not sent. `SendUnknown`: it was sent, perhaps in part, and no answer came.
        """
        return await self._exchange(path, "application/json", len(body), _stream_of(body), timeout, headers)

    async def upload(self, path: str, form: MultipartForm, timeout: float) -> tuple[int, bytes]:
        """Post a form as `post` does, with no more than one piece of it in memory."""
        return await self._exchange(path, form.content_type, form.size, form.pieces(), timeout)

    async def _exchange(
        self,
        path: str,
        content_type: str,
        size: int,
        body: AsyncGenerator[bytes],
        timeout: float,
        more: Sequence[tuple[str, str]] = (),
    ) -> tuple[int, bytes]:
        headers = (
            ("Content-Type", content_type),
            ("Content-Length", str(size)),
            ("Accept", "application/json"),
            *more,
        )
        connection = await self._connect()
        try:
            async with aclosing(body):
                await connection.send(self._request("POST", path, *headers), body)
            async with asyncio.timeout(timeout):
                status, answer = await _read_response(connection)
        except (OSError, EOFError, TimeoutError, h11.ProtocolError) as error:
            connection.abort()
            raise SendUnknown(f"no answer came from {self._host}: {failure_reason(error)}") from error
        except BaseException:  # reason: a connection with half an exchange must not be reused
            connection.abort()
            raise
        self._server.release(connection)
        return status, answer

    async def get(self, path: str) -> AsyncGenerator[bytes]:
        """Get a path, and yield its body piece by piece. `FetchRefused`: there is no such file."""
        connection = await self._connect()
        try:
            async with asyncio.timeout(FIRST_BYTE_TIMEOUT_SECONDS):
                await connection.send(self._request("GET", path), _stream_of())
                head = await connection.read_head()
            _expect_found(head.status_code)
            async for piece in connection.read_chunks():
                yield piece
        except (OSError, EOFError, TimeoutError, h11.RemoteProtocolError) as error:
            connection.abort()
            raise FetchFailed(f"{self._host} did not give it whole: {failure_reason(error)}") from error
        except BaseException:  # reason: a connection with half an exchange must not be reused
            connection.abort()
            raise
        self._server.release(connection)

    async def close(self) -> None:
        self._server.close()

    def _request(self, method: str, path: str, *headers: tuple[str, str]) -> h11.Request:
        target = f"{self._path}{path}"
        return h11.Request(method=method, target=target, headers=[("Host", self._authority), *headers])

    async def _connect(self) -> HttpConnection:
        try:
            return await self._server.connect(CONNECT_TIMEOUT_SECONDS)
        except (OSError, TimeoutError, ValueError) as error:
            raise NotConnected(f"{self._host} cannot be reached: {failure_reason(error)}") from error


async def _read_response(connection: HttpConnection) -> tuple[int, bytes]:
    """The status and the complete body of an answer."""
    head, pieces, size = await connection.read_head(), [], 0
    async for piece in connection.read_chunks():
        pieces.append(piece)
        size += len(piece)
        if size > MAX_RESPONSE_BYTES:
            raise OSError(f"the answer is longer than {MAX_RESPONSE_BYTES} bytes")
    return head.status_code, b"".join(pieces)


async def _stream_of(*pieces: bytes) -> AsyncGenerator[bytes]:
    for piece in pieces:
        yield piece


def _expect_found(status: int) -> None:
    if status in (400, 404, 410):
        raise FetchRefused(texts.attachments.GONE_FROM_PLATFORM)
    if status != 200:
        raise FetchFailed(f"it was answered with {status}")

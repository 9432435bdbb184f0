"""Carries requests to providers over plain HTTP/1.1, beneath the HTTP client of their libraries.

The client's own transport takes several times as much CPU: see the decision records.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast
from urllib.request import getproxies

import h11
import httpx2
from httpx2 import AsyncBaseTransport, AsyncByteStream, AsyncClient, Limits, Request, Response

from perdure.http11 import ConnectionPool, HttpConnection, failure_reason
from perdure.http_limits import AnswerLimits, BoundedTransport, bound_answers

MAX_IDLE_CONNECTIONS = 100  # to a proxy
MEBIBYTE = 1 << 20
# A stream has a few hundred bytes for each token; an answer that comes at once has far less.
ANSWER_LIMITS = AnswerLimits(body=8 * MEBIBYTE, event=4 * MEBIBYTE, stream=64 * MEBIBYTE)
CONNECT_FAILURES = (httpx2.ConnectTimeout, httpx2.ConnectError)
WRITE_FAILURES = (httpx2.WriteTimeout, httpx2.WriteError)
READ_FAILURES = (httpx2.ReadTimeout, httpx2.ReadError)
CONNECTION_ERRORS = (OSError, EOFError, ValueError, h11.ProtocolError)


def open_client() -> AsyncClient:
    """An HTTP client for providers. If the environment names proxies, it uses its own transport for them."""
    if getproxies().keys() - {"no"}:
        client = AsyncClient(limits=Limits(max_connections=None, max_keepalive_connections=MAX_IDLE_CONNECTIONS))
        bound_answers(client, ANSWER_LIMITS)
        return client
    return AsyncClient(transport=BoundedTransport(Transport(), ANSWER_LIMITS))


class Transport(AsyncBaseTransport):
    """Sends requests over pooled connections, without a limit on how many at once."""

    def __init__(self) -> None:
        self._servers: dict[tuple[str, str, int], ConnectionPool] = {}

    async def handle_async_request(self, request: Request) -> Response:
        timeouts = request.extensions.get("timeout", {})
        server = self._server(request)
        try:
            connection = await server.connect(timeouts.get("connect"))
        except CONNECTION_ERRORS as error:
            raise _client_error(error, *CONNECT_FAILURES) from error
        body = _Body(server, connection, timeouts.get("read"))
        try:
            await _send(connection, request)
            head = await body.head()
        except BaseException:  # reason: a connection with half an exchange must not be reused
            connection.abort()
            raise
        return Response(head.status_code, headers=list(head.headers), stream=body)

    async def aclose(self) -> None:
        for server in self._servers.values():
            server.close()

    def _server(self, request: Request) -> ConnectionPool:
        url = request.url
        tls = url.scheme == "https"
        origin = (url.scheme, url.host, url.port or (443 if tls else 80))
        if origin not in self._servers:
            self._servers[origin] = ConnectionPool(*origin[1:], httpx2.create_ssl_context if tls else None)
        return self._servers[origin]


class _Body(AsyncByteStream):
    """The body of an answer. After its last byte, its connection is released for the next request."""

    def __init__(self, server: ConnectionPool, connection: HttpConnection, silence: float | None) -> None:
        self._server = server
        self._connection = connection
        self._silence = silence  # longest pause between two pieces, in seconds
        self._over = False

    async def head(self) -> h11.Response:
        try:
            async with asyncio.timeout(self._silence):
                return await self._connection.read_head()
        except CONNECTION_ERRORS as error:
            raise _client_error(error, *READ_FAILURES) from error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (piece := await self._piece()) is not None:
            yield piece
        self._over = True
        self._server.release(self._connection)

    async def _piece(self) -> bytes | None:
        try:
            async with asyncio.timeout(self._silence):
                return await self._connection.read_chunk()
        except CONNECTION_ERRORS as error:
            raise _client_error(error, *READ_FAILURES) from error

    async def aclose(self) -> None:
        if not self._over:
            self._connection.abort()


async def _send(connection: HttpConnection, request: Request) -> None:
    try:
        head = h11.Request(method=request.method, target=request.url.raw_path, headers=request.headers.raw)
        await connection.send(head, cast("AsyncByteStream", request.stream))
    except CONNECTION_ERRORS as error:
        raise _client_error(error, *WRITE_FAILURES) from error


def _client_error(
    error: Exception, late: type[httpx2.TransportError], broken: type[httpx2.TransportError]
) -> httpx2.TransportError:
    """The matching error of the HTTP client."""
    return (late if isinstance(error, TimeoutError) else broken)(failure_reason(error))

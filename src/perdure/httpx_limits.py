"""Lets the HTTP client of another library read no answer beyond its limits.

That holds for whichever transports and proxies it uses. The client gets
each answer as if it had never been compressed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import cache
from importlib import import_module
from typing import Any, cast

import httpx2
from httpx2 import AsyncBaseTransport, AsyncByteStream, AsyncClient, Request, Response

from perdure.http_limits import ACCEPTED_ENCODING, AnswerLimits, BodyDecoder, UnreadableAnswer


class BoundedTransport(AsyncBaseTransport):
    """Carries requests over another transport, and reads no answer beyond its limits.

    `library` is httpx2, or httpx for clients of its own: both have the same classes under the same names.
    """

    def __init__(self, inner: AsyncBaseTransport, limits: AnswerLimits, library: Any = httpx2) -> None:
        self._inner = inner
        self._limits = limits
        self._library = library

    async def handle_async_request(self, request: Request) -> Response:
        if "accept-encoding" in request.headers:
            request.headers["accept-encoding"] = ACCEPTED_ENCODING
        response = await self._inner.handle_async_request(request)
        encoding = response.headers.get("content-encoding", "")
        try:
            decoder = BodyDecoder(self._limits, response.headers.get("content-type", ""), encoding)
        except UnreadableAnswer as error:
            await response.aclose()
            raise self._library.RemoteProtocolError(str(error)) from error
        headers = [
            (name, value)
            for name, value in response.headers.raw
            if name.lower() != b"content-encoding" and not (encoding and name.lower() == b"content-length")
        ]
        stream = _stream_class(self._library)(cast("AsyncByteStream", response.stream), decoder)
        bounded: Response = self._library.Response(
            response.status_code, headers=headers, stream=stream, extensions=response.extensions
        )
        return bounded

    async def aclose(self) -> None:
        await self._inner.aclose()


def bound_answers(client: Any, limits: AnswerLimits) -> None:
    """Let a client of httpx2 or httpx read no answer beyond its limits."""
    library = httpx2 if isinstance(client, AsyncClient) else import_module("httpx")
    transport, mounts = client._transport, client._mounts  # noqa: SLF001 reason: there is no other way in
    client._transport = _bounded(transport, limits, library)  # noqa: SLF001
    client._mounts = {  # noqa: SLF001
        pattern: None if each is None else _bounded(each, limits, library) for pattern, each in mounts.items()
    }


def _bounded(transport: AsyncBaseTransport, limits: AnswerLimits, library: Any) -> AsyncBaseTransport:
    bounded = isinstance(transport, BoundedTransport)
    return transport if bounded else BoundedTransport(transport, limits, library)


class _BoundedStream(AsyncByteStream):
    """The decompressed bytes of an answer, up to its limit."""

    def __init__(self, inner: AsyncByteStream, decoder: BodyDecoder) -> None:
        self._inner = inner
        self._decoder = decoder

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for received in self._inner:
                for piece in self._decoder.decode(received):
                    yield piece
        except UnreadableAnswer as error:
            raise httpx2.RemoteProtocolError(str(error)) from error

    async def aclose(self) -> None:
        await self._inner.aclose()


@cache
def _stream_class(library: Any) -> Any:
    """The class of a library's answers: its client takes no stream that is not one of its own."""
    if library is httpx2:
        return _BoundedStream

    class BoundedStreamOfLibrary(_BoundedStream, library.AsyncByteStream):  # type: ignore[misc]
        async def __aiter__(self) -> AsyncIterator[bytes]:
            try:
                async for piece in super().__aiter__():
                    yield piece
            except httpx2.RemoteProtocolError as error:
                raise library.RemoteProtocolError(str(error)) from error

    return BoundedStreamOfLibrary

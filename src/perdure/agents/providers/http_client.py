"""Sends requests to providers over HTTP/1.1, through the proxies that the environment names.

No redirect is followed: a key must not go to another server.
"""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

import h11
from msgspec import Struct

from perdure.errors import ConfigurationError
from perdure.http11 import ConnectionPool, HttpConnection, ProxyTunnel, failure_reason, format_authority
from perdure.http_limits import ACCEPTED_ENCODING, AnswerLimits, BodyDecoder

MEBIBYTE = 1 << 20
# A stream has a few hundred bytes for each token; an answer that comes at once has far less.
ANSWER_LIMITS = AnswerLimits(body=8 * MEBIBYTE, event=4 * MEBIBYTE, stream=64 * MEBIBYTE)
CONNECT_TIMEOUT_SECONDS = 30.0
DRAIN_SECONDS = 0.1  # for the rest of an answer behind its end mark
DEFAULT_PORTS = {"http": 80, "https": 443}
CONNECTION_ERRORS = (OSError, EOFError, ValueError, h11.ProtocolError)


class ExchangeFailed(Exception):
    """No complete answer came. `sent`: the server may have got the request; `late`: it took too long."""

    def __init__(self, error: BaseException, *, sent: bool) -> None:
        super().__init__(failure_reason(error))
        self.sent = sent
        self.late = isinstance(error, TimeoutError)


class _Route(Struct, frozen=True):
    """How requests to one server are sent: the connections, and what each request needs on them."""

    connections: ConnectionPool
    target_prefix: str = ""  # a proxy that reads requests wants whole addresses
    headers: tuple[tuple[str, str], ...] = ()


class HttpAnswer:
    """The answer to one request; its body is read piece by piece."""

    def __init__(self, head: h11.Response, connection: HttpConnection, silence_seconds: float | None) -> None:
        self.status = head.status_code
        self.headers = {name.decode().lower(): value.decode("latin-1") for name, value in head.headers}
        self.is_complete = False
        self._connection = connection
        self._silence_seconds = silence_seconds
        self._decoder = BodyDecoder(
            ANSWER_LIMITS, self.headers.get("content-type", ""), self.headers.get("content-encoding", "")
        )

    async def pieces(self) -> AsyncGenerator[bytes]:
        """The body, decompressed, as it comes; `ExchangeFailed` if it breaks off or is too large."""
        while True:
            try:
                async with asyncio.timeout(self._silence_seconds):
                    received = await self._connection.read_chunk()
                if received is None:
                    break
                decoded = b"".join(self._decoder.decode(received))
            except CONNECTION_ERRORS as error:
                raise ExchangeFailed(error, sent=True) from error
            if decoded:
                yield decoded
        self.is_complete = True

    async def read(self) -> bytes:
        return b"".join([piece async for piece in self.pieces()])

    async def drain(self) -> None:
        """Read what still comes behind a whole answer, for a moment, so that its connection can be used again."""
        with suppress(TimeoutError, ExchangeFailed):
            async with asyncio.timeout(DRAIN_SECONDS):
                await self.read()


class ProviderHttp:
    """Sends requests over pooled connections, without a limit on how many at once."""

    def __init__(self) -> None:
        self._routes: dict[tuple[str, str, int], _Route] = {}

    @asynccontextmanager
    async def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        silence_seconds: float | None = None,
    ) -> AsyncGenerator[HttpAnswer]:
        """The answer to a request. `silence_seconds` is the longest pause until it begins, and inside it."""
        route, connection = await self._connect(url)
        answer: HttpAnswer | None = None
        try:
            request = _head(method, url, route, headers, len(body))
            try:
                await connection.send(request, _pieces(body))
                async with asyncio.timeout(silence_seconds):
                    head = await connection.read_head()
                answer = HttpAnswer(head, connection, silence_seconds)
            except CONNECTION_ERRORS as error:
                raise ExchangeFailed(error, sent=True) from error
            yield answer
        finally:
            if answer is not None and answer.is_complete:
                route.connections.release(connection)
            else:
                connection.abort()  # a connection with half an exchange must not be used again

    async def _connect(self, url: str) -> tuple[_Route, HttpConnection]:
        try:
            route = self._route(urlsplit(url))
            return route, await route.connections.connect(CONNECT_TIMEOUT_SECONDS)
        except CONNECTION_ERRORS as error:
            raise ExchangeFailed(error, sent=False) from error

    def _route(self, url: SplitResult) -> _Route:
        origin = _origin(url)
        if origin not in self._routes:
            self._routes[origin] = _make_route(*origin)
        return self._routes[origin]

    def close(self) -> None:
        for route in self._routes.values():
            route.connections.close()


def _origin(url: SplitResult) -> tuple[str, str, int]:
    if url.scheme not in DEFAULT_PORTS or not url.hostname:
        raise ValueError(f"{url.geturl()!r} is no address of an HTTP server")
    return url.scheme, url.hostname, url.port or DEFAULT_PORTS[url.scheme]


def check_address(url: str) -> None:
    """Raise `ConfigurationError` for an address, or a proxy before it, to which nothing can be sent."""
    try:
        find_proxy(*_origin(urlsplit(url)))
    except ValueError as error:
        raise ConfigurationError(
            f"model.base_url cannot be used: {error}", hint="Write a whole address: https://HOST/PATH."
        ) from error


def _head(method: str, url: str, route: _Route, headers: Mapping[str, str], size: int) -> h11.Request:
    parts = urlsplit(url)
    scheme, host, port = _origin(parts)
    host = host if ":" in host else host.encode("idna").decode()
    authority = format_authority(host, port)
    if port == DEFAULT_PORTS[scheme]:
        authority = authority.rpartition(":")[0]
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    given = dict(headers) | (
        {"Authorization": _basic_credentials(parts)} if parts.username or parts.password else {}
    )
    fixed = [("Host", authority), ("Accept-Encoding", ACCEPTED_ENCODING), ("Content-Length", str(size))]
    try:
        return h11.Request(
            method=method,
            target=f"{route.target_prefix}{target}",
            headers=[*fixed, *given.items(), *route.headers],
        )
    except (h11.LocalProtocolError, UnicodeError):  # which would repeat the header, and that may be a key
        raise ExchangeFailed(ValueError("the request has a header that is not valid"), sent=False) from None


async def _pieces(body: bytes) -> AsyncGenerator[bytes]:
    yield body


def _basic_credentials(url: SplitResult) -> str:
    pair = f"{unquote(url.username or '')}:{unquote(url.password or '')}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def _tls_context() -> ssl.SSLContext:
    """TLS with the certificates of the machine; on one that has none, those that come with our HTTP library."""
    known = ssl.get_default_verify_paths()
    if known.cafile is None and not (known.capath and any(Path(known.capath).iterdir())):
        import certifi

        return ssl.create_default_context(cafile=certifi.where())
    return ssl.create_default_context()


# ── proxies ─────────────────────────────────────────────────────────────────────────────────────────────────


def _make_route(scheme: str, host: str, port: int) -> _Route:
    make_tls_context = _tls_context if scheme == "https" else None
    proxy = find_proxy(scheme, host, port)
    if proxy is None:
        return _Route(ConnectionPool(host, port, make_tls_context))
    _, proxy_host, proxy_port = _origin(proxy)
    proxy_tls = _tls_context if proxy.scheme == "https" else None
    credentials = (("Proxy-Authorization", _basic_credentials(proxy)),) if proxy.username else ()
    if make_tls_context is not None:
        tunnel = ProxyTunnel(proxy_host, proxy_port, proxy_tls, credentials)
        return _Route(ConnectionPool(host, port, make_tls_context, tunnel))
    prefix = f"{scheme}://{format_authority(host, port) if port != DEFAULT_PORTS[scheme] else host}"
    return _Route(ConnectionPool(proxy_host, proxy_port, proxy_tls), prefix, credentials)


def find_proxy(scheme: str, host: str, port: int) -> SplitResult | None:
    """The proxy that the environment names for a server; None: there is none.

    It reads `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`. `ConfigurationError` for a kind of proxy that
    we do not speak with.
    """
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    from urllib.request import getproxies, proxy_bypass

    proxies = getproxies()
    named = proxies.get(scheme) or proxies.get("all")
    if not named or proxy_bypass(format_authority(host, port)):
        return None
    proxy = urlsplit(named if "://" in named else f"http://{named}")
    if proxy.scheme not in DEFAULT_PORTS or not proxy.hostname:
        raise ConfigurationError(
            f"the environment names a proxy that cannot be used: {proxy.scheme}://{proxy.hostname or ''}",
            hint=f"Set {scheme.upper()}_PROXY to the address of an HTTP proxy, or {host} in NO_PROXY.",
        )
    return proxy

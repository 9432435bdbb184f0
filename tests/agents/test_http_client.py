"""The way to providers over real sockets: connections are used again, proxies honoured, failures told apart.

Drives `agents/providers/http_client`, `http11` and `http_limits`.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from perdure.agents.providers.http_client import ExchangeFailed, ProviderHttp
from perdure.agents.providers.models import open_model
from perdure.errors import ConfigurationError
from support.scripted_server import CHUNKED, HALF, LAST, OK, ScriptedServer, run_server, tls_server_context

pytestmark = pytest.mark.anyio

MOVED = b"HTTP/1.1 307 Temporary Redirect\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n"


@pytest.fixture(autouse=True)
def without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http", "https", "all", "no"):
        monkeypatch.delenv(f"{name}_proxy", raising=False)
        monkeypatch.delenv(f"{name}_proxy".upper(), raising=False)


@asynccontextmanager
async def opened() -> AsyncIterator[ProviderHttp]:
    http = ProviderHttp()
    yield http
    http.close()


@asynccontextmanager
async def asking(server: ScriptedServer) -> AsyncIterator[tuple[ProviderHttp, str]]:
    async with run_server(server) as port, opened() as http:
        yield http, f"http://127.0.0.1:{port}/v1"


async def ask(http: ProviderHttp, url: str, body: bytes = b"{}", silence: float = 5) -> str:
    async with http.send("POST", url, {}, body, silence_seconds=silence) as answer:
        return (await answer.read()).decode()


async def connection_header(http: ProviderHttp, url: str) -> str | None:
    async with http.send("POST", url, {}, b"{}", silence_seconds=5) as answer:
        await answer.read()
        return answer.headers.get("connection")


async def test_connection_is_used_again_while_it_is_there() -> None:
    server = ScriptedServer(OK, CHUNKED, LAST, OK)
    async with asking(server) as (http, url):
        assert [await ask(http, url) for _ in range(4)] == ["ok", "okay", "ok", "ok"]
    assert server.connections == 2
    assert server.request_heads[0].startswith("POST /v1 HTTP/1.1\r\n")


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
@pytest.mark.parametrize("heard", [False, True], ids=["unheard", "heard"])
async def test_connection_that_was_closed_meanwhile_is_not_used(reset: bool, heard: bool) -> None:
    server = ScriptedServer(OK, OK)
    async with asking(server) as (http, url):
        await ask(http, url)
        await server.cut(reset=reset)
        for _ in range(5 * heard):
            await asyncio.sleep(0)  # the event loop hears of it
        assert await ask(http, url) == "ok"
    assert server.connections == 2


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "TLS"])
async def test_what_comes_unasked_is_no_answer(
    secure: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, context = tls_server_context(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    server = ScriptedServer(OK, OK)
    async with run_server(server, context if secure else None) as port, opened() as http:
        url = f"{'https' if secure else 'http'}://localhost:{port}"
        await ask(http, url)
        await server.say(LAST)
        assert await connection_header(http, url) is None
    assert server.connections == 2


async def test_what_came_behind_the_answer_is_no_answer() -> None:
    server = ScriptedServer(OK + LAST, OK)
    async with asking(server) as (http, url):
        await ask(http, url)
        assert await connection_header(http, url) is None
    assert server.connections == 2


async def test_answer_that_was_left_halfway_leaves_no_connection_behind() -> None:
    server = ScriptedServer(CHUNKED, OK)
    async with asking(server) as (http, url):
        async with http.send("POST", url, {}, b"{}") as answer:
            assert answer.status == 200
        assert await ask(http, url) == "ok"
    assert server.connections == 2


async def test_pieces_that_have_come_are_given_together() -> None:
    async with asking(ScriptedServer(CHUNKED)) as (http, url), http.send("POST", url, {}, b"{}") as answer:
        assert [piece async for piece in answer.pieces()] == [b"okay"]


@pytest.mark.parametrize("answer", [OK, LAST], ids=["kept open", "closed behind it"])
async def test_large_request_arrives_whole(answer: bytes) -> None:
    server = ScriptedServer(answer)
    async with asking(server) as (http, url):
        assert await ask(http, url, b"a" * 5_000_000) == "ok"
    assert "content-length: 5000000\r\n" in server.request_heads[0].lower()


async def test_compressed_answer_is_read() -> None:
    packed = gzip.compress(b"okay")
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n".encode()
    server = ScriptedServer(head + packed)
    async with asking(server) as (http, url):
        assert await ask(http, url) == "okay"
    assert "accept-encoding: gzip\r\n" in server.request_heads[0].lower()


async def test_redirect_is_not_followed() -> None:
    server = ScriptedServer(MOVED, OK)
    async with asking(server) as (http, url), http.send("POST", url, {"Authorization": "key"}, b"{}") as answer:
        assert answer.status == 307
    assert len(server.request_heads) == 1


async def test_credentials_of_an_address_are_sent() -> None:
    server = ScriptedServer(OK)
    async with run_server(server) as port, opened() as http:
        await ask(http, f"http://ann:s%40cret@127.0.0.1:{port}/v1")
    expected = base64.b64encode(b"ann:s@cret").decode()
    assert f"Authorization: Basic {expected}\r\n".lower() in server.request_heads[0].lower()
    assert "ann" not in server.request_heads[0]


@pytest.mark.parametrize(
    ("answer", "late"),
    [(b"", False), (HALF, False), (b"nonsense\r\n\r\n", False), (None, True)],
    ids=["cut", "half", "nonsense", "silence"],
)
async def test_answer_that_fails_tells_that_the_request_was_sent(answer: bytes | None, late: bool) -> None:
    async with asking(ScriptedServer(answer)) as (http, url):
        with pytest.raises(ExchangeFailed) as caught:
            await ask(http, url, silence=0.2 if late else 5)
    assert (caught.value.sent, caught.value.late) == (True, late)


async def test_b108_answer_in_an_encoding_that_nobody_asked_for_is_refused() -> None:
    server = ScriptedServer(b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\nok")
    async with asking(server) as (http, url):
        with pytest.raises(ExchangeFailed, match="compressed by 'br'"):
            await ask(http, url)


async def test_header_that_is_not_valid_is_told_without_it() -> None:
    async with asking(ScriptedServer(OK)) as (http, url):
        with pytest.raises(ExchangeFailed, match="header that is not valid") as caught:
            async with http.send("POST", url, {"Authorization": "Bearer sec\nret"}, b"{}"):
                pass
    assert not caught.value.sent


async def test_nobody_listens() -> None:
    async with asking(ScriptedServer()) as (http, url):
        pass
    async with opened() as http:
        for nowhere in (url, "http://no-such-host.invalid", f"http://{'long' * 20}.invalid", "http://[::1"):
            with pytest.raises(ExchangeFailed) as caught:
                await ask(http, nowhere)
            assert not caught.value.sent


async def test_certificate_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, context = tls_server_context(tmp_path)
    server = ScriptedServer(OK)
    async with run_server(server, context) as port:
        async with opened() as http:
            with pytest.raises(ExchangeFailed, match="CERTIFICATE_VERIFY_FAILED"):
                await ask(http, f"https://localhost:{port}")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        async with opened() as http:
            assert await ask(http, f"https://localhost:{port}") == "ok"
    assert len(server.request_heads) == 1


# ── proxies ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    server = ScriptedServer(OK)
    async with run_server(server) as port:
        monkeypatch.setenv("HTTP_PROXY", f"http://ann:secret@127.0.0.1:{port}")
        async with opened() as http:
            assert await ask(http, "http://provider.invalid/v1") == "ok"
    assert server.request_heads[0].startswith("POST http://provider.invalid/v1 ")
    credentials = base64.b64encode(b"ann:secret").decode()
    assert f"proxy-authorization: basic {credentials}\r\n".lower() in server.request_heads[0].lower()


@pytest.mark.parametrize("exempt", ["127.0.0.1", "example.org,127.0.0.1", "*"])
async def test_server_that_is_exempt_from_proxies_is_asked_directly(
    exempt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = ScriptedServer(OK)
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", exempt)
    async with asking(server) as (http, url):
        assert await ask(http, url) == "ok"


class Proxy:
    """Passes bytes on to one port of this machine, whichever server is asked for; or refuses to."""

    def __init__(self, port: int, refusal: bytes = b"") -> None:
        self.heads: list[str] = []
        self._port = port
        self._refusal = refusal
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        if self._refusal:
            writer.write(self._refusal)
            writer.close()
            return
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        async with asyncio.TaskGroup() as group:
            group.create_task(_pass_on(reader, back))
            group.create_task(_pass_on(there, writer))


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
    except ConnectionError:
        pass
    writer.close()


@asynccontextmanager
async def run_proxy(proxy: Proxy, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    async with await asyncio.start_server(proxy.serve, "127.0.0.1", 0, ssl=context) as listener:
        yield listener.sockets[0].getsockname()[1]


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_secure_server_is_asked_through_a_tunnel(
    scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy, over TLS itself or not, sees the name of the server and nothing of the request."""
    certificate, context = tls_server_context(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    server = ScriptedServer(OK, OK)
    async with run_server(server, context) as port:
        proxy = Proxy(port)
        async with run_proxy(proxy, context if scheme == "https" else None) as proxy_port, opened() as http:
            monkeypatch.setenv("HTTPS_PROXY", f"{scheme}://ann:secret@localhost:{proxy_port}")
            assert [await ask(http, "https://localhost:444/v1") for _ in range(2)] == ["ok", "ok"]
    [head] = proxy.heads
    assert head.startswith("CONNECT localhost:444 HTTP/1.1\r\n")
    assert "proxy-authorization: basic " in head.lower()
    assert "proxy-authorization" not in server.request_heads[0].lower()


async def test_proxy_that_refuses_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = Proxy(9, b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
    async with run_proxy(proxy) as proxy_port, opened() as http:
        monkeypatch.setenv("HTTPS_PROXY", f"127.0.0.1:{proxy_port}")
        with pytest.raises(ExchangeFailed, match="the proxy refused to connect: 407") as caught:
            await ask(http, "https://provider.invalid/v1")
    assert not caught.value.sent


@pytest.mark.parametrize(
    ("variable", "value"), [("HTTPS_PROXY", "socks5://127.0.0.1:9"), ("ALL_PROXY", "http://")]
)
def test_proxy_that_cannot_be_used_is_told_before_anything_starts(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigurationError, match="the environment names a proxy that cannot be used"):
        open_model("openai:gpt-5", api_key="x")


def test_address_that_is_none_is_told_before_anything_starts() -> None:
    with pytest.raises(ConfigurationError, match="'localhost:8080' is no address of an HTTP server"):
        open_model("openai:local", base_url="localhost:8080")

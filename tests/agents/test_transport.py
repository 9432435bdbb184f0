"""The way to providers over real sockets: connections are used again, and failures are the client's own.

Drives `agents/providers/transport`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from httpx2 import AsyncClient, Response

from perdure.agents.providers.transport import open_client
from support.scripted_server import CHUNKED, HALF, LAST, OK, ScriptedServer, run_server, tls_server_context

pytestmark = pytest.mark.anyio

MOVED = b"HTTP/1.1 307 Temporary Redirect\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n"


@pytest.fixture(autouse=True)
def without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http", "https", "all", "no"):
        monkeypatch.delenv(f"{name}_proxy", raising=False)
        monkeypatch.delenv(f"{name}_proxy".upper(), raising=False)


@asynccontextmanager
async def asking(server: ScriptedServer) -> AsyncIterator[tuple[AsyncClient, str]]:
    async with run_server(server) as port, open_client() as client:
        yield client, f"http://127.0.0.1:{port}/v1"


async def ask(client: AsyncClient, url: str) -> Response:
    return await client.post(url, json={}, timeout=5)


async def test_connection_is_used_again_while_it_is_there() -> None:
    server = ScriptedServer(OK, CHUNKED, LAST, OK)
    async with asking(server) as (client, url):
        assert [(await ask(client, url)).text for _ in range(4)] == ["ok", "okay", "ok", "ok"]
    assert server.connections == 2
    assert server.request_heads[0].startswith("POST /v1 HTTP/1.1\r\n")


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
@pytest.mark.parametrize("heard", [False, True], ids=["unheard", "heard"])
async def test_connection_that_was_closed_meanwhile_is_not_used(reset: bool, heard: bool) -> None:
    server = ScriptedServer(OK, OK)
    async with asking(server) as (client, url):
        await ask(client, url)
        await server.cut(reset=reset)
        for _ in range(5 * heard):
            await asyncio.sleep(0)  # the event loop hears of it
        assert (await ask(client, url)).text == "ok"
    assert server.connections == 2


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "TLS"])
async def test_what_comes_unasked_is_no_answer(
    secure: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, context = tls_server_context(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    server = ScriptedServer(OK, OK)
    async with run_server(server, context if secure else None) as port, open_client() as client:
        url = f"{'https' if secure else 'http'}://localhost:{port}"
        await ask(client, url)
        await server.say(LAST)
        assert (await ask(client, url)).headers.get("Connection") is None
    assert server.connections == 2


async def test_what_came_behind_the_answer_is_no_answer() -> None:
    server = ScriptedServer(OK + LAST, OK)
    async with asking(server) as (client, url):
        await ask(client, url)
        assert (await ask(client, url)).headers.get("Connection") is None
    assert server.connections == 2


async def test_answer_that_was_left_halfway_leaves_no_connection_behind() -> None:
    server = ScriptedServer(CHUNKED, OK)
    async with asking(server) as (client, url):
        async with client.stream("POST", url, json={}) as response:
            assert response.status_code == 200
        assert (await ask(client, url)).text == "ok"
    assert server.connections == 2


async def test_pieces_that_have_come_are_given_together() -> None:
    async with asking(ScriptedServer(CHUNKED)) as (client, url), client.stream("POST", url, json={}) as response:
        assert [piece async for piece in response.aiter_raw()] == [b"okay"]


@pytest.mark.parametrize("answer", [OK, LAST], ids=["kept open", "closed behind it"])
async def test_large_request_arrives_whole(answer: bytes) -> None:
    server = ScriptedServer(answer)
    async with asking(server) as (client, url):
        assert (await client.post(url, content=b"a" * 5_000_000, timeout=5)).text == "ok"
    assert "content-length: 5000000\r\n" in server.request_heads[0].lower()


async def test_redirect_is_followed_by_whoever_wants_it() -> None:
    server = ScriptedServer(MOVED, OK)
    async with asking(server) as (client, url):
        response = await client.post(url, json={}, follow_redirects=True)
    assert response.text == "ok"
    assert server.request_heads[1].startswith("POST /there ")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", httpx2.ReadError),
        (HALF, httpx2.ReadError),
        (b"nonsense\r\n\r\n", httpx2.ReadError),
        (None, httpx2.ReadTimeout),
    ],
    ids=["cut", "half", "nonsense", "silence"],
)
async def test_failure_is_one_that_the_libraries_know(answer: bytes | None, error: type[Exception]) -> None:
    async with asking(ScriptedServer(answer)) as (client, url):
        with pytest.raises(error):
            await client.post(url, json={}, timeout=0.2 if answer is None else 5)


async def test_nobody_listens() -> None:
    async with asking(ScriptedServer()) as (client, url):
        pass
    async with open_client() as client:
        for nowhere in (url, "http://no-such-host.invalid"):
            with pytest.raises(httpx2.ConnectError):
                await ask(client, nowhere)


async def test_certificate_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, context = tls_server_context(tmp_path)
    server = ScriptedServer(OK)
    async with run_server(server, context) as port:
        async with open_client() as client:
            with pytest.raises(httpx2.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
                await ask(client, f"https://localhost:{port}")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        async with open_client() as client:
            assert (await ask(client, f"https://localhost:{port}")).text == "ok"
    assert len(server.request_heads) == 1


async def test_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    server = ScriptedServer(OK)
    async with run_server(server) as port:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{port}")
        async with open_client() as client:
            assert (await ask(client, "http://provider.invalid/v1")).text == "ok"
    assert server.request_heads[0].startswith("POST http://provider.invalid/v1 ")

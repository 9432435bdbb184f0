"""The client of Telegram's server over real sockets: what is known of a request, and what is not.

Drives `platforms/telegram/bot_api`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.errors import NotConnected, SendUnknown
from perdure.platforms.telegram.bot_api import HttpClient
from support.scripted_server import CHUNKED, HALF, LAST, OK, ScriptedServer, run_server, tls_server_context

pytestmark = pytest.mark.anyio


async def test_connection_is_used_again_while_it_is_there() -> None:
    server = ScriptedServer(OK, CHUNKED, LAST, OK)
    async with run_server(server) as port:
        http = HttpClient(f"http://127.0.0.1:{port}/beneath/")
        answers = [await http.post("/bot1:x/getMe", b"{}", 5) for _ in range(4)]
        await http.close()
    assert answers == [(200, b"ok"), (200, b"okay"), (200, b"ok"), (200, b"ok")]
    assert server.connections == 2
    assert server.request_heads[0].startswith("POST /beneath/bot1:x/getMe HTTP/1.1\r\n")
    assert f"host: 127.0.0.1:{port}\r\n" in server.request_heads[0].lower()


async def test_connection_that_was_closed_meanwhile_is_not_used() -> None:
    server = ScriptedServer(OK, OK)
    async with run_server(server) as port:
        http = HttpClient(f"http://127.0.0.1:{port}")
        await http.post("/", b"{}", 5)
        await server.cut()
        assert (await http.post("/", b"{}", 5))[0] == 200
        await http.close()
    assert server.connections == 2


async def test_nothing_was_sent_when_nobody_listens() -> None:
    async with run_server(ScriptedServer()) as port:
        pass
    with pytest.raises(NotConnected, match="cannot be reached"):
        await HttpClient(f"http://127.0.0.1:{port}").post("/", b"{}", 5)
    with pytest.raises(NotConnected, match="cannot be reached"):
        await HttpClient("http://no-such-host.invalid").post("/", b"{}", 5)


@pytest.mark.parametrize(
    "answer", [b"", HALF, b"nonsense\r\n\r\n", None], ids=["cut", "half", "nonsense", "silence"]
)
async def test_outcome_is_unknown_when_no_whole_answer_came(answer: bytes | None) -> None:
    async with run_server(ScriptedServer(answer)) as port:
        http = HttpClient(f"http://127.0.0.1:{port}")
        with pytest.raises(SendUnknown) as found:
            await http.post("/bot1:secret/sendMessage", b"{}", 0.2 if answer is None else 5)
        await http.close()
    assert "secret" not in str(found.value)


async def test_certificate_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, context = tls_server_context(tmp_path)
    server = ScriptedServer(OK)
    async with run_server(server, context) as port:
        with pytest.raises(NotConnected, match="CERTIFICATE_VERIFY_FAILED"):
            await HttpClient(f"https://localhost:{port}").post("/", b"{}", 5)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        with pytest.raises(NotConnected, match="not valid for"):
            await HttpClient(f"https://127.0.0.1:{port}").post("/", b"{}", 5)
        http = HttpClient(f"https://localhost:{port}")
        assert await http.post("/", b"{}", 5) == (200, b"ok")
        await http.close()
    assert len(server.request_heads) == 1

"""The client of Telegram's server over real sockets: what is known of a request, and what is not."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from perdure.errors import NotConnected, SendUnknown
from perdure.platforms.telegram.http import Http
from support.certificates import certificate_for

pytestmark = pytest.mark.anyio

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n2\r\nay\r\n0\r\n\r\n"
LAST = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
HALF = b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nok"


class Server:
    """Answers each request with the next of its answers; an empty one closes the connection, None says nothing."""

    def __init__(self, *answers: bytes | None) -> None:
        self.answers = list(answers)
        self.heads: list[str] = []
        self.connections = 0
        self._writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        try:
            while self.answers:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                self.heads.append(head)
                length = head.lower().partition("content-length: ")[2].partition("\r\n")[0]
                await reader.readexactly(int(length))
                answer = self.answers.pop(0)
                if answer is None:
                    await reader.read()
                elif answer:
                    writer.write(answer)
                if answer in (b"", HALF, LAST, None):
                    break
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()


@asynccontextmanager
async def listening(server: Server, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context)
    async with listener:
        yield listener.sockets[0].getsockname()[1]
        server.cut()


async def test_connection_is_used_again_while_it_is_there() -> None:
    server = Server(OK, CHUNKED, LAST, OK)
    async with listening(server) as port:
        http = Http(f"http://127.0.0.1:{port}/beneath/")
        answers = [await http.post("/bot1:x/getMe", b"{}", 5) for _ in range(4)]
        await http.close()
    assert answers == [(200, b"ok"), (200, b"okay"), (200, b"ok"), (200, b"ok")]
    assert server.connections == 2
    assert server.heads[0].startswith("POST /beneath/bot1:x/getMe HTTP/1.1\r\n")
    assert f"host: 127.0.0.1:{port}\r\n" in server.heads[0].lower()


async def test_connection_that_was_closed_meanwhile_is_not_used() -> None:
    server = Server(OK, OK)
    async with listening(server) as port:
        http = Http(f"http://127.0.0.1:{port}")
        await http.post("/", b"{}", 5)
        server.cut()
        await asyncio.sleep(0)  # the loop hears of it
        while not http._idle[0]._reader.at_eof():
            await asyncio.wait({asyncio.ensure_future(http._idle[0]._reader.read())})
        assert (await http.post("/", b"{}", 5))[0] == 200
        await http.close()
    assert server.connections == 2


async def test_nothing_was_sent_when_nobody_listens() -> None:
    async with listening(Server()) as port:
        pass
    with pytest.raises(NotConnected, match="cannot be reached"):
        await Http(f"http://127.0.0.1:{port}").post("/", b"{}", 5)
    with pytest.raises(NotConnected, match="cannot be reached"):
        await Http("http://no-such-host.invalid").post("/", b"{}", 5)


@pytest.mark.parametrize(
    "answer", [b"", HALF, b"nonsense\r\n\r\n", None], ids=["cut", "half", "nonsense", "silence"]
)
async def test_outcome_is_unknown_when_no_whole_answer_came(answer: bytes | None) -> None:
    async with listening(Server(answer)) as port:
        http = Http(f"http://127.0.0.1:{port}")
        with pytest.raises(SendUnknown) as found:
            await http.post("/bot1:secret/sendMessage", b"{}", 0.2 if answer is None else 5)
        await http.close()
    assert "secret" not in str(found.value)


async def test_certificate_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = certificate_for("localhost", tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = Server(OK)
    async with listening(server, context) as port:
        with pytest.raises(NotConnected, match="CERTIFICATE_VERIFY_FAILED"):
            await Http(f"https://localhost:{port}").post("/", b"{}", 5)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        with pytest.raises(NotConnected, match="not valid for"):
            await Http(f"https://127.0.0.1:{port}").post("/", b"{}", 5)
        http = Http(f"https://localhost:{port}")
        assert await http.post("/", b"{}", 5) == (200, b"ok")
        await http.close()
    assert len(server.heads) == 1

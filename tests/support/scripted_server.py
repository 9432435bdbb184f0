"""A socket server that answers every request with the next bytes of a script."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from support.certificates import certificate_for

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n2\r\nay\r\n0\r\n\r\n"
LAST = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
HALF = b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nok"


class ScriptedServer:
    """Sends the next answer to each request; an empty answer closes the connection, None sends nothing."""

    def __init__(self, *answers: bytes | None) -> None:
        self.answers = list(answers)
        self.request_heads: list[str] = []
        self.connections = 0
        self._writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        try:
            while self.answers:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                self.request_heads.append(head)
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

    async def say(self, words: bytes) -> None:
        """Send unrequested bytes on every connection; after return, they have arrived."""
        for writer in self._writers:
            writer.write(words)
            await writer.drain()
        for _ in range(5):
            await asyncio.sleep(0)  # the other side hears it

    async def cut(self, *, reset: bool = False) -> None:
        """End every connection, in good order or not; after return, the other side can know it."""
        for writer in self._writers:
            if reset:
                writer.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )
            writer.transport.abort()
            with suppress(ConnectionError):
                await writer.wait_closed()


@asynccontextmanager
async def run_server(server: ScriptedServer, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context)
    async with listener:
        yield listener.sockets[0].getsockname()[1]
        await server.cut()


def tls_server_context(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """Return a TLS context for `localhost`, and the certificate that clients have to trust."""
    certificate = certificate_for("localhost", folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return certificate, context

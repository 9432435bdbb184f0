"""A TCP proxy between the gateways of a drill and their PostgreSQL server, which can fail as a network does."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import suppress

CHUNK_BYTES = 1 << 16
RESET = struct.pack("ii", 1, 0)  # for SO_LINGER: closing resets the connection


class StoreProxy:
    """Passes bytes on, unless it is closed, stalled, or set to cut a connection."""

    def __init__(self, host: str, port: int) -> None:
        self._upstream = (host, port)
        self._server: asyncio.Server | None = None
        self._links: set[_Link] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._refusing = False
        self._chunks_until_cut: int | None = None
        self._cut_after = False  # the server gets the chunk, and the client never hears of it
        self.port = 0

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        self.cut()
        if self._server is not None:
            self._server.close()

    def go_away(self) -> None:
        """Reset every connection, and refuse new ones."""
        self._refusing = True
        self.cut()

    def stall(self) -> None:
        """Keep every connection, and pass nothing on."""
        self._flowing.clear()

    def come_back(self) -> None:
        """Pass everything on again."""
        self._refusing = False
        self._flowing.set()

    def cut(self) -> None:
        """Reset every connection."""
        for link in list(self._links):
            link.reset()

    def cut_at(self, chunk: int, *, after: bool) -> None:
        """Reset the connection of the n-th chunk to the server from now on, before or after the server gets it."""
        self._chunks_until_cut, self._cut_after = chunk, after

    @property
    def has_cut(self) -> bool:
        """Whether no cut is still to come."""
        return self._chunks_until_cut is None

    async def pass_chunk(self, link: _Link, write: Callable[[], None]) -> None:
        """Pass one chunk of a client on to the server."""
        await self._flowing.wait()
        if self._chunks_until_cut is not None:
            self._chunks_until_cut -= 1
            if self._chunks_until_cut <= 0:
                self._chunks_until_cut = None
                if self._cut_after:
                    write()
                    link.finish_client()
                else:
                    link.reset()
                return
        write()

    async def wait_until_flowing(self) -> None:
        await self._flowing.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = _Link(self, reader, writer)
        if self._refusing:
            link.reset()
            return
        self._links.add(link)
        try:
            with suppress(OSError):
                await link.run(*self._upstream)
        finally:
            link.reset()
            self._links.discard(link)


class _Link:
    """One client's connection, and its counterpart at the server."""

    def __init__(self, proxy: StoreProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._reader = reader
        self._writer = writer
        self._server_writer: asyncio.StreamWriter | None = None

    async def run(self, host: str, port: int) -> None:
        """Pass bytes both ways until either side ends."""
        server_reader, self._server_writer = await asyncio.open_connection(host, port)
        ways = {
            asyncio.create_task(self._client_to_server(self._server_writer)),
            asyncio.create_task(self._server_to_client(server_reader)),
        }
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _client_to_server(self, server: asyncio.StreamWriter) -> None:
        while chunk := await self._reader.read(CHUNK_BYTES):
            await self._proxy.pass_chunk(self, lambda: server.write(chunk))
            await server.drain()

    async def _server_to_client(self, server: asyncio.StreamReader) -> None:
        while chunk := await server.read(CHUNK_BYTES):
            await self._proxy.wait_until_flowing()
            self._writer.write(chunk)
            await self._writer.drain()

    def finish_client(self) -> None:
        """Reset the client. The server has read all that came, and sees an orderly end."""
        _reset(self._writer)
        if self._server_writer is not None:
            self._server_writer.close()

    def reset(self) -> None:
        _reset(self._writer)
        if self._server_writer is not None:
            _reset(self._server_writer)


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with a reset in place of a farewell; closing twice does no harm."""
    line = writer.get_extra_info("socket")
    if line is not None and line.fileno() >= 0 and not writer.is_closing():
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()

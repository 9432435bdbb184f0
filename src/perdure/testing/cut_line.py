"""A proxy to a local server that can be cut and mended, for stages whose platform is a server."""

from __future__ import annotations

import asyncio
from contextlib import suppress

CHUNK_BYTES = 65536


class CutLine:
    """A proxy on a port of its own that passes everything on until it is cut. Use it within one event loop."""

    def __init__(self, port: int) -> None:
        self._target_port = port
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.port = 0

    async def mend(self) -> None:
        """Listen again, always on the same port."""
        if self._server is None:
            self._server = await asyncio.start_server(self._forward, "127.0.0.1", self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """Close every connection and refuse new ones. After return: all are closed."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for link in self._connections:
            link.cancel()
        if self._connections:
            await asyncio.wait(self._connections)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 reason: for the type; a server runs each connection in a task
        self._connections.add(task)
        far: asyncio.StreamWriter | None = None
        # Without this, asyncio would report the cancellation of a link as an error.
        with suppress(OSError, asyncio.CancelledError):
            beyond, far = await asyncio.open_connection("127.0.0.1", self._target_port)
            ends = [asyncio.create_task(_copy_stream(*ways)) for ways in ((reader, far), (beyond, writer))]
            try:
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for end in ends:
                    end.cancel()
        for end_of_line in (writer, far):
            if end_of_line is not None:
                end_of_line.transport.abort()
        self._connections.discard(task)


async def _copy_stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(CHUNK_BYTES):
            writer.write(piece)
            await writer.drain()

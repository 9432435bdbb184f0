"""A web server whose answers have no end, or only after a gigabyte: by their path, compressed or not."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MEBIBYTE = 1 << 20
UNPACKED_MEBIBYTES = 1024  # of a compressed answer


def gzip_bomb(beginning: bytes = b"", fill: bytes = b" ") -> bytes:
    """A gigabyte of one character, compressed to a megabyte."""
    packing = zlib.compressobj(9, zlib.DEFLATED, 31)
    head = packing.compress(beginning) + packing.flush(zlib.Z_FULL_FLUSH)
    # After a full flush, each block stands for itself, and may be repeated.
    block = packing.compress(fill * MEBIBYTE) + packing.flush(zlib.Z_FULL_FLUSH)
    return head + block * UNPACKED_MEBIBYTES


BOMBS: dict[str, tuple[str, bool, bytes, bytes]] = {  # the media type, whether compressed, the beginning, the rest
    "json-gzip": ("application/json", True, b'{"error": "', b"x"),
    "json-plain": ("application/json", False, b'{"error": "', b"x" * MEBIBYTE),
    "events-gzip": ("text/event-stream", True, b'data: {"id": "', b"x"),
    "events-plain": ("text/event-stream", False, b'data: {"id": "', b"x" * MEBIBYTE),
    "events-lines": ("text/event-stream", False, b"", b"data: x\n" * (MEBIBYTE // 8)),
    "page-gzip": ("text/html", True, b"<p>begins</p>", b"x"),
    "page-plain": ("text/html", False, b"<p>begins</p>", b"x" * MEBIBYTE),
}


class _BombHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        name = self.path.split("/")[1]
        kind, packed, beginning, rest = BOMBS[name]
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Connection", "close")
        if packed:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        with suppress(OSError):  # the client has seen enough
            if packed:
                self.wfile.write(gzip_bomb(beginning, rest))
            else:
                self.wfile.write(beginning)
                for _ in range(UNPACKED_MEBIBYTES):
                    self.wfile.write(rest)
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 reason: its name in the base class
        """Log nothing."""


@contextmanager
def bomb_server() -> Iterator[str]:
    """Run the server until the end of the block; yields its URL, to which the name of a bomb is added."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _BombHandler) as server:
        server.daemon_threads, server.block_on_close = True, False
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()

"""A small web server for tests, with pages by path and a list of received requests."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from msgspec import Struct


class ServedPage(Struct, frozen=True):
    """The response at a path."""

    body: bytes = b""
    kind: str | None = "text/plain; charset=utf-8"
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    endless: bool = False  # the body does not end before the server does


class ReceivedRequest(Struct, frozen=True):
    """A received request."""

    path: str
    headers: Message


class PageServer(ThreadingHTTPServer):
    """A server of pages on this machine."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _PageHandler)
        self.pages: dict[str, ServedPage | Callable[[], ServedPage]] = {}
        self.requests: list[ReceivedRequest] = []
        self.closing = threading.Event()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def url(self, path: str = "/", host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that leave or reject the certificate."""


class _PageHandler(BaseHTTPRequestHandler):
    server: PageServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.requests.append(ReceivedRequest(self.path, self.headers))
        found = self.server.pages.get(self.path, ServedPage(b"nothing here", status=404))
        page = found() if callable(found) else found
        self.send_response(page.status)
        if page.kind is not None:
            self.send_header("Content-Type", page.kind)
        self.send_header("Content-Length", str(len(page.body) + page.endless))
        for name, value in page.headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(page.body)
        if page.endless:
            self.server.closing.wait()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 reason: its name in the base class
        """Log nothing: tests read `asked`."""


@contextmanager
def page_server(secure: ssl.SSLContext | None = None) -> Iterator[PageServer]:
    """Run a server until the end of the block."""
    with PageServer() as server:
        if secure is not None:
            server.socket = secure.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.closing.set()
            server.shutdown()
            thread.join()

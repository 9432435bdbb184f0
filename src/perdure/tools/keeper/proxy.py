"""The proxy of a sandboxed command: passes HTTP and tunnels on to public addresses, and refuses all others.

`proxied_network.py` starts it and loads this module when the command connects for the first time.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import threading

TYPE_CHECKING = False  # see program.py
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

if TYPE_CHECKING or __package__:
    from perdure.tools.public_addresses import IpAddress, is_elsewhere_in_public, look_up
else:  # beside a keeper, which has no packages: the folder around this one
    sys.path.append(os.path.dirname(os.path.dirname(__file__)))  # noqa: PTH120 reason: pathlib is large
    from public_addresses import is_elsewhere_in_public, look_up

MAX_CONNECTIONS = 64
MAX_HEAD_BYTES = 65536
MAX_ADDRESSES = 3  # of a host that are tried
HEAD_SECONDS, CONNECT_SECONDS = 30.0, 10.0
HALF_CLOSED_SECONDS = 600.0  # for a server to answer after the command has said all
_PIECE_BYTES = 65536
_FOR_PROXIES = (b"connection", b"keep-alive", b"proxy-connection", b"proxy-authorization")  # not for servers
_REASONS = {400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway", 503: "Service Unavailable"}


class ProxyRefusal(Exception):
    """A request that the proxy does not pass on: the status of its answer, and the name of the sentence in it."""

    def __init__(self, status: int, sentence: str, **details: object) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.details = status, sentence, details


class PublicInternet:
    """Connects to hosts of the public internet, at a few ports."""

    def __init__(
        self,
        ports: Iterable[int],
        look_up: Callable[[str, int], list[IpAddress]] = look_up,
        dial: Callable[[tuple[str, int], float], socket.socket] = socket.create_connection,
    ) -> None:
        self._ports, self._look_up, self._dial = frozenset(ports), look_up, dial

    def connect(self, host: str, port: int) -> socket.socket:
        """Connect to an address that was checked: asked again, the name might lead to another one.

        A single forbidden address is enough to refuse a host, as in `fetch_url`.
        """
        if port not in self._ports:
            raise ProxyRefusal(403, "port", host=host, port=port)
        try:
            addresses = self._look_up(host, port)
        except OSError as error:
            raise ProxyRefusal(502, "unknown_host", host=host) from error
        for address in addresses:
            if not is_elsewhere_in_public(address):
                raise ProxyRefusal(403, "address", host=host, address=address)
        return self._connect_to_one(addresses[:MAX_ADDRESSES], host, port)

    def _connect_to_one(self, addresses: list[IpAddress], host: str, port: int) -> socket.socket:
        problem = ""
        for address in addresses:
            try:
                return self._dial((str(address), port), CONNECT_SECONDS)
            except OSError as error:
                problem = str(error)
        raise ProxyRefusal(502, "unreachable", host=host, problem=problem)


class Proxy:
    """Serves the connections of one sandbox, each in two threads: one for each direction."""

    def __init__(self, internet: PublicInternet, sentences: Mapping[str, str]) -> None:
        self._internet, self._sentences = internet, sentences
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)

    def serve(self, listener: socket.socket, sandbox: int) -> None:
        """Accept connections until the sandbox has ended: until its pidfd can be read."""
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        poll.register(sandbox, select.POLLIN)
        while sandbox not in (ready := [descriptor for descriptor, _ in poll.poll()]):
            if ready:
                client, _ = listener.accept()
                threading.Thread(target=self.handle, args=(client,), daemon=True).start()

    def handle(self, client: socket.socket) -> None:
        """Carry out the request of a connection, or say why not."""
        with client:
            if not self._free.acquire(blocking=False):
                self._answer(client, ProxyRefusal(503, "busy"))
                return
            try:
                self._pass_on(client)
            except ProxyRefusal as refusal:
                self._answer(client, refusal)
            except OSError:  # one of both sides has closed the connection
                return
            finally:
                self._free.release()

    def _pass_on(self, client: socket.socket) -> None:
        client.settimeout(HEAD_SECONDS)
        head, rest = read_head(client)
        is_tunnel, host, port, forwarded = parse_head(head)
        with self._internet.connect(host, port) as server:
            for side in (client, server):
                side.settimeout(None)  # a tunnel may be silent for as long as its command likes
            server.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if is_tunnel:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            server.sendall(forwarded + rest)
            back = threading.Thread(target=relay, args=(server, client), daemon=True)
            back.start()
            relay(client, server)
            back.join(HALF_CLOSED_SECONDS)
            shut(server, client)

    def _answer(self, client: socket.socket, refusal: ProxyRefusal) -> None:
        body = self._sentences[refusal.sentence].format(**refusal.details).encode() + b"\n"
        lines = (
            f"HTTP/1.1 {refusal.status} {_REASONS[refusal.status]}",
            "Content-Type: text/plain; charset=utf-8",
            f"Content-Length: {len(body)}",
            "Connection: close",
        )
        try:
            client.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        except OSError:  # it is gone
            return


def relay(source: socket.socket, target: socket.socket) -> None:
    """Pass on what one side says until it has said all; if that fails, end both directions."""
    try:
        while piece := source.recv(_PIECE_BYTES):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        shut(source, target)


def shut(*sides: socket.socket) -> None:
    """End both directions of connections, also for a thread that waits for one."""
    for side in sides:
        try:
            side.shutdown(socket.SHUT_RDWR)
        except OSError:  # it is closed already
            continue


# ── requests ────────────────────────────────────────────────────────────────────────────────────────────────


def read_head(client: socket.socket) -> tuple[bytes, bytes]:
    """The head of a request, and what of the rest came with it."""
    read = b""
    while b"\r\n\r\n" not in read:
        piece = client.recv(_PIECE_BYTES)
        read += piece
        if not piece or len(read) > MAX_HEAD_BYTES:
            raise ProxyRefusal(400, "request")
    head, _, rest = read.partition(b"\r\n\r\n")
    return head, rest


def parse_head(head: bytes) -> tuple[bool, str, int, bytes]:
    """Whether a request wants a tunnel; its host and port; and the head that its server gets.

    A server gets one request on a connection: the next one might be for another server.
    """
    line, *headers = head.split(b"\r\n")
    try:
        method, target, version = line.decode("ascii").split(" ")
        if method == "CONNECT":
            return True, *_host_and_port(target, None), b""
        host, port, path = _split_url(target)
    except ValueError as error:
        raise ProxyRefusal(400, "request") from error
    kept = [each for each in headers if each.partition(b":")[0].strip().lower() not in _FOR_PROXIES]
    first = f"{method} {path} {version}".encode()
    return False, host, port, b"\r\n".join([first, *kept, b"Connection: close"]) + b"\r\n\r\n"


def _split_url(url: str) -> tuple[str, int, str]:
    """The host, the port and the path of an `http://` address; `ValueError` for any other."""
    if url[:7].lower() != "http://":
        raise ValueError(url)
    rest = url[7:]
    end = min((at for mark in "/?#" if (at := rest.find(mark)) >= 0), default=len(rest))
    return *_host_and_port(rest[:end], 80), rest[end:] if rest[end:].startswith("/") else f"/{rest[end:]}"


def _host_and_port(authority: str, default: int | None) -> tuple[str, int]:
    """Split `host:port`; `ValueError` for a user name, or if there is no host or no port."""
    host, colon, port = authority.rpartition(":")
    if not colon or "]" in port:
        host, port = authority, "" if default is None else str(default)
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not host or any(mark in host for mark in "@/[]") or not (port.isascii() and port.isdigit()):
        raise ValueError(authority)
    return host, int(port)

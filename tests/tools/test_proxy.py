"""The proxy of sandboxed commands: whom it connects to, what it passes on, and what it refuses.

Drives `tools/keeper/proxy`. The connections outward are the test's own: a proxy that reaches a server on this
machine would be a hole.
"""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from ipaddress import ip_address

import pytest

from perdure.core import texts
from perdure.tools.keeper.proxy import MAX_CONNECTIONS, Proxy, ProxyRefusal, PublicInternet, parse_head
from perdure.tools.public_addresses import IpAddress
from support.waiting import wait_for

PORTS = (22, 53, 80, 443)
PUBLIC = "93.184.215.14"
Dial = Callable[[tuple[str, int], float], socket.socket]


class Names:
    """Names that lead to other addresses each time they are looked up."""

    def __init__(self, *answers: list[str]) -> None:
        self._answers = list(answers)

    def look_up(self, host: str, port: int) -> list[IpAddress]:
        assert host
        assert port
        return [ip_address(each) for each in self._answers.pop(0)]


class Dialled:
    """Connects to a server of the test's own, and remembers whom it was to connect to."""

    def __init__(self, server: socket.socket | None = None, unreachable: tuple[str, ...] = ()) -> None:
        self.targets: list[tuple[str, int]] = []
        self._server, self._unreachable = server, unreachable

    def __call__(self, target: tuple[str, int], timeout: float) -> socket.socket:
        self.targets.append(target)
        if target[0] in self._unreachable or self._server is None:
            raise TimeoutError("timed out")
        return socket.create_connection(self._server.getsockname(), timeout)


@contextmanager
def proxy_to(server: socket.socket) -> Iterator[tuple[str, int]]:
    """The address of a proxy that serves until the process beside it, in the place of a sandbox, has ended."""
    internet = PublicInternet(PORTS, lambda *_: [ip_address(PUBLIC)], Dialled(server))
    with socket.create_server(("127.0.0.1", 0)) as listener, subprocess.Popen(["/bin/sleep", "300"]) as sandbox:
        handle = os.pidfd_open(sandbox.pid)
        serving = threading.Thread(
            target=Proxy(internet, texts.sandbox.PROXY_SENTENCES).serve, args=(listener, handle), daemon=True
        )
        serving.start()
        try:
            yield listener.getsockname()
        finally:
            sandbox.kill()
            wait_for("the proxy ends with its sandbox", lambda: not serving.is_alive())
            os.close(handle)


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def read_until(connection: socket.socket, mark: bytes) -> bytes:
    read = b""
    while mark not in read:
        piece = connection.recv(1)
        assert piece, read
        read += piece
    return read


# ── whom it connects to ─────────────────────────────────────────────────────────────────────────────────────


def test_b182_proxy_connects_to_the_address_that_it_checked(server: socket.socket) -> None:
    names, dialled = Names([PUBLIC], ["127.0.0.1"]), Dialled(server)
    with closing(PublicInternet(PORTS, names.look_up, dialled).connect("rebinding.example", 443)):
        assert dialled.targets == [(PUBLIC, 443)]


@pytest.mark.parametrize("addresses", [["127.0.0.1"], [PUBLIC, "10.0.0.1"], ["169.254.169.254"], ["fd00::1"]])
def test_b182_single_forbidden_address_refuses_a_host(addresses: list[str]) -> None:
    dialled = Dialled()
    with pytest.raises(ProxyRefusal) as refused:
        PublicInternet(PORTS, Names(addresses).look_up, dialled).connect("mixed.example", 443)
    assert (refused.value.status, refused.value.sentence, dialled.targets) == (403, "address", [])


def test_b182_ports_that_are_not_listed_are_refused_before_the_name_is_looked_up() -> None:
    with pytest.raises(ProxyRefusal) as refused:
        PublicInternet(PORTS, Names().look_up, Dialled()).connect("mail.example", 25)
    assert (refused.value.status, refused.value.sentence) == (403, "port")


def test_next_address_is_tried_when_one_does_not_answer(server: socket.socket) -> None:
    other = "93.184.215.15"
    dialled = Dialled(server, unreachable=(PUBLIC,))
    with closing(PublicInternet(PORTS, Names([PUBLIC, other]).look_up, dialled).connect("two.example", 80)):
        assert dialled.targets == [(PUBLIC, 80), (other, 80)]


def test_host_that_cannot_be_reached_is_told() -> None:
    with pytest.raises(ProxyRefusal) as refused:
        PublicInternet(PORTS, Names([PUBLIC]).look_up, Dialled()).connect("down.example", 80)
    assert (refused.value.status, refused.value.sentence) == (502, "unreachable")


# ── what it passes on ───────────────────────────────────────────────────────────────────────────────────────


def test_tunnel_passes_on_both_directions_and_half_closed_ones(server: socket.socket) -> None:
    with proxy_to(server) as address, socket.create_connection(address) as client:
        client.sendall(b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\n\r\nhello")
        assert read_until(client, b"\r\n\r\n").startswith(b"HTTP/1.1 200 ")
        with server.accept()[0] as accepted:
            assert read_until(accepted, b"hello") == b"hello"
            client.shutdown(socket.SHUT_WR)
            assert accepted.recv(10) == b""
            accepted.sendall(b"the answer comes after that")
        assert client.makefile("rb").read() == b"the answer comes after that"


def test_plain_request_goes_on_as_a_server_expects_it(server: socket.socket) -> None:
    with proxy_to(server) as address, socket.create_connection(address) as client:
        client.sendall(
            b"POST http://example.org/a?b=c HTTP/1.1\r\nHost: example.org\r\nProxy-Connection: keep-alive\r\n"
            b"Proxy-Authorization: Basic eA==\r\nContent-Length: 2\r\n\r\nhi"
        )
        with server.accept()[0] as accepted:
            assert read_until(accepted, b"hi") == (
                b"POST /a?b=c HTTP/1.1\r\nHost: example.org\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi"
            )
            accepted.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
        assert client.makefile("rb").read() == b"HTTP/1.1 204 No Content\r\n\r\n"


def test_large_answer_comes_while_the_request_is_still_sent(server: socket.socket) -> None:
    """Neither side reads before it has sent all: a proxy with one thread for both would stand still."""
    size = 4_000_000
    with proxy_to(server) as address, socket.create_connection(address) as client:
        client.sendall(b"CONNECT example.org:443 HTTP/1.1\r\n\r\n")
        read_until(client, b"\r\n\r\n")
        with server.accept()[0] as accepted:
            answering = threading.Thread(target=accepted.sendall, args=(b"a" * size,), daemon=True)
            answering.start()
            asking = threading.Thread(target=client.sendall, args=(b"q" * size,), daemon=True)
            asking.start()
            assert len(accepted.makefile("rb").read(size)) == size
            assert len(client.makefile("rb").read(size)) == size


def test_too_many_connections_are_refused_and_others_go_on(server: socket.socket) -> None:
    with proxy_to(server) as address:
        held = [socket.create_connection(address) for _ in range(MAX_CONNECTIONS)]
        for each in held:
            each.sendall(b"CONNECT example.org:443 HTTP/1.1\r\n\r\n")
            read_until(each, b"\r\n\r\n")
        with socket.create_connection(address) as one_more:
            assert one_more.makefile("rb").read().startswith(b"HTTP/1.1 503 ")
        for each in held:
            each.close()


# ── requests ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("line", "host", "port"),
    [
        ("CONNECT example.org:443", "example.org", 443),
        ("CONNECT [2606:2800::1]:443", "2606:2800::1", 443),
        ("GET http://example.org", "example.org", 80),
        ("GET HTTP://example.org:8080?q", "example.org", 8080),
        ("GET http://[2606:2800::1]/x", "2606:2800::1", 80),
    ],
)
def test_host_and_port_of_a_request(line: str, host: str, port: int) -> None:
    assert parse_head(f"{line} HTTP/1.1".encode())[1:3] == (host, port)


@pytest.mark.parametrize(
    "line",
    [
        "GET /path",
        "GET https://example.org/",
        "CONNECT example.org",
        "CONNECT :443",
        "CONNECT user@example.org:443",
        "CONNECT example.org:4x3",
        "GET http://user:word@example.org/",
        "GET http:///path",
        "nothing",
        "GET http://exämple.org/",
    ],
)
def test_request_that_names_no_host_is_refused(line: str) -> None:
    with pytest.raises(ProxyRefusal) as refused:
        parse_head(f"{line} HTTP/1.1".encode())
    assert refused.value.status == 400


def test_head_without_an_end_is_refused(server: socket.socket) -> None:
    with proxy_to(server) as address, socket.create_connection(address) as client:
        client.sendall(b"GET http://example.org/ HTTP/1.1\r\n" + b"x: y\r\n" * 20_000)
        assert client.recv(100).startswith(b"HTTP/1.1 400 ")

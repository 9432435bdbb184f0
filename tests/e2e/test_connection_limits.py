"""Who has no login costs little: half-open connections, slow requests and bad ones, and their log lines (B108).

Drives `web/connection_limits`, `web/server`, `web/requests`, `web/auth/login` and `logs`.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest

from perdure.logs import MAX_REPEATED_LINES
from support.gateway import GatewayProcess, Person, gateway
from support.waiting import wait_for

FEW_FILES = ("sh", "-c", 'ulimit -n 256; exec "$@"', "sh")  # for the gateway, whose limit is otherwise raised
HALF_OPEN = 700  # connections; far more than the gateway can have open
MAX_LOG_LINES = 40  # of a gateway to which thousands of bad things have happened


@contextmanager
def gateway_with_few_files(home: Path, **settings: str) -> Iterator[GatewayProcess]:
    process = GatewayProcess(home, **settings)
    try:
        yield process.start(*FEW_FILES)
    finally:
        process.close()


def connect(process: GatewayProcess, sent: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", process.port), timeout=60)
    if sent:
        with suppress(ConnectionError):  # it may be closed already, for a newer one
            connection.sendall(sent)
    return connection


def is_closed_by_peer(connection: socket.socket) -> bool:
    """Whether the gateway has closed a connection on which it owes nothing."""
    try:
        connection.settimeout(0.05)
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def healthy(process: GatewayProcess) -> bool:
    return httpx.get(f"{process.url}/healthz", timeout=60).status_code == 200


def test_b108_people_are_served_while_hundreds_of_connections_hang(tmp_path: Path) -> None:
    """The gateway may open 256 files; strangers open many more connections than that, and send half a head."""
    with gateway_with_few_files(tmp_path / "home") as process, ExitStack() as hanging:
        person = Person(process)
        person.say("say: before")
        person.wait_for_replies(1)
        heard: list[Any] = []
        listening = threading.Thread(target=lambda: heard.append(person.wait_for_event("it", text="after")))
        listening.start()
        for number in range(HALF_OPEN):
            half = b"" if number % 2 else b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
            hanging.enter_context(connect(process, half))
            if number % 100 == 0:
                assert healthy(process)
        assert healthy(process)
        person.say("say: after")
        assert person.wait_for_replies(2)[-1] == "after"
        listening.join(60)
        assert heard, "a stream that was open before, with a login, is not closed for strangers"
        wait_for("the log says it", lambda: "connections_closed" in process.log())
        assert process.stop() == 0
    assert len(process.log().splitlines()) < MAX_LOG_LINES, process.log()[:4000]
    assert "Traceback" not in process.log()


def test_b108_everybody_is_served_when_strangers_hang_with_open_bodies(tmp_path: Path) -> None:
    head = b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\ntoken="
    with gateway_with_few_files(tmp_path / "home") as process, ExitStack() as hanging:
        for _ in range(HALF_OPEN):
            hanging.enter_context(connect(process, head))
        assert healthy(process)
        person = Person(process)
        person.say("say: here")
        assert person.wait_for_replies(1) == ["here"]
    assert len(process.log().splitlines()) < MAX_LOG_LINES, process.log()[:4000]


@pytest.fixture(scope="module")
def hurried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway that waits a second for what a client owes it."""
    with gateway(tmp_path_factory.mktemp("limits") / "home", WEB__REQUEST_TIMEOUT="1s") as process:
        yield process


@pytest.mark.parametrize(
    ("first", "then"),
    [
        pytest.param(b"", b"", id="nothing at all"),
        pytest.param(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n", b"", id="half a head"),
        pytest.param(b"GET /healthz HTTP/1.1\r\n", b"A: b\r\n", id="a head that never ends"),
        pytest.param(
            b"GET /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999\r\n\r\n",
            b"x",
            id="a body that nobody wanted",
        ),
    ],
)
def test_b108_connection_is_closed_when_its_request_does_not_come(
    hurried: GatewayProcess, first: bytes, then: bytes
) -> None:
    def closed() -> bool:
        with suppress(ConnectionError):
            connection.sendall(then)
        return is_closed_by_peer(connection)

    with connect(hurried, first) as connection:
        wait_for("the gateway closes it", closed)


def test_b108_body_that_stops_coming_is_refused(hurried: GatewayProcess) -> None:
    head = b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
    with connect(hurried, head) as connection:
        assert connection.recv(12) == b"HTTP/1.1 408"


def test_b108_connection_is_closed_when_only_its_first_requests_are_whole(hurried: GatewayProcess) -> None:
    connection = HTTPConnection("127.0.0.1", hurried.port, timeout=60)
    for _ in range(3):
        connection.request("GET", "/healthz")
        response = connection.getresponse()
        assert response.status == 200
        response.read()
    connection.sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
    wait_for("the gateway closes it", lambda: is_closed_by_peer(connection.sock))
    connection.close()


def test_b108_log_has_few_lines_when_a_thousand_requests_are_no_http(tmp_path: Path) -> None:
    with gateway(tmp_path / "home") as process:
        for _ in range(1000):
            with connect(process, b"\x00\x1b[2J nonsense\r\n\r\n") as connection, suppress(ConnectionError):
                assert connection.recv(12) in (b"HTTP/1.1 400", b"")
        assert process.stop() == 0
    log = process.log()
    assert log.count("Invalid HTTP request") == MAX_REPEATED_LINES + 1, "the last one tells of those left out"
    assert f"count={1000 - MAX_REPEATED_LINES}" in log
    assert len(log.splitlines()) < 2 * MAX_LOG_LINES

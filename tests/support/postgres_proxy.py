"""A TCP proxy before PostgreSQL that loses connections at the one moment that matters: around a COMMIT.

It reads the wire protocol message by message, so a trap springs on the COMMIT itself and not on bytes that
look like one. A connection is one thread, which alone touches the two sockets: closing a socket in which
another thread is waiting would not reset it.
"""

from __future__ import annotations

import contextlib
import enum
import re
import selectors
import socket
import struct
import threading
from urllib.parse import urlsplit

HOST = "127.0.0.1"
REQUESTS_FOR_ENCRYPTION = {80877103, 80877104}  # SSLRequest, GSSENCRequest
PROTOCOL_MAJOR = 3
ENDED_BY_READY = {b"Q", b"S", b"F"}  # Query, Sync, FunctionCall: each ends with one ReadyForQuery
CUT, RELEASE = b"c", b"r"
SYNC = b"S" + struct.pack("!I", 4)
QUOTED = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\$(\w*)\$.*?\$\1\$|--[^\n]*|/\*.*?\*/""", re.DOTALL)
COMMIT = re.compile(r"(?:^|;)\s*COMMIT\b", re.IGNORECASE)


class Trap(enum.Enum):
    """What befalls the next COMMIT."""

    CUT_AFTER = "the server commits, the client never hears of it"
    CUT_BEFORE = "the server never hears of it"
    HOLD = "the client is gone, the server hears of it later"


class CuttingProxy:
    """Stands between clients and one PostgreSQL; a trap springs once, on the next COMMIT of any client."""

    def __init__(self, upstream_host: str, upstream_port: int) -> None:
        self.upstream = (upstream_host, upstream_port)
        self.refuse = False  # while true, new connections are reset
        self.sprung = 0  # how many traps have done their work
        self._trap: Trap | None = None
        self._held: _Link | None = None
        self._links: set[_Link] = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._accepting = threading.Thread(target=self._accept, name="proxy", daemon=True)
        self._accepting.start()

    def __enter__(self) -> CuttingProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # unlike close(), this wakes the thread in accept()
        self._accepting.join()
        self._listener.close()
        self.cut()

    def through(self, url: str) -> str:
        """The same URL, by way of this proxy."""
        parts = urlsplit(url)
        login, at, _ = parts.netloc.rpartition("@")
        return parts._replace(netloc=f"{login}{at}{HOST}:{self.port}").geturl()

    def cut_after_commit(self) -> None:
        """Arm: the server carries the COMMIT out, then the client is reset without having seen the answer."""
        self._trap = Trap.CUT_AFTER

    def cut_before_commit(self) -> None:
        """Arm: both connections are reset, and the server never sees the COMMIT."""
        self._trap = Trap.CUT_BEFORE

    def hold_commit(self) -> None:
        """Arm: the client is reset; the server stays in its transaction until `release` sends the COMMIT."""
        if self._held is not None and self._held.is_alive():
            raise AssertionError("One COMMIT is held already: release() it before holding another.")
        self._trap = Trap.HOLD

    def release(self, timeout: float = 30.0) -> bool:
        """Send the held COMMIT: true once the server has answered, false if that connection was lost."""
        with self._lock:
            link, self._held = self._held, None
        if link is None:
            raise AssertionError("No COMMIT is held: release() needs hold_commit() and a commit after it.")
        link.send_command(RELEASE)
        link.join(timeout)
        if link.is_alive():
            raise AssertionError(f"The server has not answered the released COMMIT within {timeout:g} s.")
        return link.answered

    def cut(self) -> None:
        """Reset all connections on both sides, a held one included; when it returns, it has happened."""
        with self._lock:
            links = list(self._links)
        for link in links:
            link.send_command(CUT)
        for link in links:
            link.join()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.refuse:
                _reset(client)
                continue
            link = _Link(self, client)
            with self._lock:
                self._links.add(link)
                link.start()

    def take_trap(self, link: _Link) -> Trap | None:
        """The armed trap, if there is one, for the one connection that asks first."""
        with self._lock:
            trap, self._trap = self._trap, None
            if trap is Trap.HOLD:
                self._held = link
        return trap

    def count(self) -> None:
        """Note that a trap has done its work."""
        with self._lock:
            self.sprung += 1

    def forget(self, link: _Link) -> None:
        """Drop a connection that has ended."""
        with self._lock:
            self._links.discard(link)


class _Link(threading.Thread):
    """One client's connection and its counterpart at the server, until either ends."""

    def __init__(self, proxy: CuttingProxy, client: socket.socket) -> None:
        super().__init__(name="proxy link", daemon=True)
        self.answered = False  # the server has answered the COMMIT that a trap let through
        self._proxy = proxy
        self._client = client
        self._server = socket.socket()
        self._command_reader, self._command_writer = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._from_client, self._from_server = bytearray(), bytearray()
        self._statements = _Statements()
        self._greeted = False
        self._client_lost = False  # nothing is read from the client any more, nothing is sent to it
        self._held_commit: bytes | None = None
        self._committing = False
        self._unanswered = 0

    def send_command(self, command: bytes) -> None:
        """Have the link's own thread do something; a link that has ended needs no order."""
        with contextlib.suppress(OSError):
            self._command_writer.send(command)

    def run(self) -> None:
        try:
            self._connect()
            while all(key.data() for key, _ in self._selector.select()):
                pass
        except OSError:
            self._reset_both()  # one side has broken: the other shall see the same
        finally:
            self._selector.close()
            for end in (self._client, self._server, self._command_reader, self._command_writer):
                end.close()
            self._proxy.forget(self)

    def _connect(self) -> None:
        self._server.connect(self._proxy.upstream)
        for end in (self._client, self._server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._selector.register(self._client, selectors.EVENT_READ, self._read_client)
        self._selector.register(self._server, selectors.EVENT_READ, self._read_server)
        self._selector.register(self._command_reader, selectors.EVENT_READ, self._run_command)

    # Each of the next three says whether the link goes on.

    def _read_client(self) -> bool:
        chunk = self._client.recv(65536)
        self._from_client += chunk
        goes_on = bool(chunk)
        while goes_on and not self._client_lost and (message := _take_message(self._from_client, self._greeted)):
            goes_on = self._pass_on(message) if self._greeted else self._greet(message)
        return goes_on

    def _read_server(self) -> bool:
        chunk = self._server.recv(65536)
        self._from_server += chunk
        while message := _take_message(self._from_server, typed=True):
            self._unanswered -= message[:1] == b"Z"
            if not self._client_lost:
                self._client.sendall(message)
        if self._committing and self._unanswered == 0:
            return self._end_commit()
        return bool(chunk)

    def _run_command(self) -> bool:
        if self._command_reader.recv(1) == CUT:
            self._reset_both()
            return False
        if self._held_commit is not None:
            self._commit(self._held_commit)
        return True

    def _greet(self, message: bytes) -> bool:
        (code,) = struct.unpack_from("!I", message, 4)
        if code in REQUESTS_FOR_ENCRYPTION:
            self._client.sendall(b"N")  # declined here, whatever the server can do: we must be able to read
            return True
        self._greeted = code >> 16 == PROTOCOL_MAJOR
        self._unanswered += self._greeted
        self._server.sendall(message)
        return True

    def _pass_on(self, message: bytes) -> bool:
        if self._statements.commits(message) and (trap := self._proxy.take_trap(self)):
            # The server answers an Execute only after a Sync, which the lost client cannot send any more.
            return self._spring_trap(trap, message + (SYNC if message[:1] == b"E" else b""))
        self._unanswered += message[:1] in ENDED_BY_READY
        self._server.sendall(message)
        return True

    def _spring_trap(self, trap: Trap, commit: bytes) -> bool:
        self._client_lost = True
        self._selector.unregister(self._client)
        if trap is Trap.CUT_AFTER:
            self._commit(commit)
            return True
        self._proxy.count()
        if trap is Trap.HOLD:
            self._held_commit = commit
            _reset(self._client)
            return True
        self._reset_both()
        return False

    def _commit(self, commit: bytes) -> None:
        self._committing = True
        self._unanswered += 1
        self._server.sendall(commit)

    def _end_commit(self) -> bool:
        self.answered = True
        if self._held_commit is None:
            self._proxy.count()
        self._reset_both()
        return False

    def _reset_both(self) -> None:
        _reset(self._client)
        _reset(self._server)


class _Statements:
    """Knows which message of a connection carries out a COMMIT, in the simple and extended protocol."""

    def __init__(self) -> None:
        self._prepared: dict[bytes, bool] = {}
        self._portals: dict[bytes, bool] = {}

    def commits(self, message: bytes) -> bool:
        """True for a Query with a COMMIT and for the Execute of one; its Parse commits nothing."""
        kind, (first, *rest) = message[:1], message[5:].split(b"\0", 2)
        if kind == b"P":
            self._prepared[first] = _is_commit(rest[0])
        elif kind == b"B":
            self._portals[first] = self._prepared.get(rest[0], False)
        elif kind == b"E":
            return self._portals.get(first, False)
        return kind == b"Q" and _is_commit(first)


def _is_commit(text: bytes) -> bool:
    return COMMIT.search(QUOTED.sub(" ", text.decode("latin-1"))) is not None


def _take_message(buffer: bytearray, typed: bool) -> bytes | None:
    """Remove and return the first message, if it is there in full; until the greeting they have no type."""
    start = 1 if typed else 0
    if len(buffer) < start + 4:
        return None
    (size,) = struct.unpack_from("!I", buffer, start)
    if len(buffer) < start + size:
        return None
    message = bytes(buffer[: start + size])
    del buffer[: start + size]
    return message


def _reset(connection: socket.socket) -> None:
    """Close with a reset in place of a farewell; closing twice does no harm."""
    if connection.fileno() >= 0:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

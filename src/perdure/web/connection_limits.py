"""Bounds what connections without a login cost: how many are open, and how long each may take.

A new connection is always accepted. If there are too many without a login, the one that has waited longest is
closed for it; a client that sends its request at once is answered even while thousands of others hang. A
connection whose request had a login counts among the others, which strangers cannot close.
"""

from __future__ import annotations

import asyncio
import math
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterable
from ipaddress import ip_address, ip_network
from typing import Any, Protocol

from starlette.requests import Request
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from perdure.logs import Log

log = Log("server")

MAX_ANONYMOUS = 512  # connections without a login, from all addresses
MIN_CONNECTIONS = 16  # with and without a login, however low the limit of open files is
ACCEPTED_AT_ONCE = 32  # connections that are opened before the first of them is counted
KEEP_ALIVE_SECONDS = 75  # longer than clients keep a connection, so that the client closes it first
WRITE_STALL_SECONDS = 60.0  # in which a client must read some of what waits for it
REPORT_SECONDS = 60.0  # between two log lines about closed connections


class LimitedConnection(Protocol):
    """A connection as its limits see it."""

    address: str  # of the client, or of the proxy before it

    @property
    def is_serving(self) -> bool:
        """Whether a request is being answered."""
        ...

    def overdue(self, now: float) -> str:
        """Why the connection has to be closed at this time; empty if it may stay."""
        ...

    def drop(self) -> None:
        """Close the connection at once."""
        ...


class ConnectionLimits:
    """Counts the open connections, and closes those that are too many or too slow."""

    def __init__(
        self, most: int, proxies: Iterable[str] = (), clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`most` is the wanted number of connections; no more than half of the possible files are open."""
        budget = max(MIN_CONNECTIONS, min(most, _max_open_files() // 2))
        self._max_anonymous = min(MAX_ANONYMOUS, budget // 2)
        self._max_per_address = self._max_anonymous // 2
        self._max_logged_in = budget - self._max_anonymous
        self.accepted_at_once = min(ACCEPTED_AT_ONCE, budget // 8)
        self._proxies = [ip_network(proxy, strict=False) for proxy in proxies]
        self._clock = clock
        self._anonymous: dict[LimitedConnection, str] = {}  # with the address; the oldest first
        self._per_address: Counter[str] = Counter()
        self._logged_in: set[LimitedConnection] = set()
        self._dropped: Counter[str] = Counter()  # by reason, since the last report
        self._reported_at = -math.inf

    def admit(self, connection: LimitedConnection) -> None:
        """Count a new connection, and close an older one if there are too many now."""
        address = self._counted_address(connection.address)
        if address and self._per_address[address] >= self._max_per_address:
            self._drop(self._oldest(address), "too_many_of_one_address")
        elif len(self._anonymous) >= self._max_anonymous:
            self._drop(self._oldest(), "too_many")
        self._anonymous[connection] = address
        self._per_address[address] += 1

    def mark_logged_in(self, connection: LimitedConnection) -> None:
        """Count a connection among those with a login, if there is room; otherwise it stays where it is."""
        if connection in self._anonymous and len(self._logged_in) < self._max_logged_in:
            self.forget(connection)
            self._logged_in.add(connection)

    def forget(self, connection: LimitedConnection) -> None:
        """Count a connection no more."""
        self._logged_in.discard(connection)
        address = self._anonymous.pop(connection, None)
        if address is not None:
            self._per_address[address] -= 1
            if not self._per_address[address]:
                del self._per_address[address]

    def close_overdue(self) -> None:
        """Close the connections that are too slow, and log how many were closed."""
        now = self._clock()
        for connection in [*self._anonymous, *self._logged_in]:
            if reason := connection.overdue(now):
                self._drop(connection, reason)
        if self._dropped and now - self._reported_at >= REPORT_SECONDS:
            log.warning("connections_closed", **self._dropped, open=len(self._anonymous) + len(self._logged_in))
            self._dropped.clear()
            self._reported_at = now

    def _drop(self, connection: LimitedConnection, reason: str) -> None:
        self.forget(connection)
        self._dropped[reason] += 1
        connection.drop()

    def _oldest(self, address: str | None = None) -> LimitedConnection:
        """The oldest connection without a login, rather one that is not being answered."""
        candidates = [each for each, counted in self._anonymous.items() if address in (None, counted)]
        return next((each for each in candidates if not each.is_serving), candidates[0])

    def _counted_address(self, client: str) -> str:
        """The address by which a client is counted: of IPv6 its /64 network; empty for a configured proxy."""
        try:
            address = ip_address(client.partition("%")[0])
        except ValueError:
            return client
        if any(address in proxy for proxy in self._proxies):
            return ""
        return client if address.version == 4 else str(ip_network((address, 64), strict=False))


def _max_open_files() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft


class LimitedHttpProtocol(H11Protocol):
    """Uvicorn's HTTP connection, with deadlines and a place among the limits."""

    def __init__(self, *, limits: ConnectionLimits, request_seconds: float, **given: Any) -> None:
        super().__init__(**given)
        # Each request's scope gets a copy of this, and so the login check finds the connection.
        self.app_state = {**self.app_state, "connection": self}
        self._limits = limits
        self.request_seconds = request_seconds
        self._idle = False  # since the last response, nothing has come
        self._deadline = math.inf
        self._write_deadline = math.inf
        self.address = ""

    @property
    def is_serving(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request
        return cycle is not None and not cycle.response_complete

    def mark_logged_in(self) -> None:
        self._limits.mark_logged_in(self)

    def overdue(self, now: float) -> str:
        if now > self._write_deadline:
            return "read_too_slowly"
        if self.is_serving or now <= self._deadline:
            return ""
        return "idle" if self._idle else "sent_too_slowly"

    def drop(self) -> None:
        self.transport.abort()

    # ── callbacks of the event loop ─────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self._deadline = time.monotonic() + self.request_seconds
        self._limits.admit(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._limits.forget(self)
        self.app_state = {}
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._idle:  # the next request begins
            self._idle = False
            self._deadline = time.monotonic() + self.request_seconds
        super().data_received(data)

    def on_response_complete(self) -> None:
        self._idle = True
        self._deadline = time.monotonic() + 2 * KEEP_ALIVE_SECONDS  # uvicorn itself closes it before that
        super().on_response_complete()

    def pause_writing(self) -> None:
        self._write_deadline = time.monotonic() + WRITE_STALL_SECONDS
        super().pause_writing()

    def resume_writing(self) -> None:
        self._write_deadline = math.inf
        super().resume_writing()


def mark_logged_in(request: Request) -> None:
    """Count the connection of a request among those with a login."""
    connection = request.scope.get("state", {}).get("connection")
    if isinstance(connection, LimitedHttpProtocol):
        connection.mark_logged_in()

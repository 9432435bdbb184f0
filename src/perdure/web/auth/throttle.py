"""The throttle on wrong login tokens: a client that sends several has to wait, longer each time.

Only wrong tokens are throttled. The right one is accepted from every address at every time, so that nobody who
sends wrong ones can lock out the people who share an address with them.
"""

from __future__ import annotations

import ipaddress
import time
from collections import deque
from collections.abc import Callable

from msgspec import Struct

FREE_WRONG_TOKENS = 5  # per client, before it has to wait
FIRST_WAIT_SECONDS = 30.0  # doubled after each further wrong token
MAX_WAIT_SECONDS = 300.0
FORGET_AFTER_SECONDS = 3600.0  # without a wrong token, until a client's count begins again
MAX_CLIENTS = 1000  # in memory
FLOOD_WRONG_TOKENS = 100  # from all clients within FLOOD_SECONDS; from then on one wrong token is enough
FLOOD_SECONDS = 60.0


class ThrottledClient(Struct):
    """A client that sent wrong tokens: how many, when the last one, and until when it has to wait."""

    wrong_tokens: int = 0
    last_token_hash: int = 0  # the same wrong token again is not counted: its sender does not guess
    last_wrong_at: float = 0.0
    blocked_until: float = 0.0


class LoginThrottle:
    """Counts wrong tokens, per client and in total, in bounded memory that ends with the process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._clients: dict[str, ThrottledClient] = {}  # in the order of their last wrong token
        self._recent_failures: deque[float] = deque(maxlen=FLOOD_WRONG_TOKENS)

    def seconds_to_wait(self, client: str) -> int:
        """Seconds for which this client's wrong tokens are refused without being counted; 0 if they count."""
        throttled = self._clients.get(_client_network(client))
        left = throttled.blocked_until - self._clock() if throttled else 0.0
        return int(left) + 1 if left > 0 else 0

    def record_failure(self, client: str, token: str) -> int:
        """Count a wrong token; return the seconds that its client has to wait now."""
        now, name = self._clock(), _client_network(client)
        throttled = self._clients.pop(name, None)
        if throttled is None or now - throttled.last_wrong_at > FORGET_AFTER_SECONDS:
            throttled = ThrottledClient()
        if throttled.last_token_hash != hash(token) or not throttled.wrong_tokens:
            self._recent_failures.append(now)
            throttled.wrong_tokens += 1
            throttled.blocked_until = now + self._block_seconds(throttled.wrong_tokens, now)
        throttled.last_token_hash, throttled.last_wrong_at = hash(token), now
        self._clients[name] = throttled
        if len(self._clients) > MAX_CLIENTS:
            del self._clients[next(iter(self._clients))]
        return self.seconds_to_wait(client)

    def record_success(self, client: str) -> None:
        """Forget the wrong tokens of a client that has sent the right one."""
        self._clients.pop(_client_network(client), None)

    def _block_seconds(self, wrong: int, now: float) -> float:
        flooded = (
            len(self._recent_failures) == FLOOD_WRONG_TOKENS and now - self._recent_failures[0] < FLOOD_SECONDS
        )
        excess = wrong - (0 if flooded else FREE_WRONG_TOKENS)
        return min(FIRST_WAIT_SECONDS * 2.0 ** min(excess - 1, 10), MAX_WAIT_SECONDS) if excess > 0 else 0.0


def _client_network(client: str) -> str:
    """The address of a client; for IPv6 its /64 network, because one client owns all addresses in it."""
    try:
        address = ipaddress.ip_address(client)
    except ValueError:
        return client
    return str(ipaddress.ip_network((address, 64), strict=False)) if address.version == 6 else client

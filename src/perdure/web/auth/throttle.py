"""Wrong tokens: whoever sends some has to wait, longer each time. Nobody else ever does."""

from __future__ import annotations

import ipaddress
import time
from collections import deque
from collections.abc import Callable

from msgspec import Struct

FREE_WRONG_TOKENS = 5  # wrong tokens from one client before it has to wait
FIRST_WAIT_SECONDS = 30.0  # seconds that one has to wait then; twice as long after each further one
MAX_WAIT_SECONDS = 300.0  # seconds that one has to wait at most
FORGET_AFTER_SECONDS = 3600.0  # seconds without a wrong token until one begins afresh
MAX_CLIENTS = 1000  # clients that are remembered
FLOOD_WRONG_TOKENS = 100  # wrong tokens from anybody in a minute, from which on a single one is enough
FLOOD_SECONDS = 60.0


class ThrottledClient(Struct):
    """A client that sent wrong tokens: how many, when the last one, and until when it has to wait."""

    wrong_tokens: int = 0
    last_token_hash: int = (
        0  # a hash of the last one: a program that sends an old token again and again guesses nothing
    )
    last_wrong_at: float = 0.0
    blocked_until: float = 0.0


class LoginThrottle:
    """Counts wrong tokens, by client and in all. Its memory is bounded, and ends with the process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._clients: dict[str, ThrottledClient] = {}  # the one who guessed last is the last one
        self._recent_failures: deque[float] = deque(maxlen=FLOOD_WRONG_TOKENS)

    def seconds_to_wait(self, client: str) -> int:
        """For how many seconds this client's tokens are not looked at; 0 if they are."""
        guesser = self._clients.get(_client_network(client))
        left = guesser.blocked_until - self._clock() if guesser else 0.0
        return int(left) + 1 if left > 0 else 0

    def record_failure(self, client: str, token: str) -> int:
        """Count a wrong token, and say for how many seconds its client has to wait now."""
        now, name = self._clock(), _client_network(client)
        guesser = self._clients.pop(name, None)
        if guesser is None or now - guesser.last_wrong_at > FORGET_AFTER_SECONDS:
            guesser = ThrottledClient()
        if guesser.last_token_hash != hash(token) or not guesser.wrong_tokens:
            self._recent_failures.append(now)
            guesser.wrong_tokens += 1
            guesser.blocked_until = now + self._block_seconds(guesser.wrong_tokens, now)
        guesser.last_token_hash, guesser.last_wrong_at = hash(token), now
        self._clients[name] = guesser
        if len(self._clients) > MAX_CLIENTS:
            del self._clients[next(iter(self._clients))]
        return self.seconds_to_wait(client)

    def record_success(self, client: str) -> None:
        """Whoever has the token was only mistaken before."""
        self._clients.pop(_client_network(client), None)

    def _block_seconds(self, wrong: int, now: float) -> float:
        crowded = (
            len(self._recent_failures) == FLOOD_WRONG_TOKENS and now - self._recent_failures[0] < FLOOD_SECONDS
        )
        beyond = wrong - (0 if crowded else FREE_WRONG_TOKENS)
        return min(FIRST_WAIT_SECONDS * 2.0 ** min(beyond - 1, 10), MAX_WAIT_SECONDS) if beyond > 0 else 0.0


def _client_network(client: str) -> str:
    """Whoever has one IPv6 address has a whole network of them."""
    try:
        address = ipaddress.ip_address(client)
    except ValueError:
        return client
    return str(ipaddress.ip_network((address, 64), strict=False)) if address.version == 6 else client

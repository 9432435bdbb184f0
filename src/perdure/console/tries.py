"""Wrong tokens: whoever sends some has to wait, longer each time. Nobody else ever does."""

from __future__ import annotations

import ipaddress
import time
from collections import deque
from collections.abc import Callable

from msgspec import Struct

FREE = 5  # wrong tokens from one client before it has to wait
FIRST = 30.0  # seconds that one has to wait then; twice as long after each further one
LONGEST = 300.0  # seconds that one has to wait at most
FORGIVEN = 3600.0  # seconds without a wrong token until one begins afresh
MOST = 1000  # clients that are remembered
CROWD = 100  # wrong tokens from anybody in a minute, from which on a single one is enough
MINUTE = 60.0


class Guesser(Struct):
    """A client that sent wrong tokens: how many, when the last one, and until when it has to wait."""

    wrong: int = 0
    token: int = 0  # a hash of the last one: a program that sends an old token again and again guesses nothing
    last: float = 0.0
    until: float = 0.0


class Tries:
    """Counts wrong tokens, by client and in all. Its memory is bounded, and ends with the process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._guessers: dict[str, Guesser] = {}  # the one who guessed last is the last one
        self._recent: deque[float] = deque(maxlen=CROWD)

    def wait(self, client: str) -> int:
        """For how many seconds this client's tokens are not looked at; 0 if they are."""
        guesser = self._guessers.get(_network(client))
        left = guesser.until - self._clock() if guesser else 0.0
        return int(left) + 1 if left > 0 else 0

    def failed(self, client: str, token: str) -> int:
        """Count a wrong token, and say for how many seconds its client has to wait now."""
        now, name = self._clock(), _network(client)
        guesser = self._guessers.pop(name, None)
        if guesser is None or now - guesser.last > FORGIVEN:
            guesser = Guesser()
        if guesser.token != hash(token) or not guesser.wrong:
            self._recent.append(now)
            guesser.wrong += 1
            guesser.until = now + self._pause(guesser.wrong, now)
        guesser.token, guesser.last = hash(token), now
        self._guessers[name] = guesser
        if len(self._guessers) > MOST:
            del self._guessers[next(iter(self._guessers))]
        return self.wait(client)

    def succeeded(self, client: str) -> None:
        """Whoever has the token was only mistaken before."""
        self._guessers.pop(_network(client), None)

    def _pause(self, wrong: int, now: float) -> float:
        crowded = len(self._recent) == CROWD and now - self._recent[0] < MINUTE
        beyond = wrong - (0 if crowded else FREE)
        return min(FIRST * 2.0 ** min(beyond - 1, 10), LONGEST) if beyond > 0 else 0.0


def _network(client: str) -> str:
    """Whoever has one IPv6 address has a whole network of them."""
    try:
        address = ipaddress.ip_address(client)
    except ValueError:
        return client
    return str(ipaddress.ip_network((address, 64), strict=False)) if address.version == 6 else client

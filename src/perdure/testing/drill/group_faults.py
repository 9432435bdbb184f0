"""What a drill of several gateways does to them and to their database, drawn by chance from a seed."""

from __future__ import annotations

import random

from msgspec import Struct

# By kind: what it means. A drill goes through all of them before it repeats one.
FAULT_KINDS: dict[str, str] = {
    "kill": "killed with SIGKILL, and away until others went on",
    "crash": "killed with SIGKILL, and started again at once",
    "stop": "stopped in order, and away until others went on",
    "restart": "stopped in order, and started again at once",
    "freeze": "frozen with SIGSTOP until it was declared dead",
    "outage": "the database could not be reached for 1.3 leases",
    "stall": "the database did not answer for 1.3 leases",
    "read_only": "the database took no writes for 1.3 leases",
    "cut": "connections to the database were cut, one by one",
}
OF_THE_DATABASE: frozenset[str] = frozenset(("outage", "stall", "read_only", "cut"))
MAX_STORE_CALL = 240  # a round makes about that many at each gateway
MAX_SIGN = 60  # messages, acknowledgements and steps of a round, after which a fault comes


class GroupFault(Struct, frozen=True):
    """One fault of one round, at the n-th store call of its gateway or the n-th sign of work of all."""

    kind: str
    gateway: int  # its number; a fault of the database has none, and counts from 0
    nth: int
    after: bool = False  # of a kill at a store call: before or after it took place

    @property
    def at_store_call(self) -> bool:
        """Whether the gateway is to kill itself at a store call."""
        return self.kind in ("kill", "crash")

    def __str__(self) -> str:
        whose = "" if self.kind in OF_THE_DATABASE else f" of gateway {self.gateway}"
        if self.at_store_call:
            return f"{self.kind}{whose} {'after' if self.after else 'before'} store call {self.nth}"
        return f"{self.kind}{whose} after {self.nth} signs of work"


def random_faults(seed: int, count: int, gateways: int) -> list[GroupFault]:
    """Return this many faults; the same seed gives the same ones. Every kind comes before one comes again."""
    chance = random.Random(seed)  # noqa: S311 reason: nothing is secret about it
    faults: list[GroupFault] = []
    while len(faults) < count:
        kinds = list(FAULT_KINDS)
        chance.shuffle(kinds)
        faults += [_draw(chance, kind, gateways) for kind in kinds]
    return faults[:count]


def _draw(chance: random.Random, kind: str, gateways: int) -> GroupFault:
    nth = chance.randint(1, MAX_STORE_CALL if kind in ("kill", "crash") else MAX_SIGN)
    return GroupFault(kind, chance.randrange(gateways), nth, chance.random() < 0.5)

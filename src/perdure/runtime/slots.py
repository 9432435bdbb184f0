"""Slots: how many recoveries that nobody asked for run at the same time, and which ones wait for a slot."""

from __future__ import annotations

import asyncio

from msgspec import Struct

from perdure.store.moves import Turn


class Waiter(Struct, frozen=True, eq=False):
    """A recovery that waits for a slot."""

    turn: Turn
    running: bool  # it was claimed already, and needs a slot again
    granted: asyncio.Future[None]


class Slots:
    """The turn that began first comes first; while recoveries run one at a time, a chat in which somebody wrote.

    A turn that a person asked for, or that only waits for a command, is no recovery that needs a slot.
    """

    def __init__(self, most: int, *, alone: bool) -> None:
        """`alone`: recoveries run one at a time, however many may otherwise."""
        self.alone = alone
        self._most = 1 if alone else most
        self._under_way: set[str] = set()  # turns that go on and that nobody asked for
        self._held: set[str] = set()  # those of them that have a slot
        self._line: list[Waiter] = []

    @property
    def full(self) -> bool:
        return len(self._held) >= self._most or bool(self._line)

    def waits(self, turn: str) -> bool:
        """Whether a turn waits for a slot."""
        return any(waiter.turn.id == turn for waiter in self._line)

    def needs(self, turn: str) -> bool:
        """Whether a turn must have a slot to go on, and has none."""
        return turn in self._under_way and turn not in self._held

    def begin(self, turn: str) -> None:
        """Say that a recovery goes on that only waits: it needs a slot as soon as it has something to do."""
        self._under_way.add(turn)

    def enter(self, turn: Turn, *, running: bool = False) -> asyncio.Future[None]:
        """Say that a recovery needs a slot; what is returned is done when it may go on."""
        self._under_way.add(turn.id)
        known = next((waiter.granted for waiter in self._line if waiter.turn.id == turn.id), None)
        if known is not None:
            return known
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiter = Waiter(turn, running, granted)
        if self.full:
            self._line.append(waiter)
            if not self.alone:
                self._line.sort(key=lambda each: (each.turn.began_at, each.turn.id))
        else:
            self._grant(waiter)
        return granted

    def rest(self, turn: str) -> None:
        """Say that a recovery only waits now, for a command: somebody else may have its slot."""
        if turn in self._held:
            self._held.discard(turn)
            self._hand_out()

    def leave(self, turn: str) -> None:
        """Say that a recovery is over, or that a person has asked for it: it needs no slot any more."""
        self._under_way.discard(turn)
        self._line = [waiter for waiter in self._line if waiter.turn.id != turn]
        self.rest(turn)

    def let_through(self, key: str) -> None:
        """Somebody wrote in a chat: its turn waits no longer, or comes first while recoveries run one at a time.

        One that does not run yet is taken by the claim that the message brings about.
        """
        waiting = [waiter for waiter in self._line if waiter.turn.key == key]
        if self.alone:
            self._line = waiting + [waiter for waiter in self._line if waiter not in waiting]
            return
        for waiter in (each for each in waiting if each.running):
            self.leave(waiter.turn.id)
            waiter.granted.set_result(None)

    def _hand_out(self) -> None:
        while self._line and len(self._held) < self._most:
            self._grant(self._line.pop(0))

    def _grant(self, waiter: Waiter) -> None:
        self._held.add(waiter.turn.id)
        waiter.granted.set_result(None)

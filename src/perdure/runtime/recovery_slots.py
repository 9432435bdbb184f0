"""Slots: how many recoveries that nobody asked for run at the same time, and which ones wait for a slot."""

from __future__ import annotations

import asyncio

from msgspec import Struct

from perdure.store.transitions import Turn


class SlotWaiter(Struct, frozen=True, eq=False):
    """A recovery that waits for a slot."""

    turn: Turn
    running: bool  # it was claimed already, and needs a slot again
    granted: asyncio.Future[None]


class RecoverySlots:
    """The turn that began first comes first; while recoveries run one at a time, a chat in which somebody wrote.

    A turn that a person asked for, or that only waits for a command, is no recovery that needs a slot.
    """

    def __init__(self, capacity: int, *, one_at_a_time: bool) -> None:
        """`one_at_a_time`: recoveries run one after the other, whatever the capacity."""
        self.one_at_a_time = one_at_a_time
        self._capacity = 1 if one_at_a_time else capacity
        self._under_way: set[str] = set()  # turns that are resumed though nobody asked for it
        self._held: set[str] = set()  # those of them that have a slot
        self._waiters: list[SlotWaiter] = []

    @property
    def full(self) -> bool:
        return len(self._held) >= self._capacity or bool(self._waiters)

    def is_waiting(self, turn: str) -> bool:
        """Say whether a turn waits for a slot."""
        return any(waiter.turn.id == turn for waiter in self._waiters)

    def needs_slot(self, turn: str) -> bool:
        """Say whether a turn must have a slot to go on, and has none."""
        return turn in self._under_way and turn not in self._held

    def register(self, turn: str) -> None:
        """Register a recovery that only waits for a command: it needs a slot as soon as the command has ended."""
        self._under_way.add(turn)

    def request(self, turn: Turn, *, running: bool = False) -> asyncio.Future[None]:
        """Request a slot for a recovery. The returned future is done when the recovery may go on."""
        self._under_way.add(turn.id)
        known = next((waiter.granted for waiter in self._waiters if waiter.turn.id == turn.id), None)
        if known is not None:
            return known
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiter = SlotWaiter(turn, running, granted)
        if self.full:
            self._waiters.append(waiter)
            if not self.one_at_a_time:
                self._waiters.sort(key=lambda each: (each.turn.began_at, each.turn.id))
        else:
            self._grant(waiter)
        return granted

    def release(self, turn: str) -> None:
        """Give the slot of a recovery that only waits for a command to another one."""
        if turn in self._held:
            self._held.discard(turn)
            self._hand_out()

    def remove(self, turn: str) -> None:
        """Forget a recovery that has ended, or that a person has asked for: it needs no slot any more."""
        self._under_way.discard(turn)
        self._waiters = [waiter for waiter in self._waiters if waiter.turn.id != turn]
        self.release(turn)

    def prioritise(self, key: str) -> None:
        """Let the turn of a chat in which somebody wrote go on, or come first while recoveries run one at a time.

        A turn that does not run yet is claimed together with the message.
        """
        waiting = [waiter for waiter in self._waiters if waiter.turn.key == key]
        if self.one_at_a_time:
            self._waiters = waiting + [waiter for waiter in self._waiters if waiter not in waiting]
            return
        for waiter in (each for each in waiting if each.running):
            self.remove(waiter.turn.id)
            waiter.granted.set_result(None)

    def _hand_out(self) -> None:
        while self._waiters and len(self._held) < self._capacity:
            self._grant(self._waiters.pop(0))

    def _grant(self, waiter: SlotWaiter) -> None:
        self._held.add(waiter.turn.id)
        waiter.granted.set_result(None)

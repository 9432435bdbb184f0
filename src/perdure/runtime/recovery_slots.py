"""Slots: how many recoveries that nobody asked for run at the same time, and which ones wait for a slot."""

from __future__ import annotations

import asyncio

from msgspec import Struct

from perdure.store.transitions import Turn


class SlotWaiter(Struct, frozen=True, eq=False):
    """A recovery that waits for a slot."""

    turn: Turn
    running: bool  # it was claimed already, and needs a slot again
    alone: bool  # it may have ended its gateway, and runs beside no other of this kind
    granted: asyncio.Future[None]


class RecoverySlots:
    """The turn that began first comes first; while recoveries run one at a time, a chat in which somebody wrote.

    A turn that a person asked for, or that only waits for a command, is no recovery that needs a slot.
    """

    def __init__(self, capacity: int, *, one_at_a_time: bool) -> None:
        """`one_at_a_time`: recoveries run one after the other, whatever the capacity."""
        self.one_at_a_time = one_at_a_time
        self._capacity = 1 if one_at_a_time else capacity
        # Turns that are resumed though nobody asked for it; True: it runs beside no other one that says so.
        self._under_way: dict[str, bool] = {}
        self._held: set[str] = set()  # those of them that have a slot
        self._waiters: list[SlotWaiter] = []

    def must_wait(self, turn: str, *, alone: bool = False) -> bool:
        """Say whether a turn that requests a slot now has to wait for it."""
        alone = self._runs_alone(turn, alone)
        return not self._has_room(alone) or any(waiter.alone == alone for waiter in self._waiters)

    def _runs_alone(self, turn: str, alone: bool = False) -> bool:
        return self.one_at_a_time or self._under_way.get(turn, alone)

    def _has_room(self, alone: bool) -> bool:
        taken = alone and any(self._runs_alone(turn) for turn in self._held)
        return len(self._held) < self._capacity and not taken

    def is_waiting(self, turn: str) -> bool:
        """Say whether a turn waits for a slot."""
        return any(waiter.turn.id == turn for waiter in self._waiters)

    def needs_slot(self, turn: str) -> bool:
        """Say whether a turn must have a slot to go on, and has none."""
        return turn in self._under_way and turn not in self._held

    def register(self, turn: str, *, alone: bool = False) -> None:
        """Register a recovery that only waits for a command: it needs a slot as soon as the command has ended."""
        self._under_way[turn] = alone

    def request(self, turn: Turn, *, running: bool = False, alone: bool = False) -> asyncio.Future[None]:
        """Request a slot for a recovery. The returned future is done when the recovery may go on."""
        must_wait = self.must_wait(turn.id, alone=alone)
        self._under_way.setdefault(turn.id, alone)
        known = next((waiter.granted for waiter in self._waiters if waiter.turn.id == turn.id), None)
        if known is not None:
            return known
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiter = SlotWaiter(turn, running, self._runs_alone(turn.id), granted)
        if must_wait:
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
        self._under_way.pop(turn, None)
        self._waiters = [waiter for waiter in self._waiters if waiter.turn.id != turn]
        self.release(turn)

    def prioritise(self, key: str) -> None:
        """Let the turn of a chat in which somebody wrote go on, or come first while recoveries run one at a time.

        A turn that does not run yet is claimed together with the message.
        """
        waiting = [waiter for waiter in self._waiters if waiter.turn.key == key]
        alone = [waiter for waiter in waiting if waiter.alone]
        self._waiters = alone + [waiter for waiter in self._waiters if waiter not in alone]
        for waiter in (each for each in waiting if each.running and not each.alone):
            self.remove(waiter.turn.id)
            waiter.granted.set_result(None)

    def _hand_out(self) -> None:
        for waiter in list(self._waiters):
            if self._has_room(waiter.alone):
                self._waiters.remove(waiter)
                self._grant(waiter)

    def _grant(self, waiter: SlotWaiter) -> None:
        self._held.add(waiter.turn.id)
        waiter.granted.set_result(None)

"""The records of the runner: running turns, served sessions, claims under way, and ends of attempts."""

from __future__ import annotations

import asyncio

from msgspec import Struct

from perdure.runtime.attempt import Attempt
from perdure.runtime.wakeups import WakeEvent


class RunningTurn(Struct, eq=False):
    """A turn whose attempt runs now."""

    attempt: Attempt
    task: asyncio.Task[None]  # in which the agent runs
    abandoned: asyncio.Event  # set when the runner no longer waits for an attempt that was stopped


class ServedSession(Struct, eq=False):
    """A session that may have a turn to claim, or whose turns are being run."""

    woken: bool = False  # the session may have a turn that the last claim did not see
    task: asyncio.Task[None] | None = None  # in which its turns are claimed and run
    running: RunningTurn | None = None


class ClaimGate:
    """Sessions between a claim and the first moment of its attempt, and turns that were ended meanwhile.

    A turn that somebody ends while its claim is under way has no attempt yet that could be stopped: the runner
    asks `was_stopped` before it begins one.
    """

    def __init__(self) -> None:
        self._keys: set[str] = set()
        self._stopped: set[str] = set()  # turns
        self._left = WakeEvent()

    def enter(self, key: str) -> None:
        self._keys.add(key)

    def leave(self, key: str) -> None:
        self._keys.discard(key)
        if not self._keys:
            self._stopped.clear()
        self._left.wake()

    def stop(self, turn: str) -> None:
        """Remember that a turn has been ended, if it may be the turn of a claim under way."""
        if self._keys:
            self._stopped.add(turn)

    def was_stopped(self, turn: str) -> bool:
        return turn in self._stopped

    async def wait_until_empty(self) -> None:
        while self._keys:
            await self._left.wait()


class AttemptEnds:
    """Events for those who wait until the next attempt of a turn has ended."""

    def __init__(self) -> None:
        self._events: dict[str, asyncio.Event] = {}  # by turn

    def expect(self, turn: str) -> asyncio.Event:
        return self._events.setdefault(turn, asyncio.Event())

    def signal(self, turn: str) -> None:
        """The attempt of a turn has ended, or there will be none."""
        event = self._events.pop(turn, None)
        if event is not None:
            event.set()

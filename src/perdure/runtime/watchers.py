"""Watches over what runs: people hear that long work goes on, and a turn that gives no sign of life is ended.

One loop for all attempts. What it says is of the moment: never owed, never stored, and in nobody's way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from msgspec import Struct

from perdure.core import notes
from perdure.core.address import work_of
from perdure.core.messages import Outbound, Receipt
from perdure.core.patience import Due, Patience, Watch, doing, due
from perdure.core.turn import State
from perdure.errors import SendRefused
from perdure.logs import Log
from perdure.platforms.api import Adapter
from perdure.runtime.attempt import Attempt, address_of
from perdure.runtime.lease import Lease
from perdure.runtime.runner import Runner
from perdure.runtime.tasks import Failures, Tasks
from perdure.store.ids import Clock

log = Log("watchers")

LOOK = 1.0  # seconds between two looks
ASIDE_DEADLINE = 10.0  # seconds for saying something in passing; nobody waits for it


def steady_clock() -> int:
    """Milliseconds of a clock that nobody sets, and that stands still while the machine sleeps."""
    return time.monotonic_ns() // 1_000_000


class Watched(Struct, eq=False):
    """An attempt, and what was said in passing about it."""

    attempt: Attempt
    told: int  # when people were last told that it goes on
    silence: int = -1  # the last sign of life before the silence of which they were warned
    receipt: Receipt | None = None  # of the notice that says that it goes on, where it can be edited
    notices: int = 0
    ending: bool = False

    def watch(self) -> Watch:
        return Watch(self.told, self.attempt.heard, warned=self.silence == self.attempt.heard)


class Watchers:
    """Looks at every running attempt, every second."""

    def __init__(
        self,
        runner: Runner,
        connected: Mapping[str, Adapter],
        patience: Patience,
        *,
        lease: Lease,
        clock: Clock,
        steady: Clock,
        group: Tasks,
    ) -> None:
        self._runner = runner
        self._connected = connected
        self._patience = patience
        self._lease = lease
        self._clock = clock
        self._steady = steady
        self._group = group
        self._failures = Failures(log)
        self._watched: dict[str, Watched] = {}  # by turn

    async def work(self) -> None:
        if self._patience == Patience(0, 0, 0):
            return
        while True:
            await asyncio.sleep(LOOK)
            self.look()

    def look(self) -> None:
        """Say and do what is due now; returns at once."""
        running = [attempt for attempt, task in self._runner.attempts.values() if _goes_on(attempt, task)]
        self._watched = {attempt.turn: self._known(attempt) for attempt in running}
        for watched in self._watched.values():
            self._act(watched, due(watched.watch(), self._patience, self._steady()))

    def _known(self, attempt: Attempt) -> Watched:
        watched = self._watched.get(attempt.turn)
        return watched if watched is not None and watched.attempt is attempt else Watched(attempt, attempt.began)

    def _act(self, watched: Watched, what: Due) -> None:
        match what:
            case Due.END if not watched.ending:
                watched.ending = True
                self._group.create_task(self._end(watched.attempt))
            case Due.WARNING:
                self._warn(watched)
            case Due.STILL_WORKING:
                self._tell(watched)
            case _:
                return

    # ── what is said and done ───────────────────────────────────────────────────────────────────────────────

    async def _end(self, attempt: Attempt) -> None:
        silence = self._steady() - attempt.heard
        log.warning("inactive", turn=attempt.turn, key=attempt.key, milliseconds=silence)
        await self._runner.give_up(attempt, notes.inactive(doing(attempt.view).tools, silence))

    def _warn(self, watched: Watched) -> None:
        attempt = watched.attempt
        silence = self._steady() - attempt.heard
        text = notes.about_work(work_of(attempt.key), notes.silent(silence, self._patience.limit))
        if self._say(watched, text, standing=False):
            watched.silence = attempt.heard

    def _tell(self, watched: Watched) -> None:
        attempt = watched.attempt
        now = doing(attempt.view)
        text = notes.about_work(work_of(attempt.key), notes.still_working(now.tools, self._clock() - now.since))
        if self._say(watched, text, standing=True):
            watched.told = self._steady()

    def _say(self, watched: Watched, text: str, *, standing: bool) -> bool:
        """Begin to say something in the chat. False: it cannot be reached now, or something is being said."""
        attempt = watched.attempt
        adapter = self._connected.get(address_of(attempt.key).platform)
        if adapter is None or (attempt.aside is not None and not attempt.aside.done()):
            return False
        attempt.aside = asyncio.create_task(self._saying(watched, adapter, text, standing=standing))
        return True

    async def _saying(self, watched: Watched, adapter: Adapter, text: str, *, standing: bool) -> None:
        showing = self._show(watched, adapter, text, standing=standing)
        await self._failures.contain("notice_not_shown", showing, turn=watched.attempt.turn)

    async def _show(self, watched: Watched, adapter: Adapter, text: str, *, standing: bool) -> None:
        async with asyncio.timeout(ASIDE_DEADLINE):
            await self._lease.confirmed()
            if standing and adapter.capabilities.edit:
                await self._put(watched, adapter, text)
            else:
                await adapter.notice(address_of(watched.attempt.key), text)

    async def _put(self, watched: Watched, adapter: Adapter, text: str) -> None:
        """Show the notice, in the place of the one before; if that cannot be edited, the next is a new one."""
        attempt = watched.attempt
        name = f"{attempt.turn}.working.{attempt.view.attempt}.{watched.notices}"
        outbound = Outbound(address_of(attempt.key), text, name)
        if watched.receipt is None:
            watched.receipt = await adapter.send(outbound)
            return
        try:
            await adapter.edit(watched.receipt, outbound)
        except SendRefused:
            watched.receipt = None
            watched.notices += 1
            raise


def _goes_on(attempt: Attempt, task: asyncio.Task[None]) -> bool:
    """Whether there is anything to say of it: not once its turn has ended, or somebody has taken it over."""
    return not task.cancelling() and not attempt.hushed and attempt.view.state is State.RUNNING

"""The record of processes in the background, as tools see it: kept in the store, and there once that is open."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from perdure.core import notes
from perdure.errors import OutcomeUnknown, PerdureError, Unavailable
from perdure.logs import Log
from perdure.runtime.bell import STORE_PAUSE
from perdure.store.api import Store
from perdure.store.ids import Clock
from perdure.store.processes import End, Process, Wish
from perdure.tools.kept import Ended, Sighting
from perdure.tools.ledger import Known, Ledger

log = Log("ledger")

T = TypeVar("T")


class Heeding(Protocol):
    """Who heeds the processes that run."""

    def is_ours(self, process: Process) -> bool:
        """Whether the files of a process are here, or would be."""

    def begun(self, process: str) -> None:
        """Say that a process was started."""


class Records:
    """The ledger of a gateway that runs. While the store takes no writes, its callers wait."""

    def __init__(self, store: Store, run: str, clock: Clock, background: Heeding) -> None:
        self._store = store
        self._run = run
        self._clock = clock
        self._background = background

    async def record(
        self, call: str, directory: str, command: str, *, notify: bool, patterns: Sequence[str]
    ) -> str:
        turn, _, name = call.partition(":")
        wish = Wish(turn, name, directory, command, notify, tuple(patterns))
        process = await patiently(lambda: self._store.processes.record(wish, self._run, self._clock()))
        if not self._background.is_ours(process):
            raise OutcomeUnknown(notes.PROCESS_ELSEWHERE)
        log.info("process_recorded", process=process.id, key=process.key)
        return process.id

    async def begun(self, process: str) -> None:
        self._background.begun(process)

    async def forget(self, process: str) -> None:
        row = await patiently(lambda: self._store.processes.get(process))
        if row is not None:
            await patiently(lambda: self._store.processes.forget(row))

    async def near(self, call: str) -> Sequence[Known]:
        found = await patiently(lambda: self._store.processes.beside(call.partition(":")[0]))
        return [known(process) for process in found]


class Late:
    """A ledger that is there once the store is open: agents are made before that."""

    def __init__(self) -> None:
        self._ledger: Ledger | None = None

    def bind(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def _bound(self) -> Ledger:
        if self._ledger is None:
            raise PerdureError("the gateway has not been started")
        return self._ledger

    async def record(
        self, call: str, directory: str, command: str, *, notify: bool, patterns: Sequence[str]
    ) -> str:
        return await self._bound().record(call, directory, command, notify=notify, patterns=patterns)

    async def begun(self, process: str) -> None:
        await self._bound().begun(process)

    async def forget(self, process: str) -> None:
        await self._bound().forget(process)

    async def near(self, call: str) -> Sequence[Known]:
        return await self._bound().near(call)


async def patiently(work: Callable[[], Awaitable[T]]) -> T:
    """Wait while the store takes no writes: nothing runs that is not on record."""
    while True:
        try:
            return await work()
        except Unavailable as error:
            log.warning("waiting_for_store", error=error.message)
            await asyncio.sleep(STORE_PAUSE)


def known(process: Process) -> Known:
    return Known(
        process.id,
        process.directory,
        process.command,
        process.state,
        process.started_at,
        process.exit_code,
        process.signal,
    )


def end_of(sighting: Sighting) -> End:
    match sighting:
        case Ended(exit_code=code, signal=signal):
            return End(exit_code=code, signal=signal)
        case _:
            return End(lost=True)

"""The records of background processes as tools see them, kept in the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from perdure.core import texts
from perdure.errors import OutcomeUnknown, PerdureError
from perdure.logs import Log
from perdure.runtime.backoff import retry_while_unavailable
from perdure.store.api import Store
from perdure.store.ids import Clock
from perdure.store.processes import Process, ProcessEnd, ProcessRequest
from perdure.tools.keeper import CommandEnded, CommandStatus
from perdure.tools.shell import ProcessRecord, ProcessRecords

log = Log("process_records")


class ProcessStartListener(Protocol):
    """The watcher of processes, as their records see it."""

    def is_ours(self, process: Process) -> bool:
        """Say whether the files of a process are on this machine, or would be if it was started."""

    def watch_started(self, process: str) -> None:
        """Begin to watch a process that was started."""


class StoredProcessRecords:
    """The records of a running gateway. While the store takes no writes, callers wait."""

    def __init__(self, store: Store, run: str, clock: Clock, process_watcher: ProcessStartListener) -> None:
        self._store = store
        self._run = run
        self._clock = clock
        self._process_watcher = process_watcher

    async def record(
        self, call: str, directory: str, command: str, *, notify: bool, patterns: Sequence[str]
    ) -> str:
        turn, _, name = call.partition(":")
        request = ProcessRequest(turn, name, directory, command, notify, tuple(patterns))
        process = await retry_while_unavailable(
            lambda: self._store.processes.record(request, self._run, self._clock())
        )
        if not self._process_watcher.is_ours(process):
            raise OutcomeUnknown(texts.processes.ON_OTHER_MACHINE)
        log.info("process_recorded", process=process.id, key=process.key)
        return process.id

    async def mark_started(self, process: str) -> None:
        self._process_watcher.watch_started(process)

    async def forget(self, process: str) -> None:
        row = await retry_while_unavailable(lambda: self._store.processes.get(process))
        if row is not None:
            await retry_while_unavailable(lambda: self._store.processes.delete(row))

    async def list_for_chat(self, call: str) -> Sequence[ProcessRecord]:
        found = await retry_while_unavailable(lambda: self._store.processes.of_chat(call.partition(":")[0]))
        return [tool_record(process) for process in found]


class DeferredProcessRecords:
    """Records that are bound once the store is open: agents are made before that."""

    def __init__(self) -> None:
        self._records: ProcessRecords | None = None

    def bind(self, records: ProcessRecords) -> None:
        self._records = records

    def _bound(self) -> ProcessRecords:
        if self._records is None:
            raise PerdureError("the gateway has not been started")
        return self._records

    async def record(
        self, call: str, directory: str, command: str, *, notify: bool, patterns: Sequence[str]
    ) -> str:
        return await self._bound().record(call, directory, command, notify=notify, patterns=patterns)

    async def mark_started(self, process: str) -> None:
        await self._bound().mark_started(process)

    async def forget(self, process: str) -> None:
        await self._bound().forget(process)

    async def list_for_chat(self, call: str) -> Sequence[ProcessRecord]:
        return await self._bound().list_for_chat(call)


def tool_record(process: Process) -> ProcessRecord:
    return ProcessRecord(
        process.id,
        process.directory,
        process.command,
        process.state,
        process.started_at,
        process.exit_code,
        process.signal,
    )


def process_end(status: CommandStatus) -> ProcessEnd:
    match status:
        case CommandEnded(exit_code=code, signal=signal):
            return ProcessEnd(exit_code=code, signal=signal)
        case _:
            return ProcessEnd(lost=True)

"""Carries out what other gateways ask about the background processes of this machine."""

from __future__ import annotations

import asyncio

from perdure.logs import Log
from perdure.runtime.gateway_run import GatewayRun
from perdure.runtime.process_records import RELAY_POLL_SECONDS, tool_record
from perdure.runtime.process_watcher import ProcessWatcher
from perdure.runtime.tasks import FailureLog
from perdure.store.process_relay import ProcessAsk
from perdure.tools import keeper
from perdure.tools.blocking_jobs import run_in_thread
from perdure.tools.process_tool import STOP_GRACE_SECONDS, TAIL_BYTES, output_tail, process_directory

log = Log("process_relay")


class ProcessRelayLoop:
    """Answers what other gateways ask about the processes whose files this installation has."""

    def __init__(self, run: GatewayRun, watcher: ProcessWatcher) -> None:
        self._run = run
        self._store = run.store
        self._watcher = watcher
        self._failures = FailureLog(log)

    async def run(self) -> None:
        """Look for requests while processes run here; where this gateway is the only one, nobody asks."""
        while not self._store.database.exclusive:
            if self._watcher.is_watching:
                await self._failures.contain("requests_not_answered", self._answer_all())
            await asyncio.sleep(RELAY_POLL_SECONDS)

    async def _answer_all(self) -> None:
        asked, contain = await self._store.process_relay.asked(), self._failures.contain
        await asyncio.gather(*(contain("request_failed", self._answer(ask), process=ask.process) for ask in asked))

    async def _answer(self, ask: ProcessAsk) -> None:
        process = await self._store.processes.get(ask.process)
        if process is None or not self._watcher.is_ours(process):
            return
        directory = process_directory(self._watcher.root, tool_record(process))
        if ask.stop:
            log.info("stop_asked", process=process.id, key=process.key)
            await keeper.stop(directory, STOP_GRACE_SECONDS)  # the watcher of the process records the end
        if ask.output:
            tail = await run_in_thread(lambda: output_tail(directory, TAIL_BYTES))
            await self._store.process_relay.record_output(process.id, tail, keeper.output_size(directory))

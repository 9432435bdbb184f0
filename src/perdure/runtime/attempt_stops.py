"""Stops the attempt at a turn that somebody has ended, on whichever gateway it runs, and waits for its end."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from perdure.core.hints import StopHint, StoppedHint
from perdure.logs import Log
from perdure.runtime.command_cleanup import CommandCleanup
from perdure.runtime.gateway_run import GatewayRun
from perdure.runtime.runner import AttemptEnds, TurnRunner
from perdure.runtime.wakeup_relay import WakeupRelay

log = Log("attempt_stops")

STOP_SECONDS = 10.0  # for an attempt and its commands to end; whoever waits longer is told that it was asked for
ASK_AGAIN_SECONDS = 1.0  # a hint may be lost


class AttemptStops:
    """Stops attempts here and, by hints, elsewhere; answers the other gateways that ask for it."""

    def __init__(
        self, run: GatewayRun, runner: TurnRunner, cleanup: CommandCleanup, relay: WakeupRelay | None
    ) -> None:
        self._run = run
        self._runner = runner
        self._cleanup = cleanup
        self._relay = relay
        self._ends_elsewhere = AttemptEnds()
        self._asked: set[tuple[str, str]] = set()  # turns that are being stopped for other runs
        if relay is not None:
            relay.on_stop = self._stop_for
            relay.on_stopped = self._ends_elsewhere.signal

    async def stop(self, turn: str, run: str | None) -> bool:
        """Stop the attempt at an ended turn that runs at a run, or nowhere.

        True: neither the attempt nor one of its commands runs any more. False: that is not known in time.
        """
        try:
            async with asyncio.timeout(STOP_SECONDS):
                if run is None or run == self._run.id or self._relay is None:
                    return await self.stop_here(turn)
                return self._relay.is_alive(run) and await self._stop_elsewhere(self._relay, turn, run)
        except TimeoutError:
            log.warning("attempt_not_stopped", turn=turn, run=run)
            return False

    async def stop_here(self, turn: str) -> bool:
        """Stop the attempt at a turn, if one runs here, and its commands. False: something of them still runs."""
        over, running = self._runner.ends.expect(turn), self._runner.running.get(turn)
        self._runner.stop_attempt(turn)
        await over.wait()
        abandoned = running is not None and not running.task.done()
        return await self._cleanup.stop_commands(turn) and not abandoned

    async def _stop_elsewhere(self, relay: WakeupRelay, turn: str, run: str) -> bool:
        over = self._ends_elsewhere.expect(turn)
        while not over.is_set():
            relay.tell(run, StopHint(turn, self._run.id))
            with suppress(TimeoutError):
                async with asyncio.timeout(ASK_AGAIN_SECONDS):
                    await over.wait()
        return True

    def _stop_for(self, turn: str, run: str) -> None:
        """Stop the attempt at a turn for another run, unless that is under way already."""
        if (turn, run) not in self._asked:
            self._asked.add((turn, run))
            self._run.tasks.create_task(self._stop_and_answer(turn, run))

    async def _stop_and_answer(self, turn: str, run: str) -> None:
        """Stop the attempt if the turn has really ended: a hint alone ends nothing."""
        try:
            running = self._runner.running.get(turn)
            epochs = {turn: running.attempt.epoch if running is not None else 0}
            ended = await self._run.store.turns.ended_by_others(self._run.id, epochs)
            if ended and await self.stop_here(turn) and run and self._relay is not None:
                self._relay.tell(run, StoppedHint(turn))
        finally:
            self._asked.discard((turn, run))

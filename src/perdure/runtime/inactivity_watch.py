"""Tells a chat that a long turn still works, warns of inactivity, and ends a turn that gives no sign of life.

One loop for all attempts. Its notices are never owed and never stored, and nobody waits for them.
"""

from __future__ import annotations

import asyncio

from msgspec import Struct

from perdure.core import texts
from perdure.core.address import background_number
from perdure.core.inactivity import (
    InactivityLimits,
    InactivityResponse,
    WatchState,
    current_activity,
    inactivity_response,
)
from perdure.core.messages import Outbound, Receipt
from perdure.core.states import TurnState
from perdure.errors import SendRefused
from perdure.logs import Log
from perdure.platforms.api import Adapter
from perdure.runtime.attempt import Attempt, address_of
from perdure.runtime.gateway_run import GatewayRun
from perdure.runtime.runner import RunningTurn, TurnRunner
from perdure.runtime.tasks import FailureLog

log = Log("inactivity_watch")

CHECK_SECONDS = 1.0  # between two looks
NOTICE_SECONDS = 10.0  # for sending a notice; nobody waits for it


class WatchedAttempt(Struct, eq=False):
    """An attempt, and the notices that were sent about it."""

    attempt: Attempt
    notified_at: int  # when the chat was last told that the turn still works
    warned_silence: int = -1  # the last sign of life before the silence of which the chat was warned
    receipt: Receipt | None = None  # of the notice that the turn still works, where it can be edited
    notice_number: int = 0
    ending: bool = False

    def watch_state(self) -> WatchState:
        return WatchState(
            self.notified_at, self.attempt.active_at, warned=self.warned_silence == self.attempt.active_at
        )


class InactivityWatch:
    """Checks every running attempt, every second."""

    def __init__(self, run: GatewayRun, runner: TurnRunner, limits: InactivityLimits) -> None:
        self._run = run
        self._clock = run.clocks.wall
        self._steady = run.clocks.steady
        self._runner = runner
        self._limits = limits
        self._failures = FailureLog(log)
        self._watched: dict[str, WatchedAttempt] = {}  # by turn

    async def run(self) -> None:
        if self._limits == InactivityLimits(0, 0, 0):
            return
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            self.check()

    def check(self) -> None:
        """Begin the notices and ends that are due now; returns at once."""
        running = [each.attempt for each in self._runner.running.values() if _is_watchable(each)]
        self._watched = {attempt.turn: self._known(attempt) for attempt in running}
        for watched in self._watched.values():
            self._act(watched, inactivity_response(watched.watch_state(), self._limits, self._steady()))

    def _known(self, attempt: Attempt) -> WatchedAttempt:
        watched = self._watched.get(attempt.turn)
        return (
            watched
            if watched is not None and watched.attempt is attempt
            else WatchedAttempt(attempt, attempt.began)
        )

    def _act(self, watched: WatchedAttempt, what: InactivityResponse) -> None:
        match what:
            case InactivityResponse.END if not watched.ending:
                watched.ending = True
                self._run.tasks.create_task(self._end_inactive(watched.attempt))
            case InactivityResponse.WARNING:
                self._warn(watched)
            case InactivityResponse.STILL_WORKING:
                self._notify_still_working(watched)
            case _:
                return

    # ── notices and ends ───────────────────────────────────────────────────────────────────────────────

    async def _end_inactive(self, attempt: Attempt) -> None:
        silence = self._steady() - attempt.active_at
        log.warning("inactive", turn=attempt.turn, key=attempt.key, milliseconds=silence)
        await self._runner.fail_attempt(
            attempt, texts.turns.ended_by_inactivity(current_activity(attempt.view).tools, silence)
        )

    def _warn(self, watched: WatchedAttempt) -> None:
        attempt = watched.attempt
        silence = self._steady() - attempt.active_at
        text = texts.chat_commands.background_notice(
            background_number(attempt.key), texts.turns.inactivity_warning(silence, self._limits.limit_ms)
        )
        if self._start_notice(watched, text, editable=False):
            watched.warned_silence = attempt.active_at

    def _notify_still_working(self, watched: WatchedAttempt) -> None:
        attempt = watched.attempt
        now = current_activity(attempt.view)
        text = texts.chat_commands.background_notice(
            background_number(attempt.key), texts.turns.still_working(now.tools, self._clock() - now.since)
        )
        if self._start_notice(watched, text, editable=True):
            watched.notified_at = self._steady()

    def _start_notice(self, watched: WatchedAttempt, text: str, *, editable: bool) -> bool:
        """Begin to send a notice. False: the platform is not connected, or another notice is under way."""
        attempt = watched.attempt
        adapter = self._run.connections.connected.get(address_of(attempt.key).platform)
        if adapter is None:
            return False
        return attempt.display.start_notice(
            lambda: self._send_contained(watched, adapter, text, editable=editable)
        )

    async def _send_contained(
        self, watched: WatchedAttempt, adapter: Adapter, text: str, *, editable: bool
    ) -> None:
        showing = self._send_notice(watched, adapter, text, editable=editable)
        await self._failures.contain("notice_not_shown", showing, turn=watched.attempt.turn)

    async def _send_notice(self, watched: WatchedAttempt, adapter: Adapter, text: str, *, editable: bool) -> None:
        async with asyncio.timeout(NOTICE_SECONDS):
            await self._run.lease.wait_until_valid()
            if editable and adapter.capabilities.edit:
                await self._send_or_edit(watched, adapter, text)
            else:
                await adapter.notice(address_of(watched.attempt.key), text)

    async def _send_or_edit(self, watched: WatchedAttempt, adapter: Adapter, text: str) -> None:
        """Edit the notice before; if it cannot be edited, the next notice is a new message."""
        attempt = watched.attempt
        name = f"{attempt.turn}.working.{attempt.view.attempt}.{watched.notice_number}"
        outbound = Outbound(address_of(attempt.key), text, name)
        if watched.receipt is None:
            watched.receipt = await adapter.send(outbound)
            return
        try:
            await adapter.edit(watched.receipt, outbound)
        except SendRefused:
            watched.receipt = None
            watched.notice_number += 1
            raise


def _is_watchable(running: RunningTurn) -> bool:
    """Say whether the attempt still runs its turn and is not being stopped."""
    attempt, stopping = running.attempt, running.task.cancelling() or running.attempt.display.silenced
    return not stopping and attempt.view.state is TurnState.RUNNING

"""A gateway that is killed and restarted any number of times, on one home and with one platform.

A step hangs until it is released, so that there is always a moment at which the gateway is idle.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable
from pathlib import Path

from perdure.core.tools import Use
from perdure.errors import Unavailable
from perdure.runtime.gateway import Gateway
from perdure.store.api import Store
from perdure.store.database import Database
from perdure.testing import Crash, CrashingDatabase, SettableClock, SimulatedPlatform
from support.inprocess import make_gateway
from support.recovery import AgentHarness
from support.waiting import eventually

RESTART_GAP_SECONDS = 400  # seconds between two starts, so that they are no crash loop
SETTINGS = {
    "RECOVERY__FRESHNESS": "20h",
    "RECOVERY__MAX_WITHOUT_PROGRESS": "999",
    "RECOVERY__MAX_INTERRUPTIONS": "999",
    "DRAIN__DEADLINE": "0s",
    "DELIVERY__MAX_AGE": "9999h",
    "INBOX__MAX_AGE": "0s",
}
_WAITING_SQL = "state = 'waiting' AND kind IN ('message', 'wish')"
_UNDECIDED_SQL = (
    "SELECT key FROM turns t WHERE state = 'interrupted' AND coalesce((SELECT max(seq) FROM journal "
    "WHERE turn = t.id AND kind = 'decided'), 0) < (SELECT max(seq) FROM journal WHERE turn = t.id "
    "AND kind = 'interrupted')"
)


class TrackingAgentHarness(AgentHarness):
    """Tracks the steps that are running."""

    def __init__(self) -> None:
        super().__init__()
        self.running_steps: list[str] = []

    async def _run_step(self, use: Use) -> str:
        name = str(use.arguments["name"])
        self.running_steps.append(name)
        try:
            return await super()._run_step(use)
        finally:
            self.running_steps.remove(name)

    @property
    def is_busy(self) -> bool:
        """Tell whether a step runs that does not hang."""
        return not self.stuck.issuperset(self.running_steps)


class ArmableDatabase(CrashingDatabase):
    """A database whose crash is armed and disarmed while it is open."""

    def arm(self, calls: int, *, after: bool) -> None:
        self._at, self._after = self.calls + calls, after

    def disarm(self) -> None:
        self._at = None

    @property
    def armed(self) -> bool:
        return self._at is not None and self._at > self.calls


class GatewayHarness:
    """The home, the platform, the clock and the agent, and the gateway that runs now."""

    def __init__(self) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="perdure-stage-"))
        self.platform, self.clock, self.agent_harness = (
            SimulatedPlatform(),
            SettableClock(),
            TrackingAgentHarness(),
        )
        self.starts = 0
        self.gateway: Gateway
        self.database: ArmableDatabase
        self._running: asyncio.Task[object]

    async def close(self) -> None:
        self.database.kill()
        self._running.cancel()
        await self._wait_for_end()
        shutil.rmtree(self._home)

    @property
    def store(self) -> Store:
        """A store for the test's own reads, which are no calls of the gateway."""
        return Store(self.database.beneath)

    @property
    def obeys_at_once(self) -> bool:
        """Tell whether the gateway certainly handles the next event before any other."""
        return self.platform.reachable and not self.database.armed

    # ── gateways ────────────────────────────────────────────────────────────────────────────────────────────

    def _wrap(self, database: Database) -> Database:
        self.database = ArmableDatabase(database)
        return self.database

    async def start(self) -> None:
        self.starts += 1
        self.clock.move(RESTART_GAP_SECONDS)
        options = {"agent": self.agent_harness.agent, "clock": self.clock}
        self.gateway = make_gateway(self._home, self.platform, wrap=self._wrap, **options, **SETTINGS)
        self._running = asyncio.create_task(self.gateway.run())
        await eventually("the gateway is ready", lambda: self._running.done() or self.gateway.phase == "ready")

    async def _start_next(self) -> None:
        """Start the next gateway after a stop or a crash."""
        await self._wait_for_end()
        await self.database.close()  # the kernel does this for a killed process, also during its shutdown
        await self.start()

    async def _wait_for_end(self) -> None:
        """Wait for the end of the gateway, which may have crashed; every other error is one of the test."""
        await asyncio.wait({self._running})
        error = None if self._running.cancelled() else self._running.exception()
        assert error is None or isinstance(error, Crash), f"the gateway ended with {error!r}"

    async def arm(self, calls: int, *, after: bool) -> None:
        self.database.arm(calls, after=after)

    async def disarm(self) -> None:
        """Disarm the crash."""
        self.database.disarm()

    async def run_tolerating_crash(self, action: Awaitable[object]) -> None:
        """Await a call to the gateway that may crash it."""
        try:
            await action
        except (Crash, Unavailable):
            self._running.cancel()

    async def kill(self) -> None:
        self.database.kill()
        self._running.cancel()
        await self._start_next()

    async def restart(self) -> None:
        self.gateway.stop()
        await self._start_next()

    async def release_steps(self) -> None:
        """Release the hanging steps; later steps hang again."""
        self.agent_harness.release()

    async def set_reachable(self, up: bool) -> None:
        self.platform.reachable = up
        if not up:
            self.platform.disconnect()

    async def set_platform_fault(self, fault: str) -> None:
        setattr(self.platform, fault, 1)

    # ── quiet ───────────────────────────────────────────────────────────────────────────────────────────────

    async def wait_until_quiet(self) -> None:
        """Wait until the gateway is idle but for hanging steps. A gateway that crashes meanwhile is restarted."""
        await eventually("nothing moves any more", self._is_quiet)

    async def _is_quiet(self) -> bool:
        if self._running.done():
            await self._start_next()
            return False
        if self.database.crashed or self.agent_harness.is_busy:
            return False
        connected = self.gateway.loops.connections.connected
        if self.platform.reachable and (self.platform.pending() or not connected):
            return False
        try:
            return not await self.database.beneath.read(lambda tx: tx.all(self._open_work_sql()))
        except Unavailable:
            return False  # the gateway has just crashed

    def _open_work_sql(self) -> str:
        """Return a query for open work beside the hanging steps and the messages behind them."""
        hanging = len(self.agent_harness.running_steps)
        # An interrupted turn may wait for the platform, or for the one recovery slot.
        held = not self.platform.reachable or (hanging and self.gateway.loops.slots.must_wait(""))
        before = "state IN ('running', 'interrupted')" if held else "state = 'running'"
        parts = [
            "SELECT key FROM inbox WHERE state = 'waiting' AND kind = 'command'",
            f"SELECT key FROM inbox WHERE {_WAITING_SQL} AND key NOT IN (SELECT key FROM turns WHERE {before})",
            "SELECT key FROM turns WHERE state = 'queued'",
            f"SELECT 'running' WHERE (SELECT count(*) FROM turns WHERE state = 'running') <> {hanging}",
        ]
        if not held:
            parts.append(_UNDECIDED_SQL)
        if self.platform.reachable:
            parts.append("SELECT key FROM outbox WHERE state IN ('owed', 'sending', 'unknown')")
        return " UNION ALL ".join(parts)

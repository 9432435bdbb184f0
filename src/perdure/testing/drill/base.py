"""The frame of every drill: a temporary directory, simulated platforms and people, an audit, and a report."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

from perdure.config import Settings
from perdure.errors import PerdureError
from perdure.testing.drill.findings import Audit
from perdure.testing.drill.people import DrillPeople
from perdure.testing.drill.report import UNKNOWN, Report, Waits
from perdure.testing.drill.scenarios import PLATFORMS
from perdure.testing.simulated_platform import SimulatedPlatform


class DrillStuck(Exception):
    """Nothing has happened for `patience` seconds, although work is left."""


class BaseDrill(ABC):
    """The frame of a drill. A subclass says how gateways are started, harmed and started again."""

    _audit: Audit

    def __init__(
        self, settings: Settings, *, seed: int | None, gateway: str, patience: float, killed: Callable[[], None]
    ) -> None:
        """`gateway` names a factory of gateways (`module:object`); `patience` is the longest pause, in seconds."""
        self._user_settings = settings
        self._seed = seed
        self._gateway_factory = gateway
        self._patience = patience
        self._notify_killed = killed
        self._home = Path(tempfile.mkdtemp(prefix="perdure-drill-"))
        self._platforms = {name: SimulatedPlatform(name, capabilities=can) for name, can in PLATFORMS.items()}
        self._people = DrillPeople(self._platforms)
        self._kills = 0
        self._at_rest = 0
        self._is_stuck = False
        self._ready_seconds: list[float] = []
        self._answered_seconds: list[float] = []

    async def run(self) -> Report:
        """Run the drill and report. The drill's directory is kept only if the drill failed."""
        began, keep = time.monotonic(), True
        try:
            await self._open()
            await self._run_rounds()
            report = await self._report(time.monotonic() - began)
            keep = report.failed
        except (PerdureError, TimeoutError) as error:
            again = "" if self._seed is None else f" The same points again: --seed {self._seed}."
            hint = f"The log of the gateway is {self._log}.{again}"
            raise PerdureError(f"the drill broke off after {self._kills} kills: {error}", hint=hint) from error
        except (asyncio.CancelledError, KeyboardInterrupt):
            keep = False
            raise
        finally:
            await self._close()
            if not keep:
                shutil.rmtree(self._home, ignore_errors=True)
        return report

    @property
    def _log(self) -> Path:
        return self._home / "gateway.log"

    @abstractmethod
    async def _open(self) -> None: ...

    @abstractmethod
    async def _close(self) -> None: ...

    @abstractmethod
    async def _run_rounds(self) -> None: ...

    @abstractmethod
    def _points_reached(self) -> list[str]:
        """Return where the gateways were harmed, in words."""

    def _own_findings(self) -> dict[str, list[str]]:
        """Return what this kind of drill finds by itself, by the name of its count."""
        return {}

    async def _own_facts(self) -> dict[str, Any]:
        """Return what only the report of this kind of drill has."""
        return {}

    async def _report(self, seconds: float) -> Report:
        found = await self._audit.findings() | self._own_findings()
        if self._is_stuck and not found["stuck"]:
            found["stuck"].append(
                f"all turns are at their ends, but nothing came to rest for {self._patience:g} s"
            )
        counts: dict[str, Any] = {name: len(lines) for name, lines in found.items()}
        faulty = any(count for name, count in counts.items() if name != UNKNOWN)
        return Report(
            **counts,
            kills=self._kills,
            turns=await self._audit.turns(),
            at_rest=self._at_rest,
            given_up=self._audit.given_up,
            by_hand=self._people.by_hand,
            seed=self._seed,
            seconds=round(seconds, 1),
            ready=Waits.of(self._ready_seconds),
            answered=Waits.of(self._answered_seconds),
            points=self._points_reached(),
            findings=found,
            home=str(self._home) if faulty else None,
            **await self._own_facts(),
        )

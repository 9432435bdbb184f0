"""Public tools for tests: a simulated platform, crashes and faults."""

from perdure.testing.crashes import Crash, CrashingDatabase
from perdure.testing.faults import FaultyDatabase, SettableClock
from perdure.testing.platform import SimulatedPlatform

__all__ = ["Crash", "CrashingDatabase", "FaultyDatabase", "SettableClock", "SimulatedPlatform"]

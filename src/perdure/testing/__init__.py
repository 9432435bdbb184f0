"""Public tools for tests: a simulated platform, crash tools, conformance suites."""

from perdure.testing.crashes import Crash, CrashingDatabase
from perdure.testing.platform import SimulatedPlatform

__all__ = ["Crash", "CrashingDatabase", "SimulatedPlatform"]

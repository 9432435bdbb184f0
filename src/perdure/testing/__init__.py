"""Public tools for tests: a simulated platform, crashes and faults, local providers, and a suite for agents."""

from typing import TYPE_CHECKING, Any

from perdure.testing.agents import AgentConformance
from perdure.testing.crashes import Crash, CrashingDatabase, KillingDatabase
from perdure.testing.faults import FaultyDatabase, SettableClock
from perdure.testing.plans import Plan, Question, Step
from perdure.testing.platform import SimulatedPlatform
from perdure.testing.turns import RecordingTurn

if TYPE_CHECKING:
    from perdure.testing.providers import (
        Asked,
        Constant,
        CutsOff,
        Fails,
        Floods,
        Hangs,
        LocalProvider,
        NeverEnds,
        Says,
        Usage,
        Wish,
    )

__all__ = [
    "AgentConformance",
    "Asked",
    "Constant",
    "Crash",
    "CrashingDatabase",
    "CutsOff",
    "Fails",
    "FaultyDatabase",
    "Floods",
    "Hangs",
    "KillingDatabase",
    "LocalProvider",
    "NeverEnds",
    "Plan",
    "Question",
    "RecordingTurn",
    "Says",
    "SettableClock",
    "SimulatedPlatform",
    "Step",
    "Usage",
    "Wish",
]


def __getattr__(name: str) -> Any:
    """The local providers, loaded when they are first used: they bring an HTTP server with them."""
    if name in __all__:
        from perdure.testing import providers

        return getattr(providers, name)
    raise AttributeError(f"module 'perdure.testing' has no attribute {name!r}")

"""Public tools for tests: simulated platforms, crashes, faults, local providers, suites for agents, adapters."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from perdure.testing.agent_conformance import AgentConformance
from perdure.testing.faults import Crash, CrashingDatabase, FaultyDatabase, KillingDatabase, SettableClock
from perdure.testing.plans import Plan, Question, Step
from perdure.testing.recording_turn import RecordingTurn
from perdure.testing.simulated_platform import SimulatedPlatform

if TYPE_CHECKING:
    from perdure.testing.adapter_conformance import AdapterConformance, Mishap, PlatformStage, Seen
    from perdure.testing.local_server import CutLine
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
    "AdapterConformance",
    "AgentConformance",
    "Asked",
    "Constant",
    "Crash",
    "CrashingDatabase",
    "CutLine",
    "CutsOff",
    "Fails",
    "FaultyDatabase",
    "Floods",
    "Hangs",
    "KillingDatabase",
    "LocalProvider",
    "Mishap",
    "NeverEnds",
    "Plan",
    "PlatformStage",
    "Question",
    "RecordingTurn",
    "Says",
    "Seen",
    "SettableClock",
    "SimulatedPlatform",
    "Step",
    "Usage",
    "Wish",
]


_ADAPTERS = ("AdapterConformance", "Mishap", "PlatformStage", "Seen")


def __getattr__(name: str) -> Any:
    """What brings a gateway or an HTTP server with it, loaded when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module 'perdure.testing' has no attribute {name!r}")
    module = "adapter_conformance" if name in _ADAPTERS else "cut_line" if name == "CutLine" else "providers"
    return getattr(import_module(f"perdure.testing.{module}"), name)

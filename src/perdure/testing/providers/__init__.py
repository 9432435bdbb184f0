"""Model providers on this machine: they speak the APIs of OpenAI and Anthropic, and say what the script says."""

from perdure.testing.providers.answers import (
    Answer,
    Asked,
    CutsOff,
    Fails,
    Floods,
    Hangs,
    NeverEnds,
    Says,
    Usage,
    Wish,
)
from perdure.testing.providers.constant import Constant
from perdure.testing.providers.context_window import Window
from perdure.testing.providers.server import LocalProvider
from perdure.testing.providers.wire_provider import CUTS, FRAMINGS, Plays, WireProvider

__all__ = [
    "CUTS",
    "FRAMINGS",
    "Answer",
    "Asked",
    "Constant",
    "CutsOff",
    "Fails",
    "Floods",
    "Hangs",
    "LocalProvider",
    "NeverEnds",
    "Plays",
    "Says",
    "Usage",
    "Window",
    "WireProvider",
    "Wish",
]

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
from perdure.testing.providers.server import LocalProvider
from perdure.testing.providers.windows import Window

__all__ = [
    "Answer",
    "Asked",
    "Constant",
    "CutsOff",
    "Fails",
    "Floods",
    "Hangs",
    "LocalProvider",
    "NeverEnds",
    "Says",
    "Usage",
    "Window",
    "Wish",
]

"""Local model providers that speak the APIs of OpenAI and Anthropic and answer by a script."""

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
from perdure.testing.providers.context_window import Window
from perdure.testing.providers.playback import Constant
from perdure.testing.providers.server import LocalProvider

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

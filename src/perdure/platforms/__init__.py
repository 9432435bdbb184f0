"""Where people are: one adapter per chat platform."""

from perdure.platforms.api import Adapter, Capabilities, Event

__all__ = ["Adapter", "Capabilities", "Event"]

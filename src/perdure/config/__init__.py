"""Reads the settings from `config.toml` and the environment, and names every problem at once."""

from perdure.config.catalogue import KNOWN, SECTIONS, describe, seconds
from perdure.config.loading import load
from perdure.settings import Settings

__all__ = ["KNOWN", "SECTIONS", "Settings", "describe", "load", "seconds"]

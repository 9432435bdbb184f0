"""Reads the settings from `config.toml` and the environment, and names every problem at once."""

from perdure.config.catalogue import SECTIONS, SETTINGS_BY_KEY, parse_duration
from perdure.config.loading import load_settings
from perdure.settings import Settings

__all__ = ["SECTIONS", "SETTINGS_BY_KEY", "Settings", "load_settings", "parse_duration"]

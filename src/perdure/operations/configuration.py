"""The configuration in effect, without its secrets."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.config.catalogue import SETTINGS_BY_KEY, Setting
from perdure.settings import Settings

HIDDEN_VALUE = "(set, and not shown)"


def effective_settings(settings: Settings) -> list[dict[str, Any]]:
    """Every setting with its value; of a secret, only whether it is set."""
    return [_fields(setting, _value(settings, setting)) for setting in SETTINGS_BY_KEY.values()]


def _value(settings: Settings, setting: Setting) -> object:
    found: object = settings
    for name in setting.section.split("."):
        found = getattr(found, name)
    return getattr(found, setting.name)


def _fields(setting: Setting, value: object) -> dict[str, Any]:
    usual = _default(setting)
    shown = HIDDEN_VALUE if setting.secret and value else msgspec.to_builtins(value)
    return {
        "key": setting.key,
        "value": shown,
        "shown": _format_value(shown),
        "default": setting.default,
        "changed": value != usual,
        "secret": setting.secret,
        "description": setting.description,
    }


def _format_value(value: object) -> str:
    """A value as it would be written in the file, a duration in the unit that fits it."""
    if isinstance(value, float):
        return next(
            (f"{value / size:g}{unit}" for unit, size in DURATION_UNITS if value and value % size == 0),
            f"{value:g}s",
        )
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


DURATION_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60))


def _default(setting: Setting) -> object:
    """What the Struct itself has when nothing is said."""
    return getattr(setting.struct(), setting.name)

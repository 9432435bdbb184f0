"""The configuration in effect, without its secrets."""

from __future__ import annotations

import msgspec

from perdure.config.catalogue import SETTINGS_BY_KEY, Setting
from perdure.operations.resources import SettingResource
from perdure.settings import Settings

HIDDEN_VALUE = "(set, and not shown)"


def effective_settings(settings: Settings) -> list[SettingResource]:
    """Every setting with its value; of a secret, only whether it is set."""
    return [_setting_resource(setting, _value(settings, setting)) for setting in SETTINGS_BY_KEY.values()]


def _value(settings: Settings, setting: Setting) -> object:
    found: object = settings
    for name in setting.section.split("."):
        found = getattr(found, name)
    return getattr(found, setting.name)


def _setting_resource(setting: Setting, value: object) -> SettingResource:
    shown = HIDDEN_VALUE if setting.secret and value else msgspec.to_builtins(value)
    return SettingResource(
        key=setting.key,
        value=shown,
        shown=_format_value(shown),
        default=setting.default,
        changed=value != _default(setting),
        secret=setting.secret,
        description=setting.description,
    )


def _format_value(value: object) -> str:
    """A value as the configuration file spells it; a duration in the largest unit that divides it."""
    if isinstance(value, float):
        return next(
            (f"{value / size:g}{unit}" for unit, size in DURATION_UNITS if value and value % size == 0),
            f"{value:g}s",
        )
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


DURATION_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60))


def _default(setting: Setting) -> object:
    """The value of a setting that neither the file nor the environment sets."""
    return getattr(setting.struct(), setting.name)

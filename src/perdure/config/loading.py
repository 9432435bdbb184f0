"""Loads the settings from `config.toml` and the environment.

The environment wins over the file, the file over the defaults. Each value is checked where it stands, so a wrong
one in the file is reported even when the environment overrides it.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import inspect

from perdure.config.catalogue import (
    SECTION_GROUPS,
    SECTIONS,
    SETTINGS_BY_KEY,
    SETTINGS_TYPE,
    Setting,
    plugin_platform_setting,
)
from perdure.config.problems import (
    PLATFORMS_SECTION,
    VARIABLE_PREFIX,
    configuration_error,
    describe_unknown_key,
    describe_wrong_entry,
    describe_wrong_variable,
    installed_platforms,
    join_key,
    plugin_platform_of,
    setting_variable,
    stray_entries,
)
from perdure.errors import ConfigurationError
from perdure.settings import PluginPlatformSettings, Settings

CONFIG_FILE = "config.toml"


def load_settings(home: Path | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings of this home, or raise one ConfigurationError that lists every problem."""
    home = _resolve_home(home, environ)
    draft = _SettingsDraft()
    draft.read_file(home / CONFIG_FILE)
    draft.read_environment(environ)
    if draft.problems:
        raise configuration_error(draft.problems)
    return draft.settings(home)


def _resolve_home(home: Path | None, environ: Mapping[str, str]) -> Path:
    """Return the home directory as an absolute path."""
    wanted = home or Path(environ.get("PERDURE_HOME") or "~/.perdure")
    try:
        return wanted.expanduser().absolute()
    except RuntimeError as error:
        problem = f'environment: PERDURE_HOME: expected a directory, got "{wanted}", whose "~" nobody knows. '
        raise configuration_error([problem + "Write for example: PERDURE_HOME=/var/lib/perdure"]) from error


class _SettingsDraft:
    """The settings while they are read: the values so far, and every problem found."""

    def __init__(self) -> None:
        self.chosen: dict[str, Any] = {}
        self._plugin_platforms: dict[str, dict[str, Any]] = {}  # settings of platforms of other packages
        self.problems: list[str] = []

    def read_file(self, path: Path) -> None:
        """Read the file; a missing file is like an empty one."""
        try:
            content = _parse_file(path)
        except ConfigurationError as error:
            content = {}
            self.problems.append(f"{CONFIG_FILE}: {error.message}")
        self._read_tables("", content)

    def read_environment(self, environ: Mapping[str, str]) -> None:
        """Read the variables with our prefix and a double underscore; the others are no settings."""
        spelled: dict[str, str] = {}
        for name in sorted(name for name in environ if name.upper().startswith(VARIABLE_PREFIX) and "__" in name):
            key = name[len(VARIABLE_PREFIX) :].lower().replace("__", ".")
            first = spelled.setdefault(key, name)
            if first == name:
                self._read_setting(key, environ[name], name)
            else:
                self.problems.append(f"environment: {name}: {first} is set too. Unset one of the two.")

    def settings(self, home: Path) -> Settings:
        """Return the settings: the values that were read, and the defaults for the rest."""
        plugged = {name: PluginPlatformSettings(**chosen) for name, chosen in self._plugin_platforms.items()}
        return cast(
            "Settings", _build_struct(SETTINGS_TYPE, "", {**self.chosen, "home": home, "plugged": plugged})
        )

    def _read_tables(self, within: str, entries: dict[str, Any]) -> None:
        for name, value in entries.items():
            key = join_key(within, name)
            if within in SECTIONS:
                self._read_setting(key, value)
            elif isinstance(value, dict) and (key in SECTIONS or key in SECTION_GROUPS):
                self._read_tables(key, value)
            elif isinstance(value, dict) and within == PLATFORMS_SECTION and name in installed_platforms():
                self._plugin_platforms.setdefault(name, {})
                for own, each in value.items():
                    self._read_setting(join_key(key, own), each)
            else:
                self.problems += [
                    f"{CONFIG_FILE}: {place}: {problem}" for place, problem in stray_entries(key, value)
                ]

    def _read_setting(self, key: str, value: Any, variable_name: str = "") -> None:
        if setting := SETTINGS_BY_KEY.get(key):
            self._accept_value(setting, value, variable_name, self.chosen, key)
        elif platform := plugin_platform_of(key):
            self._read_plugin_setting(
                platform, key.removeprefix(f"{PLATFORMS_SECTION}.{platform}."), value, variable_name
            )
        else:
            place = f"environment: {variable_name}" if variable_name else f"{CONFIG_FILE}: {key}"
            self.problems.append(
                f"{place}: {describe_unknown_key(key, setting_variable if variable_name else str)}"
            )

    def _read_plugin_setting(self, platform: str, own: str, value: Any, name: str) -> None:
        """Read a setting of another package's platform; the package itself interprets its own settings."""
        chosen = self._plugin_platforms.setdefault(platform, {})
        if setting := plugin_platform_setting(platform, own):
            self._accept_value(setting, value, name, chosen, own)
        else:
            chosen.setdefault("texts" if name else "own", {})[own] = value

    def _accept_value(self, setting: Setting, value: Any, name: str, chosen: dict[str, Any], to: str) -> None:
        try:
            chosen[to] = setting.accept_text(value) if name else setting.accept(value)
        except (ValueError, msgspec.ValidationError):
            place = f"environment: {name}" if name else f"{CONFIG_FILE}: {setting.key}"
            problem = describe_wrong_variable(setting, value) if name else describe_wrong_entry(setting, value)
            self.problems.append(f"{place}: {problem}")


def _build_struct(struct: inspect.StructType, within: str, chosen: Mapping[str, object]) -> msgspec.Struct:
    """Build a Struct, and the Structs in it, from the values that were read."""
    values: dict[str, object] = {}
    for field in struct.fields:
        key = join_key(within, field.name)
        if isinstance(field.type, inspect.StructType):
            values[field.name] = _build_struct(field.type, key, chosen)
        elif key in chosen:
            values[field.name] = chosen[key]
    return struct.cls(**values)


def _parse_file(path: Path) -> dict[str, Any]:
    """Return the file's content, empty if there is no file; raise ConfigurationError if it cannot be parsed."""
    text = ""
    try:
        text = path.read_bytes().decode("utf-8-sig")
        return tomllib.loads(text)
    except FileNotFoundError:
        return {}
    except OSError as error:
        advice = f"Make {path} a file that this user may read, or remove it."
        raise ConfigurationError(f"it cannot be read: {error.strerror}. {advice}") from error
    except UnicodeDecodeError as error:
        place = _end_position(error.object[: error.start].decode())
        raise ConfigurationError(f"{place}: this is not UTF-8. Save the file as UTF-8.") from error
    except tomllib.TOMLDecodeError as error:
        reason, _, place = str(error).partition(" (at ")
        place = place.rstrip(")") if place.startswith("line") else _end_position(text)
        advice = "Mend it there; remember that a text needs quotes."
        raise ConfigurationError(f"{place}: this is not TOML: {reason}. {advice}") from error
    except (ValueError, RecursionError) as error:
        # Thousands of digits or of brackets: the parser names no position for these.
        reason = f"it holds a number too long or brackets too deep ({error})"
        raise ConfigurationError(f"{reason}. Remove it.") from error


def _end_position(text: str) -> str:
    """The line and column at which this text ends."""
    lines = text.split("\n")
    return f"line {len(lines)}, column {len(lines[-1]) + 1}"

"""Gathers the settings from `config.toml` and the environment.

The environment wins over the file, the file over the defaults. Each value is checked where it stands, so a
wrong one in the file is told even when the environment overrides it.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import inspect

from perdure.config.catalogue import EVERYTHING, GROUPS, KNOWN, SECTIONS, Setting, plugged_setting
from perdure.config.problems import (
    PLATFORMS,
    PREFIX,
    installed,
    joined,
    plugged_platform,
    refusal,
    stray,
    unknown_key,
    variable,
    wrong_entry,
    wrong_variable,
)
from perdure.errors import ConfigurationError
from perdure.settings import PluggedSettings, Settings

FILE = "config.toml"


def load(home: Path | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings of this home, or raise one ConfigurationError that lists every problem."""
    home = _resolve(home, environ)
    draft = _Draft()
    draft.read_file(home / FILE)
    draft.read_environment(environ)
    if draft.problems:
        raise refusal(draft.problems)
    return draft.settings(home)


def _resolve(home: Path | None, environ: Mapping[str, str]) -> Path:
    """Return the home directory as an absolute path."""
    wanted = home or Path(environ.get("PERDURE_HOME") or "~/.perdure")
    try:
        return wanted.expanduser().absolute()
    except RuntimeError as error:
        problem = f'environment: PERDURE_HOME: expected a directory, got "{wanted}", whose "~" nobody knows. '
        raise refusal([problem + "Write for example: PERDURE_HOME=/var/lib/perdure"]) from error


class _Draft:
    """The settings while they are gathered: what is chosen so far, and every problem met on the way."""

    def __init__(self) -> None:
        self.chosen: dict[str, Any] = {}
        self._plugged: dict[str, dict[str, Any]] = {}  # of platforms that other packages bring
        self.problems: list[str] = []

    def read_file(self, path: Path) -> None:
        """Take what the file says; a missing file says nothing."""
        try:
            content = _parse(path)
        except ConfigurationError as error:
            content = {}
            self.problems.append(f"{FILE}: {error.message}")
        self._take_tables("", content)

    def read_environment(self, environ: Mapping[str, str]) -> None:
        """Take the variables with a double underscore; the others that begin like ours are no settings."""
        spelled: dict[str, str] = {}
        for name in sorted(name for name in environ if name.upper().startswith(PREFIX) and "__" in name):
            key = name[len(PREFIX) :].lower().replace("__", ".")
            first = spelled.setdefault(key, name)
            if first == name:
                self._take(key, environ[name], name)
            else:
                self.problems.append(f"environment: {name}: {first} is set too. Unset one of the two.")

    def settings(self, home: Path) -> Settings:
        """Return what was chosen, and the defaults for the rest."""
        plugged = {name: PluggedSettings(**chosen) for name, chosen in self._plugged.items()}
        return cast("Settings", _built(EVERYTHING, "", {**self.chosen, "home": home, "plugged": plugged}))

    def _take_tables(self, within: str, entries: dict[str, Any]) -> None:
        for name, value in entries.items():
            key = joined(within, name)
            if within in SECTIONS:
                self._take(key, value)
            elif isinstance(value, dict) and (key in SECTIONS or key in GROUPS):
                self._take_tables(key, value)
            elif isinstance(value, dict) and within == PLATFORMS and name in installed():
                self._plugged.setdefault(name, {})
                for own, each in value.items():
                    self._take(joined(key, own), each)
            else:
                self.problems += [f"{FILE}: {place}: {problem}" for place, problem in stray(key, value)]

    def _take(self, key: str, value: Any, name: str = "") -> None:
        if setting := KNOWN.get(key):
            self._accept(setting, value, name, self.chosen, key)
        elif platform := plugged_platform(key):
            self._take_plugged(platform, key.removeprefix(f"{PLATFORMS}.{platform}."), value, name)
        else:
            place = f"environment: {name}" if name else f"{FILE}: {key}"
            self.problems.append(f"{place}: {unknown_key(key, variable if name else str)}")

    def _take_plugged(self, platform: str, own: str, value: Any, name: str) -> None:
        """Take a setting of a platform that another package brings; what its own ones mean, that package knows."""
        chosen = self._plugged.setdefault(platform, {})
        if setting := plugged_setting(platform, own):
            self._accept(setting, value, name, chosen, own)
        else:
            chosen.setdefault("texts" if name else "own", {})[own] = value

    def _accept(self, setting: Setting, value: Any, name: str, chosen: dict[str, Any], to: str) -> None:
        try:
            chosen[to] = setting.accept_text(value) if name else setting.accept(value)
        except (ValueError, msgspec.ValidationError):
            place = f"environment: {name}" if name else f"{FILE}: {setting.key}"
            problem = wrong_variable(setting, value) if name else wrong_entry(setting, value)
            self.problems.append(f"{place}: {problem}")


def _built(struct: inspect.StructType, within: str, chosen: Mapping[str, object]) -> msgspec.Struct:
    """Return a Struct, and those in it, with what was chosen for them."""
    values: dict[str, object] = {}
    for field in struct.fields:
        key = joined(within, field.name)
        if isinstance(field.type, inspect.StructType):
            values[field.name] = _built(field.type, key, chosen)
        elif key in chosen:
            values[field.name] = chosen[key]
    return struct.cls(**values)


def _parse(path: Path) -> dict[str, Any]:
    """Return the file's content, none if there is no file; raise ConfigurationError if it makes no sense."""
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
        place = _end(error.object[: error.start].decode())
        raise ConfigurationError(f"{place}: this is not UTF-8. Save the file as UTF-8.") from error
    except tomllib.TOMLDecodeError as error:
        reason, _, place = str(error).partition(" (at ")
        place = place.rstrip(")") if place.startswith("line") else _end(text)
        advice = "Mend it there; remember that a text needs quotes."
        raise ConfigurationError(f"{place}: this is not TOML: {reason}. {advice}") from error
    except (ValueError, RecursionError) as error:
        # Thousands of digits or of brackets: the parser knows no place for these.
        reason = f"it holds a number too long or brackets too deep ({error})"
        raise ConfigurationError(f"{reason}. Remove it.") from error


def _end(text: str) -> str:
    """Name the place where this text ends."""
    lines = text.split("\n")
    return f"line {len(lines)}, column {len(lines[-1]) + 1}"

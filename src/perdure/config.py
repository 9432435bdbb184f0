"""Reads the settings from `config.toml` and the environment, and names every problem at once.

The environment wins over the file, the file over the defaults. Each value is checked where it stands, so a
wrong one in the file is told even when the environment overrides it.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

from perdure.errors import ConfigurationError
from perdure.settings import LONGEST, Settings

__all__ = ["Settings", "describe", "load", "seconds"]

FILE = "config.toml"
PREFIX = "PERDURE_"
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(ms|s|m|h|d)?")
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,19}:/{1,3}")


def load(home: Path | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings of this home, or raise one ConfigurationError that lists every problem."""
    home = _resolve(home, environ)
    draft = _Draft()
    draft.read_file(home / FILE)
    draft.read_environment(environ)
    if draft.problems:
        raise _refusal(draft.problems)
    return draft.settings(home)


def describe() -> list[tuple[str, str, str, str]]:
    """Return each setting as key, type, default and description, in words, in the order of the Structs."""
    return [(each.key, each.expected, each.default, each.description) for each in KNOWN.values()]


def seconds(value: object) -> float | None:
    """Read a duration, a number of seconds or a text such as "15m"; None if it is neither or out of range."""
    if isinstance(value, str):
        written = DURATION.fullmatch(value.strip())
        value = float(written[1]) * UNITS[written[2] or "s"] if written else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LONGEST:
        return None
    return float(value)


# ── the settings we know ────────────────────────────────────────────────────────────────────────────────────


class _Setting:
    """One setting as its Struct declares it."""

    def __init__(self, section: str, struct: type[msgspec.Struct], field: inspect.Field) -> None:
        meta = field.type if isinstance(field.type, inspect.Metadata) else inspect.Metadata(field.type)
        schema, extra = meta.extra_json_schema or {}, meta.extra or {}
        self.key, self.name, self.struct = f"{section}.{field.name}", field.name, struct
        self.optional = isinstance(meta.type, inspect.UnionType)
        self.kind = meta.type.types[0] if isinstance(meta.type, inspect.UnionType) else meta.type
        self.secret: bool = extra.get("secret", False)
        self.expected: str = extra.get("expected") or _in_words(self.kind)
        self.default: str = extra.get("default") or _written(field.default)
        self.example = _written(schema.get("examples", [field.default])[0])
        self.description: str = schema["description"]

    def accept(self, value: object) -> object:
        """Return the value as its Struct keeps it; raise ValueError or ValidationError if it does not fit."""
        if isinstance(value, str):
            value.encode()  # the environment may hold bytes that are no text; they could never be stored
        if isinstance(self.kind, inspect.FloatType):
            value = seconds(value)
        return getattr(msgspec.convert({self.name: value}, self.struct), self.name)

    def accept_text(self, text: str) -> object:
        """Return what a text of the environment means; an empty one is "none" where there may be none."""
        if self.optional and not text:
            return None
        is_number = isinstance(self.kind, inspect.IntType) and re.fullmatch(r"-?[0-9]+", text.strip())
        return self.accept(int(text) if is_number else text)

    def refuse(self, value: object, variable: str) -> str:
        """Say what was expected, what came, and what to write instead."""
        quote = "" if isinstance(self.kind, inspect.IntType) else '"'
        line = (
            f"{_variable(self.key)}={self.example}" if variable else f"{self.name} = {quote}{self.example}{quote}"
        )
        return f"expected {self.expected}, got {_shown(value, self.secret)}. Write for example: {line}"


def _in_words(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.IntType):
        return f"a whole number from {kind.ge} to {kind.le}"
    if isinstance(kind, inspect.LiteralType):
        return "one of " + ", ".join(f'"{word}"' for word in kind.values)
    return "text"


def _written(value: object) -> str:
    """Spell a default as one would write it: 86400.0 is 24h."""
    if isinstance(value, float):
        unit = next((unit for unit in ("h", "m", "s") if value % UNITS[unit] == 0), "ms")
        return f"{value / UNITS[unit]:g}{unit}"
    return "none" if value is None else str(value)


SECTIONS = {
    part.name: part.type
    for part in inspect.type_info(Settings).fields  # type: ignore[attr-defined]
    if isinstance(part.type, inspect.StructType)
}
KNOWN = {
    f"{name}.{field.name}": _Setting(name, section.cls, field)
    for name, section in SECTIONS.items()
    for field in section.fields
}


# ── where they come from ────────────────────────────────────────────────────────────────────────────────────


def _resolve(home: Path | None, environ: Mapping[str, str]) -> Path:
    """Return the home directory as an absolute path."""
    wanted = home or Path(environ.get("PERDURE_HOME") or "~/.perdure")
    try:
        return wanted.expanduser().absolute()
    except RuntimeError as error:
        problem = f'environment: PERDURE_HOME: expected a directory, got "{wanted}", whose "~" nobody knows. '
        raise _refusal([problem + "Write for example: PERDURE_HOME=/var/lib/perdure"]) from error


class _Draft:
    """The settings while they are gathered: what is chosen so far, and every problem met on the way."""

    def __init__(self) -> None:
        self.chosen: dict[str, object] = {}
        self.problems: list[str] = []

    def read_file(self, path: Path) -> None:
        """Take what the file says; a missing file says nothing."""
        try:
            content = _parse(path)
        except ConfigurationError as error:
            content = {}
            self.problems.append(f"{FILE}: {error.message}")
        for name, section in content.items():
            if name in SECTIONS and isinstance(section, dict):
                for key, value in section.items():
                    self._take(f"{name}.{key}", value)
            else:
                self.problems.append(f"{FILE}: {name}: {_stray(name, section)}")

    def read_environment(self, environ: Mapping[str, str]) -> None:
        """Take the variables with a double underscore; the others that begin like ours are no settings."""
        spelled: dict[str, str] = {}
        for variable in sorted(name for name in environ if name.upper().startswith(PREFIX) and "__" in name):
            key = variable[len(PREFIX) :].lower().replace("__", ".")
            first = spelled.setdefault(key, variable)
            if first == variable:
                self._take(key, environ[variable], variable)
            else:
                self.problems.append(f"environment: {variable}: {first} is set too. Unset one of the two.")

    def settings(self, home: Path) -> Settings:
        """Return what was chosen, and the defaults for the rest."""
        sections: dict[str, Any] = {}
        for name, section in SECTIONS.items():
            mine = [key for key in _keys_of(name) if key in self.chosen]
            sections[name] = section.cls(**{KNOWN[key].name: self.chosen[key] for key in mine})
        return Settings(home=home, **sections)

    def _take(self, key: str, value: Any, variable: str = "") -> None:
        place = f"environment: {variable}" if variable else f"{FILE}: {key}"
        setting = KNOWN.get(key)
        if setting is None:
            self.problems.append(f"{place}: {_unknown_key(key, _variable if variable else str)}")
            return
        try:
            self.chosen[key] = setting.accept_text(value) if variable else setting.accept(value)
        except (ValueError, msgspec.ValidationError):
            self.problems.append(f"{place}: {setting.refuse(value, variable)}")


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


# ── what is wrong with them ─────────────────────────────────────────────────────────────────────────────────


def _refusal(problems: list[str]) -> ConfigurationError:
    """List the problems, one line each, whatever characters stand in them."""
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    lines = [f"  {number}. {_printable(problem)}" for number, problem in enumerate(problems, 1)]
    return ConfigurationError("\n".join([f"The configuration has {count}; nothing was started:", *lines]))


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _shown(value: object, secret: bool = False) -> str:
    """Spell a value that came, or of a secret no more than cannot hurt."""
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and value.bit_length() > 64:
        return "a number too large to show"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if secret or ("://" in text and "@" in text):  # a URL with a password may stand in any wrong place
        scheme = SCHEME.match(text)
        return f'"{scheme[0]}…"' if scheme else "(hidden)"
    text = text if len(text) <= 60 else f"{text[:60]}…"
    return f'"{text}"' if isinstance(value, str) else text


def _variable(key: str) -> str:
    return PREFIX + key.upper().replace(".", "__")


def _stray(name: str, content: object) -> str:
    """Say what is wrong with an entry at the top of the file that is not one of our sections."""
    if name in SECTIONS:
        secret = any(KNOWN[key].secret for key in _keys_of(name))
        advice = f"Write [{name}] on a line of its own, and its keys beneath it."
        return f"expected a section, got {_shown(content, secret)}. {advice}"
    if isinstance(content, dict) and (near := _closest(name, SECTIONS)):
        return f"unknown section. Did you mean [{near[0]}]?"
    if isinstance(content, dict):
        return f"unknown section. Remove it; the sections are: {', '.join(SECTIONS)}."
    return _unknown_key(name, str)


def _unknown_key(key: str, spell: Callable[[str], str]) -> str:
    """Say which setting an unknown key may have meant, or which there are."""
    near = [spell(each) for each in _nearest(key)]
    if near:
        return f"unknown key. Did you mean {' or '.join(near)}?"
    siblings = [spell(each) for each in _keys_of(key.partition(".")[0])]
    there_is = (
        f"this section has: {', '.join(siblings)}" if siblings else f"the sections are: {', '.join(SECTIONS)}"
    )
    return f"unknown key. Remove it; {there_is}."


def _nearest(key: str) -> list[str]:
    """Return the settings of the closest name: the same before a similar one, near before elsewhere."""
    section, _, name = key.rpartition(".")
    here = [each for near in _closest(section, SECTIONS) for each in _keys_of(near)]
    for keys, likeness in ((here, 1.0), (list(KNOWN), 1.0), (here, 0.6), (list(KNOWN), 0.8)):
        for match in _closest(name, [KNOWN[each].name for each in keys], likeness):
            return [each for each in keys if KNOWN[each].name == match]
    return []


def _keys_of(section: str) -> list[str]:
    return [key for key in KNOWN if key.startswith(f"{section}.")]


def _closest(word: str, words: Iterable[str], likeness: float = 0.6) -> list[str]:
    import difflib  # only a mistake needs it, and a start should not pay for that

    return difflib.get_close_matches(word.lower(), words, n=1, cutoff=likeness)

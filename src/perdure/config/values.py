"""The values of settings as people write them: durations, texts of the environment, and TOML.

In the environment, a list is written `ann,bob`, a table `12=off,13=ask`, and a table of lists or tables is JSON;
in the file, all are TOML.
"""

from __future__ import annotations

import re

import msgspec
from msgspec import inspect

from perdure.settings import MAX_DURATION_SECONDS

UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
DURATION_PATTERN = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(ms|s|m|h|d)?")


def parse_duration(value: object) -> float | None:
    """Read a duration, a number of seconds or a text such as "15m"; None if it is neither or out of range."""
    if isinstance(value, str):
        written = DURATION_PATTERN.fullmatch(value.strip())
        value = float(written[1]) * UNIT_SECONDS[written[2] or "s"] if written else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_DURATION_SECONDS:
        return None
    return float(value)


def parse_environment_value(text: str, kind: inspect.Type) -> object:
    """Parse a text of the environment; the text itself, to be refused, if it is no such value."""
    if isinstance(kind, inspect.IntType) and re.fullmatch(r"-?[0-9]+", text.strip()):
        return int(text)
    if isinstance(kind, inspect.BoolType):
        return {"true": True, "false": False}.get(text.strip().lower(), text)
    if isinstance(kind, inspect.ListType):
        return _split_list(text)
    if not isinstance(kind, inspect.DictType):
        return text
    nested = isinstance(kind.value_type, inspect.StructType | inspect.ListType)
    return msgspec.json.decode(text) if nested else _parse_table(text)


def _split_list(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def _parse_table(text: str) -> dict[str, str]:
    pairs = [entry.rpartition("=") for entry in _split_list(text)]
    table = {key.strip(): value.strip() for key, _, value in pairs}
    if len(table) < len(pairs):
        raise ValueError("a key stands there twice")
    return table


def to_environment(value: object) -> str:
    """Write a value for the environment: 86400.0 is 24h."""
    if isinstance(value, float):
        if not value:
            return "0s"
        unit = next((unit for unit in ("h", "m", "s") if value % UNIT_SECONDS[unit] == 0), "ms")
        return f"{value / UNIT_SECONDS[unit]:g}{unit}"
    if isinstance(value, list):
        return ",".join(map(to_environment, value))
    if isinstance(value, dict):
        nested = any(isinstance(each, dict | list) for each in value.values())
        return (
            msgspec.json.encode(value).decode()
            if nested
            else ",".join(f"{k}={to_environment(v)}" for k, v in value.items())
        )
    return str(value).lower() if isinstance(value, bool) else str(value)


def to_toml(value: object) -> str:
    """Write a value for the file."""
    if isinstance(value, list):
        return f"[{', '.join(map(to_toml, value))}]"
    if isinstance(value, dict):
        pairs = ", ".join(f'"{key}" = {to_toml(each)}' for key, each in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    return to_environment(value) if isinstance(value, int) else f'"{to_environment(value)}"'

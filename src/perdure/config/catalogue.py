"""The catalogue of settings: the key, default and accepted values of each, and values as people write them."""

from __future__ import annotations

import re
from typing import cast

import msgspec
from msgspec import inspect

from perdure.settings import MAX_DURATION_SECONDS, PluginPlatformSettings, Settings

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


class Setting:
    """One setting as its Struct declares it."""

    def __init__(self, section: str, struct: type[msgspec.Struct], field: inspect.Field) -> None:
        meta = field.type if isinstance(field.type, inspect.Metadata) else inspect.Metadata(field.type)
        schema, extra = meta.extra_json_schema or {}, meta.extra or {}
        self.key, self.section, self.name, self.struct = f"{section}.{field.name}", section, field.name, struct
        self.optional = isinstance(meta.type, inspect.UnionType)
        inner = meta.type.types[0] if isinstance(meta.type, inspect.UnionType) else meta.type
        if isinstance(inner, inspect.Metadata):  # an optional setting: its inner type has metadata too
            extra = (inner.extra or {}) | extra
            inner = inner.type
        self.kind = inner
        self.secret = bool(extra.get("secret"))
        self.secret_password: bool = extra.get("secret") == "password"  # of a URL, only its password is secret
        self.expected: str = extra.get("expected") or _type_in_words(self.kind)
        default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
        self.default: str = extra.get("default") or _default_in_words(default)
        self.example: object = schema.get("examples", [default])[0]
        self.description: str = schema["description"]

    def accept(self, value: object) -> object:
        """Return the value as its Struct stores it; raise ValueError or ValidationError if it is wrong."""
        if isinstance(self.kind, inspect.FloatType):
            value = parse_duration(value)
        return getattr(msgspec.convert({self.name: value}, self.struct), self.name)

    def accept_text(self, text: str) -> object:
        """Return the value of an environment variable; an empty one of an optional setting is None."""
        text.encode()  # raises if the variable holds bytes that are no text: they cannot be stored
        return None if self.optional and not text else self.accept(parse_environment_value(text, self.kind))

    def nested_problem(self, value: dict[str, object]) -> str:
        """What is wrong inside a table of tables, without its values; empty for any other setting."""
        if not isinstance(self.kind, inspect.DictType) or not isinstance(self.kind.value_type, inspect.StructType):
            return ""
        for name, each in value.items():
            try:
                self.accept({name: each})
            except msgspec.ValidationError as error:
                return f'"{name}" is wrong: {error}'
        return ""

    def accepts(self, value: object) -> bool:
        """Whether the file may hold this value."""
        try:
            self.accept(value)
        except (ValueError, msgspec.ValidationError):
            return False
        return True


def _default_in_words(value: object) -> str:
    if isinstance(value, list | dict):
        return to_toml(value)
    return "none" if value is None else to_environment(value)


def _type_in_words(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.IntType):
        return f"a whole number from {kind.ge} to {kind.le}"
    if isinstance(kind, inspect.LiteralType):
        return "one of " + ", ".join(f'"{word}"' for word in kind.values)
    if isinstance(kind, inspect.BoolType):
        return "true or false"
    if isinstance(kind, inspect.DictType):
        return f"a table in which each value is {_type_in_words(kind.value_type)}"
    return "a list of texts" if isinstance(kind, inspect.ListType) else "text"


# ── all settings ────────────────────────────────────────────────────────────────────────────────────────────


def _sections(struct: inspect.StructType, within: str = "") -> dict[str, inspect.StructType]:
    """Return the sections by their dotted names."""
    found: dict[str, inspect.StructType] = {}
    for field in struct.fields:
        if isinstance(field.type, inspect.StructType):
            name = f"{within}{field.name}"
            found |= _sections(field.type, f"{name}.") or {name: field.type}
    return found


def plugin_platform_setting(platform: str, name: str) -> Setting | None:
    """A setting that every platform has, of a plug-in's platform; None if the setting is the plug-in's own."""
    struct = cast("inspect.StructType", inspect.type_info(PluginPlatformSettings))
    found = [field for field in struct.fields if field.name == name and name not in ("own", "texts")]
    return Setting(f"platforms.{platform}", struct.cls, found[0]) if found else None


SETTINGS_TYPE = cast("inspect.StructType", inspect.type_info(Settings))
SECTIONS = _sections(SETTINGS_TYPE)
SECTION_GROUPS = {name.rpartition(".")[0] for name in SECTIONS if "." in name}  # sections without settings
SETTINGS_BY_KEY = {
    f"{name}.{field.name}": Setting(name, section.cls, field)
    for name, section in SECTIONS.items()
    for field in section.fields
}

"""Messages about wrong settings: what was expected, what came, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache

from msgspec import inspect

from perdure.config.catalogue import SECTION_GROUPS, SECTIONS, SETTINGS_BY_KEY, Setting, to_environment, to_toml
from perdure.core.commands import nearest_name
from perdure.errors import ConfigurationError

PLATFORMS_SECTION = "platforms"
VARIABLE_PREFIX = "PERDURE_"
URL_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,19}:/{1,3}")


def configuration_error(problems: list[str]) -> ConfigurationError:
    """One error that lists the problems, one line each, with unprintable characters escaped."""
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    lines = [f"  {number}. {_printable(problem)}" for number, problem in enumerate(problems, 1)]
    return ConfigurationError("\n".join([f"The configuration has {count}; nothing was started:", *lines]))


def describe_wrong_entry(setting: Setting, value: object) -> str:
    """Say what the file should hold for a setting, and what it holds."""
    line = f"{setting.name} = {to_toml(setting.example)}"
    return f"expected {setting.expected}, got {_describe_value(setting, value)}. Write for example: {line}"


def describe_wrong_variable(setting: Setting, text: str) -> str:
    """Say what a variable should hold for a setting, and what it holds."""
    line = f"{setting_variable(setting.key)}={to_environment(setting.example)}"
    return f"expected {setting.expected}, got {_spell_value(text, setting.secret)}. Write for example: {line}"


def stray_entries(key: str, content: object) -> Iterator[tuple[str, str]]:
    """Yield the key and the problem of each entry of the file that is in none of our sections."""
    if key in SECTIONS or key in SECTION_GROUPS:
        yield key, _describe_no_section(key, content)
    elif not isinstance(content, dict):
        yield key, describe_unknown_key(key)
    elif "." not in key and content and all(isinstance(each, dict) for each in content.values()):
        for name in content:  # the file says [platform.web], not [platform]
            yield join_key(key, name), _describe_unknown_section(join_key(key, name))
    else:
        yield key, _describe_unknown_section(key)


def describe_unknown_key(key: str, spell: Callable[[str], str] = str) -> str:
    """Say which setting an unknown key may have meant, or which there are."""
    # The name of a section is no misspelt key.
    near = [] if _keys_of(key) else [spell(each) for each in _nearest_settings(key)]
    if near:
        return f"unknown key. Did you mean {' or '.join(near)}?"
    siblings = [spell(each) for each in _keys_of(key) or _keys_of(key.rpartition(".")[0])]
    if not siblings and key.startswith(f"{PLATFORMS_SECTION}."):
        return _describe_unknown_platform()
    there_is = (
        f"this section has: {', '.join(siblings)}" if siblings else f"the sections are: {', '.join(SECTIONS)}"
    )
    return f"unknown key. Remove it; {there_is}."


def setting_variable(key: str) -> str:
    """Return the name of a setting in the environment."""
    return VARIABLE_PREFIX + key.upper().replace(".", "__")


@cache
def installed_platforms() -> frozenset[str]:
    """The platforms of other packages. Searched only when a platform is named that is none of ours."""
    from importlib import metadata  # a start that needs no plug-ins should not pay for it

    return frozenset(point.name for point in metadata.entry_points(group="perdure.platforms"))


def plugin_platform_of(key: str) -> str | None:
    """The platform of another package to which a key belongs; None if it belongs to none."""
    group, _, rest = key.partition(".")
    platform, _, name = rest.partition(".")
    ours = group != PLATFORMS_SECTION or not name or f"{group}.{platform}" in SECTIONS
    return None if ours or platform not in installed_platforms() else platform


def join_key(within: str, name: str) -> str:
    """Return the dotted name of an entry; a name that contains a dot is quoted."""
    name = f'"{name}"' if "." in name else name
    return f"{within}.{name}" if within else name


# ── the value that came ─────────────────────────────────────────────────────────────────────────────────────


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _describe_value(setting: Setting, value: object) -> str:
    """Spell a wrong value, and if it is a list or table as expected, its first wrong entry."""
    wrong: list[str] = []
    if isinstance(value, list) and isinstance(setting.kind, inspect.ListType):
        wrong = [_spell_value(each) for each in value if not setting.accepts([each])]
    elif isinstance(value, dict) and isinstance(setting.kind, inspect.DictType):
        wrong = [
            f"{_spell_value(k)} = {_spell_value(each)}"
            for k, each in value.items()
            if not setting.accepts({k: each})
        ]
    if isinstance(value, dict) and (inside := setting.nested_problem(value)):
        return f"a table in which {inside}"
    shown = _spell_value(value, setting.secret)
    return f"{shown} with {wrong[0]} in it" if wrong and not setting.secret else shown


def _spell_value(value: object, secret: bool = False) -> str:
    """Spell a value; of a secret, at most the scheme of its URL."""
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and value.bit_length() > 64:
        return "a number too large to show"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if secret or ("://" in text and "@" in text):  # a URL with a password may stand in any wrong setting
        scheme = URL_SCHEME.match(text)
        return f'"{scheme[0]}…"' if scheme else "(hidden)"
    text = text if len(text) <= 60 else f"{text[:60]}…"
    return f'"{text}"' if isinstance(value, str) else text


def _describe_no_section(key: str, content: object) -> str:
    within = [name for name in SECTIONS if f"{name}.".startswith(f"{key}.")]
    secret = any(setting.secret for setting in SETTINGS_BY_KEY.values() if setting.section in within)
    advice = f"Write [{within[0]}] on a line of its own, and its keys beneath it."
    return f"expected a section, got {_spell_value(content, secret)}. {advice}"


# ── the setting that was meant ──────────────────────────────────────────────────────────────────────────────


def _describe_unknown_section(key: str) -> str:
    near = [f"[{each}]" for each in _near_sections(key)]
    if near:
        return f"unknown section. Did you mean {' or '.join(near)}?"
    if key.startswith(f"{PLATFORMS_SECTION}."):
        return _describe_unknown_platform()
    return f"unknown section. Remove it; the sections are: {', '.join(SECTIONS)}."


def _describe_unknown_platform() -> str:
    known = [
        name.removeprefix(f"{PLATFORMS_SECTION}.") for name in SECTIONS if name.startswith(f"{PLATFORMS_SECTION}.")
    ]
    there_is = ", ".join([*known, *sorted(installed_platforms() - {*known})])
    return f"unknown platform. Install the package that brings it, or remove this; the platforms are: {there_is}."


def _nearest_settings(key: str) -> list[str]:
    """Return the settings of the nearest name: the same name before a similar one, near sections before others."""
    section, _, name = key.rpartition(".")
    if section in SETTINGS_BY_KEY:
        return [section]
    here = [each for near in _near_sections(section) for each in _keys_of(near)]
    # A setting of an unknown platform is not meant for the other platforms.
    elsewhere = list(SETTINGS_BY_KEY) if here or "." not in section else []
    for keys, likeness in ((here, 1.0), (elsewhere, 1.0), (here, 0.6), (elsewhere, 0.8)):
        match = nearest_name(name, [SETTINGS_BY_KEY[each].name for each in keys], likeness)
        if match is not None:
            return [each for each in keys if SETTINGS_BY_KEY[each].name == match]
    return []


def _near_sections(key: str) -> list[str]:
    """Return the sections of the nearest name, part by part: as a whole, platforms.irc is like platforms.web."""
    near = [name.split(".") for name in SECTIONS]
    for depth, part in enumerate(key.split(".")):
        deep = [parts for parts in near if len(parts) > depth]
        if deep:
            match = nearest_name(part, {parts[depth] for parts in deep}, 0.6)
            near = [parts for parts in deep if parts[depth] == match]
    return [".".join(parts) for parts in near]


def _keys_of(section: str) -> list[str]:
    return [key for key, setting in SETTINGS_BY_KEY.items() if setting.section == section]

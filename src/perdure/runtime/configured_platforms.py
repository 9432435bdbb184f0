"""The adapters that the configuration asks for, those of other packages included."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from perdure.config import Settings
from perdure.config.catalogue import parse_environment_value
from perdure.errors import ConfigurationError
from perdure.platforms.api import Adapter
from perdure.platforms.web import WebAdapter
from perdure.plugins import load_entry_point
from perdure.settings import PluginPlatformSettings

ENTRY_POINT_GROUP = "perdure.platforms"


def make_plugin_adapter(name: str, settings: PluginPlatformSettings, home: Path) -> Adapter:
    """The adapter of a platform, or an error that says what is wrong with it or with its settings."""
    make: Callable[..., Adapter] = load_entry_point(ENTRY_POINT_GROUP, name)
    values = _constructor_arguments(name, make, settings, home)
    try:
        adapter = make(**values)
    except ConfigurationError:
        raise
    except Exception as error:  # reason: a class of somebody else may fail in any way
        raise ConfigurationError(
            f"the platform {name!r} cannot be made: {type(error).__name__}: {error}",
            hint=f"Look at [platforms.{name}] in the configuration, or mend the package that brings it.",
        ) from error
    _check_adapter(name, adapter)
    return adapter


def _check_adapter(name: str, adapter: object) -> None:
    """See that it is an adapter of that name: who may talk there is looked up by it."""
    if not isinstance(adapter, Adapter):
        raise ConfigurationError(
            f"the platform {name!r} is a {type(adapter).__name__}, and no perdure.platforms.Adapter",
            hint="Mend or remove the package that brings it.",
        )
    if getattr(adapter, "name", None) != name:
        raise ConfigurationError(
            f"the platform {name!r} calls itself {getattr(adapter, 'name', None)!r}",
            hint="The name of its entry point and the `name` of its adapter must be the same.",
        )


# ── its own settings ────────────────────────────────────────────────────────────────────────────────────────


def _constructor_arguments(
    name: str, make: Callable[..., Adapter], settings: PluginPlatformSettings, home: Path
) -> dict[str, Any]:
    """What the platform is made with: its own keys as its signature wants them; every problem is told at once."""
    wanted, hints = _constructor_parameters(name, make), _hints(make)
    given = {**settings.own, **{key: _EnvironmentText(text) for key, text in settings.texts.items()}}
    problems = [
        f"{key}: unknown key. It takes: {', '.join(wanted) or 'none'}." for key in given if key not in wanted
    ]
    problems += [
        f"{key}: missing. It has no default."
        for key, parameter in wanted.items()
        if parameter.default is inspect.Parameter.empty and key not in given
    ]
    values: dict[str, Any] = {}
    for key in given.keys() & wanted.keys():
        try:
            values[key] = _convert_value(given[key], hints.get(key, Any), home)
        except (ValueError, msgspec.ValidationError) as error:
            problems.append(f"{key}: {error}.")
    if problems:
        lines = "\n".join(f"  platforms.{name}.{problem}" for problem in sorted(problems))
        raise ConfigurationError(f"The platform {name!r} cannot be used with these settings:\n{lines}")
    return values


def _constructor_parameters(name: str, make: Callable[..., Adapter]) -> Mapping[str, inspect.Parameter]:
    try:
        found = inspect.signature(make).parameters
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"the platform {name!r} cannot be called: {error}", hint="Mend or remove the package that brings it."
        ) from error
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {key: parameter for key, parameter in found.items() if parameter.kind in named}


def _hints(make: Callable[..., Adapter]) -> dict[str, Any]:
    try:
        return get_type_hints(inspect.getattr_static(make, "__init__") if isinstance(make, type) else make)
    except NameError:  # a type that is only there for a type checker: then whatever came is passed on
        return {}


class _EnvironmentText(str):
    """A value from the environment: there, everything is text."""

    __slots__ = ()


def _convert_value(given: object, hint: Any, home: Path) -> object:
    """The value as its hint wants it; a relative path starts in the home directory."""
    if isinstance(given, _EnvironmentText):
        given = _parse_text(given, msgspec.inspect.type_info(hint))
    return msgspec.convert(given, hint, strict=False, dec_hook=lambda kind, value: _decode_path(kind, value, home))


def _parse_text(text: str, kind: msgspec.inspect.Type) -> object:
    """What a text means; an empty one is "none" where there may be none."""
    if isinstance(kind, msgspec.inspect.UnionType):
        if not text and kind.includes_none:
            return None
        kind = next(each for each in kind.types if not isinstance(each, msgspec.inspect.NoneType))
    return parse_environment_value(str(text), kind)


def _decode_path(kind: type, value: Any, home: Path) -> object:
    if kind is Path and isinstance(value, str) and value:
        return home / Path(value).expanduser()
    raise ValueError(f"expected {kind.__name__}")


def configured_adapters(settings: Settings) -> list[Adapter]:
    """An adapter for each platform in use. One that is not costs nothing, not even its import."""
    adapters: list[Adapter] = [WebAdapter()]
    telegram = settings.platforms.telegram
    if telegram.enabled and telegram.token is not None:
        from perdure.platforms.telegram import TelegramAdapter

        adapter = TelegramAdapter(telegram.token, telegram.base_url, telegram.webhook, grows=telegram.stream)
        adapters.append(adapter)
    return [*adapters, *_plugin_adapters(settings)]


def _plugin_adapters(settings: Settings) -> list[Adapter]:
    """Those that other packages bring. No code of theirs is loaded unless the configuration names them."""
    enabled = {name: there for name, there in settings.plugged.items() if there.enabled}
    if not enabled:
        return []
    from perdure.runtime.configured_platforms import make_plugin_adapter

    return [make_plugin_adapter(name, there, settings.home) for name, there in enabled.items()]

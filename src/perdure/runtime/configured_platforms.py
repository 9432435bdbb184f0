"""Makes the adapters of the platforms that the configuration enables, those of other packages included."""

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
MAX_POLL_SECONDS = 50
POLL_PART_OF_LEASE = 2 / 3


def make_plugin_adapter(name: str, settings: PluginPlatformSettings, home: Path) -> Adapter:
    """Return the adapter of another package's platform, or raise an error that names the wrong setting."""
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
    """Check that an object is an adapter with the platform's name: allow lists are looked up by that name."""
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
    """Return a platform's settings as its constructor's signature wants them, or raise all problems at once."""
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
    """A value from the environment, where every value is text."""

    __slots__ = ()


def _convert_value(given: object, hint: Any, home: Path) -> object:
    """Return the value as its type hint wants it; a relative path starts in the home directory."""
    if isinstance(given, _EnvironmentText):
        given = _parse_text(given, msgspec.inspect.type_info(hint))
    return msgspec.convert(given, hint, strict=False, dec_hook=lambda kind, value: _decode_path(kind, value, home))


def _parse_text(text: str, kind: msgspec.inspect.Type) -> object:
    """Return the value that a text means; the empty text is None where None is allowed."""
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
    """Return an adapter for each enabled platform. The module of another platform is not even imported."""
    adapters: list[Adapter] = [WebAdapter()]
    telegram = settings.platforms.telegram
    if telegram.enabled and telegram.token is not None:
        from perdure.platforms.telegram import TelegramAdapter

        adapter = TelegramAdapter(
            telegram.token,
            telegram.base_url,
            telegram.webhook,
            grows=telegram.stream,
            poll_seconds=_poll_seconds(settings),
        )
        adapters.append(adapter)
    return [*adapters, *_plugin_adapters(settings)]


def _poll_seconds(settings: Settings) -> int:
    """How long a poll may wait: where gateways share the database, it is over before another one takes over.

    The last poll of a gateway that is frozen goes on at the platform, which would refuse the poll of another one.
    """
    if settings.store_url.startswith("sqlite:"):
        return MAX_POLL_SECONDS
    return max(1, min(MAX_POLL_SECONDS, int(settings.store.lease * POLL_PART_OF_LEASE)))


def _plugin_adapters(settings: Settings) -> list[Adapter]:
    """Return the adapters of other packages. Their code is loaded only if the configuration names the platform."""
    enabled = {name: there for name, there in settings.plugged.items() if there.enabled}
    if not enabled:
        return []
    return [make_plugin_adapter(name, there, settings.home) for name, there in enabled.items()]

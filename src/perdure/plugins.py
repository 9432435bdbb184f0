"""Loads objects of other packages, named in the settings or found by entry point."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure.errors import ConfigurationError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints


def load_object(name: str, home: Path) -> Any:
    """Import the object that `module:object` names; modules in the home directory are found too."""
    module, _, path = name.partition(":")
    if str(home) not in sys.path:
        sys.path.append(str(home))
    try:
        found: Any = importlib.import_module(module)
    except ImportError as error:
        hint = f"Put {module.split('.')[0]}.py into {home}, or install the package that has it."
        raise ConfigurationError(f"{name!r} cannot be imported: {error}", hint=hint) from error
    except Exception as error:  # reason: a module of somebody else may fail in any way
        raise ConfigurationError(
            f"{name!r} cannot be imported: {type(error).__name__}: {error}",
            hint=f"The module is there, but fails while it is loaded; `python -m {module}` shows where.",
        ) from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise ConfigurationError(f"{name!r}: {module} has no {path}", hint="Write it as module:object.")
        found = getattr(found, part)
    return found


def load_entry_points(group: str) -> dict[str, Any]:
    """Load every entry point of a group, by name."""
    return {point.name: _load_entry_point(point) for point in _find_entry_points(group)}


def load_entry_point(group: str, name: str) -> Any:
    """Load the one entry point of that name in a group."""
    found = [point for point in _find_entry_points(group) if point.name == name]
    if len(found) != 1:
        brought = ", ".join(point.value for point in found) or "none"
        raise ConfigurationError(
            f"one package should bring {name!r} ({group}), and these do: {brought}",
            hint="Install the package that you want, and remove the others.",
        )
    return _load_entry_point(found[0])


def _find_entry_points(group: str) -> EntryPoints:
    from importlib import metadata  # a start that needs no plug-ins should not pay for it

    return metadata.entry_points(group=group)


def _load_entry_point(point: EntryPoint) -> Any:
    try:
        return point.load()
    except Exception as error:  # reason: a package of somebody else may fail in any way
        raise ConfigurationError(
            f"the plug-in {point.name!r} ({point.value}) cannot be loaded: {error}",
            hint="Mend or remove the package that brings it.",
        ) from error

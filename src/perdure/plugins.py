"""Objects of other people's modules, named in the settings or found by entry point."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from perdure.errors import ConfigurationError


def load_object(name: str, home: Path) -> Any:
    """The object that `module:object` names; modules may also stand in the home directory."""
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


def entry_points(group: str) -> dict[str, Any]:
    """What installed packages offer under a name, loaded."""
    from importlib import metadata  # a start that needs no plug-ins should not pay for it

    found = {}
    for point in metadata.entry_points(group=group):
        try:
            found[point.name] = point.load()
        except Exception as error:  # reason: the same
            raise ConfigurationError(
                f"the plug-in {point.name!r} ({point.value}) cannot be loaded: {error}",
                hint="Mend or remove the package that brings it.",
            ) from error
    return found

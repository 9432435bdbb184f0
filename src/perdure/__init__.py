"""Perdure puts an LLM agent on chat platforms; kill the process, and every conversation goes on."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from perdure.version import __version__

if TYPE_CHECKING:
    from perdure.core.effects import Effect
    from perdure.core.tools import Use
    from perdure.errors import ToolFailed
    from perdure.runtime.gateway import Gateway
    from perdure.settings import Settings
    from perdure.tools.function_tools import tool

__all__ = ["Effect", "Gateway", "Settings", "ToolFailed", "Use", "__version__", "tool"]

_MODULES = {
    "Effect": "perdure.core.tools",
    "Gateway": "perdure.runtime.gateway",
    "Settings": "perdure.settings",
    "ToolFailed": "perdure.errors",
    "Use": "perdure.core.tools",
    "tool": "perdure.tools.function_tools",
}


def __getattr__(name: str) -> Any:
    """The public names, loaded when they are first used: a command that needs none of them starts at once."""
    if name not in _MODULES:
        raise AttributeError(f"module 'perdure' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)

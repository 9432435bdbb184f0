"""Perdure puts an LLM agent on chat platforms; kill the process, and every conversation goes on."""

from typing import TYPE_CHECKING, Any

from perdure.version import __version__

if TYPE_CHECKING:
    from perdure.runtime.gateway import Gateway
    from perdure.settings import Settings

__all__ = ["Gateway", "Settings", "__version__"]


def __getattr__(name: str) -> Any:
    """The public names, loaded when they are first used: a command that needs none of them starts at once."""
    if name == "Gateway":
        from perdure.runtime.gateway import Gateway

        return Gateway
    if name == "Settings":
        from perdure.settings import Settings

        return Settings
    raise AttributeError(f"module 'perdure' has no attribute {name!r}")

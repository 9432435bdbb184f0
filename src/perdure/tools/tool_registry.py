"""Joins toolboxes, and selects the tools that an agent may use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from perdure.core.tools import Tool, Toolbox
from perdure.errors import ConfigurationError


class ToolRegistry:
    """Several toolboxes as one, narrowed to the chosen names. Of two tools with the same name the first counts."""

    def __init__(self, boxes: Iterable[Toolbox], chosen: Sequence[str] = ("*",)) -> None:
        self._boxes = tuple(boxes)
        self._chosen = tuple(chosen)

    async def tools(self) -> Sequence[Tool]:
        found: dict[str, Tool] = {}
        for box in self._boxes:
            for tool in await box.tools():
                if any(fnmatchcase(tool.name, pattern) for pattern in self._chosen):
                    found.setdefault(tool.name, tool)
        return tuple(found.values())


def refuse_duplicate_names(tools: Iterable[Tool]) -> None:
    """Raise `ConfigurationError` if two tools have the same name: nobody could say which one is meant."""
    names: set[str] = set()
    for tool in tools:
        if tool.name in names:
            raise ConfigurationError(
                f"two tools are named {tool.name!r}", hint='Give one of them another name: @tool(name="…").'
            )
        names.add(tool.name)

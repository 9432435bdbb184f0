"""Joins toolboxes, selects the tools of an agent, and makes those tools ask first that the operator names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from perdure.core import texts
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


SERVER_PREFIX = "mcp:"  # a pattern for all tools of an MCP server, by the name of the server


class AskRules(Struct, frozen=True):
    """Which tools ask before every call, beside what their own guards say."""

    patterns: tuple[str, ...] = ()
    every_tool: bool = False
    never: Collection[str] = ()  # names of tools that ask nothing even then

    def reason(self, tool: Tool) -> str:
        """Why every call of a tool needs approval; empty if only its own guard decides."""
        if tool.name in self.never:
            return ""
        named = next((pattern for pattern in self.patterns if _matches(pattern, tool)), None)
        if named is not None:
            return texts.questions.asked_for_tool(named)
        return texts.questions.EVERY_CALL if self.every_tool else ""


class AskingTools(Struct, frozen=True):
    """A toolbox whose tools ask as the rules say."""

    box: Toolbox
    rules: AskRules

    async def tools(self) -> Sequence[Tool]:
        return [_asking(tool, self.rules.reason(tool)) for tool in await self.box.tools()]


def _asking(tool: Tool, reason: str) -> Tool:
    """The tool with a guard that gives the reason of its own guard, if that has one, and otherwise this one."""
    own = tool.guard
    if not reason:
        return tool

    def guard(arguments: Mapping[str, Any], session_key: str) -> str:
        return (own(arguments, session_key) if own is not None else "") or reason

    return replace(tool, guard=guard)


def _matches(pattern: str, tool: Tool) -> bool:
    if pattern.startswith(SERVER_PREFIX):
        return bool(tool.server) and fnmatchcase(tool.server, pattern.removeprefix(SERVER_PREFIX))
    return fnmatchcase(tool.name, pattern)


def refuse_unknown_tools(patterns: Iterable[str], tools: Iterable[Tool], servers: Collection[str]) -> None:
    """Raise `ConfigurationError` for a pattern that names nothing: a misspelt tool would never ask.

    What MCP servers offer is not known yet; so a name that one of them could have is accepted.
    """
    known = [*tools]
    for pattern in patterns:
        name = pattern.removeprefix(SERVER_PREFIX)
        if name != pattern:
            found = any(fnmatchcase(server, name) for server in servers)
        else:
            found = any(_matches(pattern, tool) for tool in known) or any(
                pattern.startswith((f"{server}_", "*", "?", "[")) for server in servers
            )
        if not found:
            names = sorted([*(tool.name for tool in known), *(f"{SERVER_PREFIX}{server}" for server in servers)])
            raise ConfigurationError(
                f"tools.ask names {pattern!r}, and there is no such tool", hint=f"There are: {', '.join(names)}."
            )

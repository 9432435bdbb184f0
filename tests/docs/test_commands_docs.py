"""The page on commands: its table is the registry's, and so are `/help` and the menus of platforms.

Drives `runtime/commands/registry`.
"""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

import pytest

from perdure.core.roles import RIGHTS_BY_ROLE
from perdure.runtime.commands.spec import CommandSpec
from perdure.testing import SimulatedPlatform
from support.inprocess import serving
from support.markdown import page
from support.waiting import eventually

PAGE = page("docs/commands.md")


@pytest.fixture
def asked(tmp_path: Path) -> tuple[SimulatedPlatform, list[CommandSpec]]:
    """A platform on which somebody has asked for help, and the commands of the gateway that answered."""
    return asyncio.run(_asked_for_help(tmp_path))


@pytest.fixture
def registry(asked: tuple[SimulatedPlatform, list[CommandSpec]]) -> list[CommandSpec]:
    return asked[1]


@pytest.fixture
def platform(asked: tuple[SimulatedPlatform, list[CommandSpec]]) -> SimulatedPlatform:
    return asked[0]


async def _asked_for_help(home: Path) -> tuple[SimulatedPlatform, list[CommandSpec]]:
    platform = SimulatedPlatform()
    async with serving(home, platform) as gateway:
        platform.write("/help")
        await eventually("it is answered", platform.replies)
        await eventually("the menu is published", lambda: platform.menus)
        return platform, list(gateway.loops.commands.registry.values())


def table(registry: list[CommandSpec]) -> str:
    lines = ["| command | what it does | who may |", "|---|---|---|"]
    for command in registry:
        usage = command.usage.replace("|", "\\|")
        lines.append(f"| `{usage}` | {command.summary} | {who_may(command)} |")
    return "\n".join(lines)


def who_may(command: CommandSpec) -> str:
    roles = [role for role, rights in RIGHTS_BY_ROLE.items() if command.right in rights]
    return "everybody" if len(roles) == len(RIGHTS_BY_ROLE) else ", ".join(f"{role}s" for role in roles)


def test_b81_page_has_the_table_of_the_registry(registry: list[CommandSpec]) -> None:
    fresh = PAGE.rendered("commands", table(registry))
    if os.environ.get("PERDURE_WRITE_DOCS"):
        PAGE.path.write_text(fresh)
    assert PAGE.text == fresh, "docs/commands.md is out of date; CONTRIBUTING.md says how to write it anew"


def test_b81_help_and_menus_are_made_of_the_registry(
    platform: SimulatedPlatform, registry: list[CommandSpec]
) -> None:
    known = [(command.usage, command.summary) for command in registry]
    assert [tuple(re.split(r"  +", line, maxsplit=1)) for line in platform.replies()[0].splitlines()] == known
    [menu] = platform.menus
    assert [(entry.usage, entry.summary) for entry in menu] == known
    assert [entry.name for entry in menu] == [command.name for command in registry]


def test_every_command_that_the_pages_name_is_there(registry: list[CommandSpec]) -> None:
    named = {found[1] for code in PAGE.code() if (found := re.match(r"/([a-z]+)\b(?!/)", code))}
    assert named <= {command.name for command in registry}

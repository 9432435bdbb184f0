"""B65: what an earlier version has begun, this one carries on; each version has left a home for that.

Drives `store/migrate` and `runtime/recovery`.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from perdure.platforms.api import Capabilities
from perdure.store.ids import wall_clock
from perdure.testing import SettableClock, SimulatedPlatform
from perdure.version import __version__
from support.crash_sweep import all_turn_views, check_turn, open_rows
from support.inprocess import crashing_at_the_end, serving
from support.keepers import end_all_commands
from support.waiting import eventually
from upgrade.chat_scripts import STATES, ChatScript
from upgrade.manifest import Manifest, counted, read, unpack, versions

pytestmark = pytest.mark.anyio

MINUTES = 600  # between the kill and the upgrade


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    for _ in end_all_commands(tmp_path / "home" / "keepers"):
        yield tmp_path / "home"


class Upgrade:
    """The platforms as the new version finds them, at a time not long after the kill."""

    def __init__(self, home: Path, manifest: Manifest) -> None:
        self.home = home
        self.manifest = manifest
        self._clock = SettableClock()
        self._clock.move((manifest.made_at - wall_clock()) / 1000)
        can_tell = {script.platform: script.platform != "lossy" for script in manifest.scripts}
        self._platforms = {
            name: SimulatedPlatform(name, capabilities=Capabilities(idempotent_send=tells, keeps_missed=True))
            for name, tells in can_tell.items()
        }

    @property
    def gateway(self) -> dict[str, Any]:
        self._clock.move(MINUTES)  # a few starts are no crash loop
        return {"clock": self._clock, "PLATFORMS__WEB__ALLOW": "ann"}

    @property
    def platforms(self) -> list[SimulatedPlatform]:
        return list(self._platforms.values())

    def reply_to_all(self) -> None:
        for script in self.manifest.scripts:
            for text in script.then:
                self._platforms[script.platform].write(text, chat=script.chat, sender=script.sender)

    async def is_carried_on(self, script: ChatScript, sees: tuple[str, ...]) -> None:
        platform = self._platforms[script.platform]
        fact = f"chat {script.chat} of {script.platform} sees {sees}"
        await eventually(fact, lambda: len(platform.replies(script.chat)) >= len(sees))
        seen = platform.replies(script.chat)
        assert len(seen) == len(sees), f"{fact}, and not {seen}"
        assert all(words in text for words, text in zip(sees, seen, strict=True)), f"{fact}, and not {seen}"

    def sees_by_itself(self, script: ChatScript) -> tuple[str, ...]:
        return () if script.then else script.sees


def test_every_released_version_has_left_a_home() -> None:
    """It is made before the release: see CONTRIBUTING.md."""
    changelog = (Path(__file__).parents[2] / "CHANGELOG.md").read_text()
    assert re.findall(r"^## (\S+) \(\d{4}-", changelog, re.MULTILINE) == versions()[::-1]
    assert __version__ in versions() or __version__.endswith(".dev0")


@pytest.mark.parametrize("version", versions())
def test_database_has_what_its_manifest_says(version: str, tmp_path: Path) -> None:
    with closing(sqlite3.connect(unpack(version, tmp_path / "home"))) as database:
        found = {table: counted(database, table) for table in STATES}
    assert found == read(version).found


@pytest.mark.parametrize("version", versions())
async def test_b65_everything_is_carried_on_as_promised(version: str, home: Path) -> None:
    manifest = read(version)
    unpack(version, home)
    upgrade = Upgrade(home, manifest)
    async with serving(home, *upgrade.platforms, **upgrade.gateway) as gateway:
        for script in manifest.scripts:
            await upgrade.is_carried_on(script, upgrade.sees_by_itself(script))
        upgrade.reply_to_all()
        for script in manifest.scripts:
            await upgrade.is_carried_on(script, script.sees)
        await eventually("nothing is left to do", lambda: _is_done(gateway.store))
        for view in await all_turn_views(gateway.store):
            check_turn(view)
        rows = await gateway.store.database.read(lambda tx: tx.all("SELECT state FROM goals"))
    assert rows == [("reached",)]


@pytest.mark.parametrize("version", versions())
async def test_b65_nothing_is_said_twice_when_the_new_version_is_killed_as_well(version: str, home: Path) -> None:
    """Once it has been migrated and taken over; and again when it has answered."""
    manifest = read(version)
    unpack(version, home)
    upgrade = Upgrade(home, manifest)
    for _ in range(2):
        async with crashing_at_the_end(home, *upgrade.platforms, **upgrade.gateway):
            await eventually("somebody is answered", lambda: upgrade.platforms[0].posted)
    async with serving(home, *upgrade.platforms, **upgrade.gateway):
        for script in manifest.scripts:
            await upgrade.is_carried_on(script, upgrade.sees_by_itself(script))


async def _is_done(store: Any) -> bool:
    return not await open_rows(store)

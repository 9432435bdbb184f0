"""The sweep over an erasing: crashed at any store call, before or after it, nothing of the session is left."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.core.journal import TurnView
from perdure.errors import NotFound, Unavailable
from perdure.runtime.gateway import Gateway
from perdure.store.api import Store
from perdure.testing import Crash
from support.keeping import end_all
from support.sweeping import World, sweep

WORDS = "marzipan"
POINTS = 60  # with fewer, the sweep no longer reaches what it did when it was written


class Erase(World):
    """A session with a command; an operator who asks for its end until it is gone."""

    writes = (f"run: echo {WORDS}\nsay: {WORDS}",)
    sees = (WORDS,)
    turns = 0

    async def _settled(self, gateway: Gateway) -> bool:
        if not await super()._settled(gateway):
            return False
        try:
            store = Store(gateway.store.database.beneath)  # type: ignore[attr-defined]
            found = await store.sessions.page()
            for session in found:
                await gateway.operators.erase(session.id)
        except (Crash, Unavailable, NotFound):
            return False  # it has just crashed, or the gateway was faster
        return not found and not self.places()

    def places(self) -> list[Path]:
        root = self.home / "keepers"
        return [path for path in root.iterdir() if path.is_dir()] if root.exists() else []

    def check(self, views: list[TurnView]) -> None:
        assert self.places() == []
        files = (path for path in self.home.rglob("*") if path.is_file())
        assert [path for path in files if WORDS.encode() in path.read_bytes()] == []


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in which no command runs any more after the test."""
    yield from end_all(tmp_path)


def test_b104_nothing_is_left_when_killed_at_any_store_call(folder: Path) -> None:
    points = asyncio.run(sweep(lambda name: Erase(folder / name)))
    print(f"sweep Erase: {points} points")
    assert points >= POINTS

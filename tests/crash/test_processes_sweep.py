"""The sweep over a process in the background: crash at every store call until its end is told."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from crash.test_sweep import Scenario, World, open_work, sweep
from perdure.config import load
from perdure.errors import Unavailable
from perdure.runtime.gateway import Gateway
from perdure.store.api import Store
from support.keeping import end_all
from support.waiting import eventually


class ProcessWorld(World):
    """A process leaves a line in a file and ends; then people see one more message, or none if that was seen."""

    def __init__(self, home: Path, script: str, told: int) -> None:
        self.trace = home.with_name(f"{home.name}.trace")
        super().__init__(home, Scenario("process", (("1", script.replace("TRACE", str(self.trace))),), {}))
        self.told = told

    async def settled(self, gateway: Gateway) -> bool:
        if gateway.phase != "ready" or self.platform.pending() or len(self.platform.replies()) < 1 + self.told:
            return False
        try:
            store = Store(gateway.store.database.beneath)  # type: ignore[attr-defined]
            waiting = await store.database.read(lambda tx: tx.all("SELECT 1 FROM inbox WHERE state = 'waiting'"))
            return not (waiting or await open_work(store) or await store.processes.live())
        except Unavailable:
            return False  # it has just crashed

    async def check(self) -> None:
        texts = self.platform.replies()
        assert texts[0] == "begun"
        assert len(texts) == 1 + self.told, texts
        assert all("ended with exit code 0" in text for text in texts[1:])
        assert self.trace.read_text() == "ran\n", "the process was started twice"
        gateway = Gateway(load(self.home, {}), adapters=[], clock=self.clock)
        running = asyncio.create_task(gateway.run())
        await eventually("the store is open", lambda: gateway.phase == "ready")
        [process] = await gateway.store.processes.page()
        assert process.told == ("report" if self.told else "seen")
        [session] = await gateway.store.sessions.page()
        assert len(await gateway.store.turns.of_session(session.id)) == 1 + self.told, "a phantom turn"
        gateway.stop()
        await running


@pytest.mark.parametrize(
    ("script", "told"),
    [
        pytest.param("background: echo ran >> TRACE\nsay: begun", 1, id="told"),
        pytest.param("background: echo ran >> TRACE\nprocess: wait\nsay: begun", 0, id="seen"),
    ],
)
def test_process_runs_once_and_is_told_once_when_killed_at_any_store_call(
    script: str, told: int, tmp_path: Path
) -> None:
    """B90, B91, B92, B96: every point."""
    points = asyncio.run(sweep(lambda name: ProcessWorld(tmp_path / name, script, told)))
    for home in tmp_path.iterdir():
        list(end_all(home / "keepers"))
    print(f"sweep of a process: {points} points")
    assert points >= 20, "the sweep lost points: it no longer reaches what it did"

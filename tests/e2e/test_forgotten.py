"""What a turn leaves behind when something else ends it: its commands are stopped at once, not at the next look.

Nobody looks by itself within the time that these tests wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.core.recovery import Rule
from perdure.runtime.keepers import LOOK
from perdure.testing import SettableClock, SimulatedPlatform
from support.background import runs, sees, the_process
from support.inprocess import crashing_at_the_end, serving
from support.keeping import end_all
from support.recovering import decided, key_of
from support.shelling import HELD, Commands, cleared_home, is_gone
from support.waiting import eventually

pytestmark = pytest.mark.anyio

HOUR = 3600
WAITS = 30.0  # seconds, as `eventually` does


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield from cleared_home(tmp_path)


@pytest.mark.parametrize("settings", [{}, {"SESSION__IDLE": "2h"}], ids=["superseded", "reset"])
async def test_b68_command_is_stopped_at_once_when_its_turn_is(home: Path, settings: dict[str, str]) -> None:
    assert LOOK > WAITS
    platform, clock, commands = SimulatedPlatform("web"), SettableClock(), Commands(home)
    async with crashing_at_the_end(home, platform, clock=clock):
        platform.write(f"run: {HELD}")
        await eventually("the command talks", commands.talks)
    command = commands.talking()
    async with serving(home, platform, clock=clock, RECOVERY__MAX_TOKENS="1", **settings) as gateway:
        await decided(gateway.store, key_of(platform), Rule.TOKENS)
        clock.move(3 * HOUR)
        assert not is_gone(command), "its turn may still be resumed"
        platform.write("say: something else")
        await eventually("it is answered", lambda: platform.replies()[-1:] == ["something else"])
        await eventually("the command is gone", lambda: is_gone(command), WAITS)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    yield from end_all(tmp_path / "elsewhere")


async def test_process_of_an_installation_that_never_returns_is_told_as_lost_once(
    tmp_path: Path, elsewhere: Path, postgres_url: str
) -> None:
    platform, here, gone = SimulatedPlatform(), tmp_path / "here", tmp_path / "gone"
    async with crashing_at_the_end(gone, platform, STORE__URL=postgres_url) as gateway:
        platform.write("background: sleep 600\nsay: begun")
        await sees(platform, "begun")
        process = await the_process(gateway)
        await runs(gone, process)
    (gone / "keepers").rename(elsewhere)
    async with serving(here, platform, STORE__URL=postgres_url) as gateway:
        assert (await the_process(gateway)).state == "live"
        age = "UPDATE runs SET ended_at = 1, ending = 'lost', heartbeat_at = 1 WHERE instance LIKE :home"
        await gateway.store.database.write(lambda tx: tx.run(age, home="%/gone"))
        gateway.loops.background.begun(process.id)  # it looks around
        [_, told] = await sees(platform, "begun", "has not been heard of for a day")
        assert "outcome of the background process" in told
        assert (await the_process(gateway, "lost")).told == "report"
        gateway.loops.background.begun(process.id)
    async with serving(here, platform, STORE__URL=postgres_url):
        await sees(platform, "begun", "has not been heard of for a day")


async def test_b91_process_whose_files_are_gone_is_told_as_lost_once(home: Path, elsewhere: Path) -> None:
    """As after a restore of the database alone."""
    platform = SimulatedPlatform()
    async with crashing_at_the_end(home, platform) as gateway:
        platform.write("background: sleep 600\nsay: begun")
        await sees(platform, "begun")
        await runs(home, await the_process(gateway))
    (home / "keepers").rename(elsewhere)
    async with serving(home, platform) as gateway:
        await sees(platform, "begun", "Its files are gone")
        assert (await the_process(gateway, "lost")).told == "report"
    async with serving(home, platform):
        await sees(platform, "begun", "Its files are gone")

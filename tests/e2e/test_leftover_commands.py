"""What a turn leaves behind when something else ends it: its commands are stopped at once, not at the next look.

Drives `runtime/command_cleanup`.

Nobody looks by itself within the time that these tests wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.core.recovery.decision import RecoveryRule
from perdure.runtime.command_cleanup import CHECK_SECONDS
from perdure.testing import SettableClock, SimulatedPlatform
from support.background_processes import wait_for_process, wait_for_replies, wait_until_running
from support.inprocess import crashing_at_the_end, serving
from support.keepers import end_all_commands
from support.recovery import key_of, wait_for_rule
from support.shell_commands import HELD_COMMAND, ShellCommands, home_without_commands, is_gone
from support.waiting import eventually

pytestmark = pytest.mark.anyio

HOUR = 3600
WAITS = 30.0  # seconds, as `eventually` does


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield from home_without_commands(tmp_path)


@pytest.mark.parametrize("settings", [{}, {"SESSION__IDLE": "2h"}], ids=["superseded", "reset"])
async def test_b68_command_is_stopped_at_once_when_its_turn_is(home: Path, settings: dict[str, str]) -> None:
    assert CHECK_SECONDS > WAITS
    platform, clock, commands = SimulatedPlatform("web"), SettableClock(), ShellCommands(home)
    async with crashing_at_the_end(home, platform, clock=clock):
        platform.write(f"run: {HELD_COMMAND}")
        await eventually("the command talks", commands.has_output)
    command = commands.wait_for_output()
    async with serving(home, platform, clock=clock, RECOVERY__MAX_TOKENS="1", **settings) as gateway:
        await wait_for_rule(gateway.store, key_of(platform), RecoveryRule.TOKENS)
        clock.move(3 * HOUR)
        assert not is_gone(command), "its turn may still be resumed"
        platform.write("say: something else")
        await eventually("it is answered", lambda: platform.replies()[-1:] == ["something else"])
        await eventually("the command is gone", lambda: is_gone(command), WAITS)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    yield from end_all_commands(tmp_path / "elsewhere")


async def test_process_of_an_installation_that_never_returns_is_told_as_lost_once(
    tmp_path: Path, elsewhere: Path, postgres_url: str
) -> None:
    platform, here, gone = SimulatedPlatform(), tmp_path / "here", tmp_path / "gone"
    async with crashing_at_the_end(gone, platform, STORE__URL=postgres_url) as gateway:
        platform.write("background: sleep 600\nsay: begun")
        await wait_for_replies(platform, "begun")
        process = await wait_for_process(gateway)
        await wait_until_running(gone, process)
    (gone / "keepers").rename(elsewhere)
    async with serving(here, platform, STORE__URL=postgres_url) as gateway:
        assert (await wait_for_process(gateway)).state == "live"
        age = "UPDATE runs SET ended_at = 1, ending = 'lost', heartbeat_at = 1 WHERE home LIKE :home"
        await gateway.store.database.write(lambda tx: tx.run(age, home="%/gone"))
        gateway.loops.process_watcher.watch_started(process.id)  # it looks around
        [_, told] = await wait_for_replies(platform, "begun", "has not been heard of for a day")
        assert "outcome of the background process" in told
        assert (await wait_for_process(gateway, "lost")).told == "report"
        gateway.loops.process_watcher.watch_started(process.id)
    async with serving(here, platform, STORE__URL=postgres_url):
        await wait_for_replies(platform, "begun", "has not been heard of for a day")


async def test_b91_process_whose_files_are_gone_is_told_as_lost_once(home: Path, elsewhere: Path) -> None:
    """As after a restore of the database alone."""
    platform = SimulatedPlatform()
    async with crashing_at_the_end(home, platform) as gateway:
        platform.write("background: sleep 600\nsay: begun")
        await wait_for_replies(platform, "begun")
        await wait_until_running(home, await wait_for_process(gateway))
    (home / "keepers").rename(elsewhere)
    async with serving(home, platform) as gateway:
        await wait_for_replies(platform, "begun", "Its files are gone")
        assert (await wait_for_process(gateway, "lost")).told == "report"
    async with serving(home, platform):
        await wait_for_replies(platform, "begun", "Its files are gone")

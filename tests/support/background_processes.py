"""Processes in the background, for tests through a gateway: real ones, that say and end what a test wants."""

from __future__ import annotations

from pathlib import Path

from perdure.core.journal import TurnView
from perdure.runtime.gateway import Gateway
from perdure.store.processes import Process
from perdure.testing import SimulatedPlatform
from perdure.tools import keeper
from support.recovery import key_of, turn_views
from support.waiting import eventually


class Switch:
    """A file that a process waits for, or repeats what is in it."""

    def __init__(self, folder: Path, name: str = "switch") -> None:
        self.path = folder / name

    @property
    def wait(self) -> str:
        """A command that waits until the switch is thrown."""
        return f"until [ -e {self.path} ]; do sleep 0.02; done"

    @property
    def repeat(self) -> str:
        """A command that says whatever is written, for ever."""
        return f"touch {self.path}; exec tail -n +1 -f {self.path}"

    def throw(self) -> None:
        self.path.touch()

    def write(self, *lines: str) -> None:
        with self.path.open("a") as file:
            file.writelines(f"{line}\n" for line in lines)


async def wait_for_process(gateway: Gateway, state: str = "live") -> Process:
    """The newest process, once it is in that state."""

    async def found() -> Process | None:
        known = await gateway.store.processes.page()
        return known[-1] if known and known[-1].state == state else None

    return await eventually(f"the process is {state}", found)


def keeper_directory(home: Path, process: Process) -> Path:
    return home / "keepers" / process.directory


async def wait_until_running(home: Path, process: Process) -> keeper.CommandRunning:
    """How it is doing, once it runs."""
    place = keeper_directory(home, process)

    def found() -> keeper.CommandRunning | None:
        seen = keeper.read_status(place)
        return seen if isinstance(seen, keeper.CommandRunning) and seen.pid else None

    return await eventually("the process runs", found)


async def wait_for_matches(gateway: Gateway, matches: int) -> None:
    """Wait until so many matches of the newest process wait for its next notice."""

    async def counted() -> bool:
        return (await gateway.store.processes.page())[-1].unnoticed == matches

    await eventually(f"{matches} matches are counted", counted)


async def wait_for_stored_match(gateway: Gateway) -> None:
    """Wait until a match is kept for the next turn."""
    sql = "SELECT 1 FROM inbox WHERE kind = 'aside' AND state = 'waiting'"
    await eventually("the match is kept", lambda: gateway.store.database.read(lambda tx: tx.all(sql)))


async def chat_turns(gateway: Gateway, platform: SimulatedPlatform, chat: str = "1") -> list[TurnView]:
    return await turn_views(gateway.store, key_of(platform, chat))


async def wait_for_replies(platform: SimulatedPlatform, *parts: str, chat: str = "1") -> list[str]:
    """Wait until a chat sees as many messages of ours, each with its part of the text, and return them."""

    def found() -> list[str] | None:
        texts = platform.replies(chat)
        fits = len(texts) == len(parts) and all(part in text for part, text in zip(parts, texts, strict=True))
        return texts if fits else None

    return await eventually(f"chat {chat} sees {parts}, not {platform.replies(chat)}", found)


async def wait_until_quiet(gateway: Gateway) -> None:
    """Wait until nothing runs, waits or is owed."""

    async def quiet() -> bool:
        store = gateway.store
        waiting = await store.database.read(
            lambda tx: tx.all("SELECT 1 FROM inbox WHERE state = 'waiting' AND kind <> 'aside'")
        )
        begun = await store.database.read(
            lambda tx: tx.all("SELECT 1 FROM turns WHERE state IN ('queued', 'running')")
        )
        return not (waiting or begun or await store.outbox.open_deliveries())

    await eventually("nothing is left to do", quiet)

"""A platform of your own: a folder in which people leave letters, and find the answers.

Ann writes `letters/ann/in/1.txt`, and reads what appears in `letters/ann/out`. In the pyproject.toml of a package:

    [project.entry-points."perdure.platforms"]
    letters = "own_platform:Letters"

Install it beside Perdure, and write into config.toml:

    [platforms.letters]
    folder = "letters"
    allow = ["ann"]
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from pathlib import Path

from perdure.core.address import Address
from perdure.core.messages import Inbound, Outbound, Receipt, Sender, Stored
from perdure.errors import NotConnected
from perdure.platforms import Adapter, Capabilities, Event


class Letters(Adapter):
    """One folder. Its own settings are the arguments below: their names, types and defaults."""

    name = "letters"
    capabilities = Capabilities(
        keeps_missed=True,  # a letter lies there until we take it away
        idempotent_send=True,  # the same answer twice is one file
    )

    def __init__(self, folder: Path, look_every: float = 0.2) -> None:
        self._folder = folder
        self._look_every = look_every

    async def open(self) -> None:
        if not await asyncio.to_thread(self._folder.is_dir):
            raise NotConnected(f"there is no folder {self._folder}")

    async def receive(self) -> AsyncGenerator[Event]:
        handed: set[Path] = set()
        while True:
            for letter in await asyncio.to_thread(self._letters):
                if letter not in handed:
                    handed.add(letter)
                    yield await asyncio.to_thread(self._event, letter)
            await asyncio.sleep(self._look_every)

    def _letters(self) -> list[Path]:
        """The letters that lie there, the oldest first."""
        if not self._folder.is_dir():
            raise NotConnected(f"there is no folder {self._folder} any more")
        try:
            found = self._folder.glob("*/in/*.txt")
            return sorted(found, key=lambda letter: (letter.stat().st_mtime_ns, letter.name))
        except FileNotFoundError:
            return []  # something was taken away while we looked: we look again soon

    def _event(self, letter: Path) -> Event:
        """What is in a letter; the same letter always has the same key."""
        person = letter.parts[-3]
        try:
            raw = letter.read_bytes()
        except FileNotFoundError as error:
            raise NotConnected("a letter was taken away before it was read") from error

        async def ack(_: Stored | None) -> None:  # it is stored: only now is the letter taken away
            await asyncio.to_thread(letter.unlink, missing_ok=True)

        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            key = f"letters:{person}:{letter.name}"
            return Event(raw.decode(errors="replace"), key, problem=f"not UTF-8: {error}", ack=ack)
        said = Inbound(Address(self.name, "dm", person), letter.name, Sender(person), text)
        return Event(text, said.event_key, said, ack=ack)

    async def send(self, outbound: Outbound) -> Receipt:
        return await asyncio.to_thread(self._put, outbound)

    def _put(self, outbound: Outbound) -> Receipt:
        """Put an answer there whole or not at all; one that is there already is not put there again."""
        out = self._folder / outbound.address.chat / "out"
        try:
            out.mkdir(exist_ok=True)
            there = sorted(each.name for each in out.glob("*.txt"))
            known = [name for name in there if name.endswith(f" {outbound.key}.txt")]
            name = known[0] if known else f"{len(there) + 1:06} {outbound.key}.txt"
            if not known:
                _write(out / name, outbound.text)
        except FileNotFoundError as error:
            raise NotConnected(f"nobody of that name has a folder in {self._folder}") from error
        return Receipt(name)


def _write(path: Path, text: str) -> None:
    draft = path.with_suffix(".draft")
    with draft.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)

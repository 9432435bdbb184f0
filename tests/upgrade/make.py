"""Writes the home that later versions must carry on: `PYTHONPATH=tests .venv/bin/python -m upgrade.make`.

Two gateways of this version serve the chats, each a process of its own, and are killed in the middle. The
home is stored with a manifest of its content, under the number of this version. Once a version is released, its
files are never written again.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
from contextlib import closing
from pathlib import Path

import msgspec

from perdure.platforms.api import Capabilities
from perdure.runtime.gateway import Gateway
from perdure.store.database import Database
from perdure.store.ids import wall_clock
from perdure.testing import CrashingDatabase, SimulatedPlatform
from perdure.version import __version__
from support.inprocess import serving
from support.keepers import end_all_commands
from support.pairing import PAIRING_NOTICE, change_people
from support.recovery import key_of
from support.shutdown import FactCrashingDatabase, HangingPlatform
from support.waiting import eventually
from upgrade.chat_scripts import ALL, BEFORE, LAST, SCRIPTS, STATES, WORK, ChatScript
from upgrade.manifest import FOLDER, Manifest, counted

# The states of a message.
SENDING = "SELECT 1 FROM outbox WHERE key = :key AND state IN ('sending', 'unknown')"
WAITING = "SELECT 1 FROM inbox WHERE key = :key AND state = 'waiting'"
WORKING = (
    "SELECT 1 FROM turns t JOIN journal j ON j.turn = t.id "
    "WHERE t.key = :key AND t.state = 'running' AND j.kind = 'tool_started'"
)
ANSWERED = (
    "SELECT 1 WHERE EXISTS (SELECT 1 FROM outbox WHERE key = :key) "
    "AND NOT EXISTS (SELECT 1 FROM outbox WHERE key = :key AND state <> 'sent') "
    f"AND NOT EXISTS ({WAITING})"
)
OWED = "SELECT 1 FROM outbox WHERE key = :key AND state = 'owed'"

CAN_TELL = Capabilities(idempotent_send=True, keeps_missed=True)
CANNOT_TELL = Capabilities(keeps_missed=True)
MANY = 1 << 30


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class RequeueKillingDatabase(FactCrashingDatabase):
    """Kills the process of the gateway as soon as a turn is requeued."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, "SELECT 1 FROM turns WHERE state = 'queued'")

    def _die(self) -> None:
        die()


RECOVERY = {"first": "auto", "second": "off"}
DATABASES = {"first": CrashingDatabase, "second": RequeueKillingDatabase}


class Play:
    """The people of the chats, in one run of a gateway."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._stuck = HangingPlatform("stuck", capabilities=CAN_TELL)
        self._stuck.hold = "before"
        self._lossy = SimulatedPlatform("lossy", capabilities=CANNOT_TELL)
        self._lossy.lose_answers = MANY
        self._platforms = {
            "web": SimulatedPlatform("web", capabilities=CAN_TELL),
            "down": SimulatedPlatform("down", capabilities=CAN_TELL),
            "stuck": self._stuck,
            "lossy": self._lossy,
        }
        self._gateway: Gateway

    async def act(self, act: str) -> None:
        """Run an act until this process is killed."""
        settings = {"PLATFORMS__WEB__ALLOW": "ann", "PLATFORMS__WEB__RECOVERY": RECOVERY[act]}
        platforms, wrap = self._platforms.values(), DATABASES[act]
        async with serving(self._home, *platforms, wrap=wrap, **settings) as self._gateway:
            if act == "first":
                await self._all(BEFORE)
                die()
            await self._let_in("eve")
            await self._all((*SCRIPTS, LAST))
            await self._set_aside("aside")
            await self._replies_are_open()
            self._platforms["web"].write("/approve", chat=LAST.chat)
            await asyncio.Event().wait()

    async def _all(self, scripts: tuple[ChatScript, ...]) -> None:
        for script in scripts:
            platform = self._platforms[script.platform]
            if script.platform == "down":
                await self._unsent(platform, script)
                continue
            for place, text in enumerate(script.writes):
                platform.write(text, chat=script.chat, sender=script.sender)
                await self._heard(platform, script, text, place)

    async def _heard(self, platform: SimulatedPlatform, script: ChatScript, text: str, place: int) -> None:
        """Wait until a message is answered, is in progress, or waits behind one that is."""
        await eventually("it is acknowledged", lambda: not platform.pending())
        busy = any(WORK in before for before in script.writes[:place])
        if platform.name != "web":
            fact = SENDING
        elif WORK in text:
            fact = WORKING
        else:
            fact = WAITING if busy and not text.startswith("/") else ANSWERED
        await self._comes_true(fact, key_of(platform, script.chat))

    async def _comes_true(self, fact: str, key: str = "") -> None:
        database = self._gateway.store.database
        await eventually(f"{key}: {fact}", lambda: database.read(lambda tx: tx.one(fact, key=key)))

    async def _unsent(self, platform: SimulatedPlatform, script: ChatScript) -> None:
        """Let the platform go down before the answer."""
        platform.write(script.writes[0], chat=script.chat)
        platform.reachable = False
        await self._comes_true(OWED, key_of(platform, script.chat))
        platform.disconnect()

    async def _let_in(self, person: str) -> None:
        platform = self._platforms["web"]
        platform.write("may I come in?", chat=person, sender=person)
        [told] = await eventually("a code is told", lambda: platform.replies(person))
        code = PAIRING_NOTICE.fullmatch(told)
        assert code is not None, told
        await change_people(self._gateway, "pair", code=code[1])

    async def _set_aside(self, chat: str) -> None:
        session = await self._gateway.store.sessions.current(key_of(self._platforms["web"], chat))
        assert session is not None
        assert await self._gateway.operator_verbs.suspend(session)

    async def _replies_are_open(self) -> None:
        for state in ("owed", "sending", "unknown"):
            await self._comes_true(f"SELECT 1 FROM outbox WHERE state = '{state}'")


def play(home: Path, act: str) -> None:
    """Run one act in a process of its own, and check that it was killed."""
    env = {
        "PATH": os.defpath,
        "HOME": "/root",
        "PYTHONPATH": str(FOLDER.parents[1]),
    }  # without the variables of this machine
    done = subprocess.run([sys.executable, "-m", "upgrade.make", str(home), act], env=env, check=False)
    assert done.returncode == -signal.SIGKILL, f"the {act} act ended with {done.returncode}"


def put_away(home: Path, folder: Path) -> None:
    """Store the compacted database with the records of commands, and write the manifest."""
    with closing(sqlite3.connect(home / "perdure.db", isolation_level=None)) as there:
        there.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        there.execute("PRAGMA journal_mode = DELETE")
        there.execute("VACUUM")
        found = {table: counted(there, table) for table in STATES}
    for table, states in STATES.items():
        assert states <= found[table].keys(), f"no {states - found[table].keys()} in {table}: {found[table]}"
    manifest = Manifest(__version__, wall_clock(), found, ALL)
    folder.mkdir(parents=True)
    with tarfile.open(folder / "home.tar.xz", "w:xz", preset=9) as archive:
        for name in ("perdure.db", "keepers"):
            archive.add(home / name, name, filter=_plain)
    (folder / "manifest.json").write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n")


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Strip the owner of files and folders, and skip pipes."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member if member.isfile() or member.isdir() else None


def main() -> None:
    folder = FOLDER / __version__
    assert not folder.exists(), f"{folder} is there already, and what a version wrote is never written again"
    with tempfile.TemporaryDirectory(prefix="perdure-upgrade-") as name:
        home = Path(name) / "home"
        for _ in end_all_commands(home / "keepers"):
            play(home, "first")
            play(home, "second")
            put_away(home, folder)
    print(f"{folder} is {sum(file.stat().st_size for file in folder.iterdir()) // 1024} KiB")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(Play(Path(sys.argv[1])).act(sys.argv[2]))
    else:
        main()

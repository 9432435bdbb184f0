"""Faults that need a machine of one's own: slow and read-only disks, frozen gateways, silent networks.

Drives `store/backends` and `runtime/gateway_run`.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.gateway import COMMAND, GatewayProcess, Person, gateway
from support.postgres import PostgresServer
from support.waiting import wait_for

# ── disks ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_everything_is_answered_once_in_order_when_every_sync_is_slow(tmp_path: Path) -> None:
    process = GatewayProcess(tmp_path / "home")
    try:
        process.start("strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", "inject=fdatasync:delay_exit=150000")
        person = Person(process)
        for number in range(8):
            assert person.say(f"once s{number} 0s\nsay: {number}").status_code == 202
        assert person.wait_for_replies(8) == [str(number) for number in range(8)]
        assert (process.home / "rehearsal.log").read_text().count("\n") == 8
        assert process.stop() == 0
    finally:
        process.close()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["/bin/mount", "-t", "tmpfs", "-o", "size=30m", "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["/bin/umount", "-l", str(place)], check=True)


def remount(disk: Path, how: str) -> None:
    subprocess.run(["/bin/mount", "-o", f"remount,{how}", str(disk)], check=True)


def test_gateway_is_refused_with_a_sentence_when_its_disk_is_read_only(disk: Path) -> None:
    """And what was taken in before is answered when it can be written again."""
    process = GatewayProcess(disk / "home")
    process._log = disk.parent / "stderr"
    process.start()
    Person(process).say("step a 30s\nsay: done")
    wait_for("the step runs", lambda: (disk / "home" / "rehearsal.log").exists())
    process.kill()
    remount(disk, "ro")
    tried = subprocess.run(
        [*COMMAND, "run"], env=process.environment(), capture_output=True, text=True, check=False, timeout=60
    )
    assert tried.returncode not in (0, -signal.SIGKILL)
    assert "Traceback" not in tried.stderr
    assert "read-only" in tried.stderr.lower() or "readonly" in tried.stderr.lower()
    remount(disk, "rw")
    process.start()
    try:
        wait_for("the step runs again", lambda: (disk / "home" / "rehearsal.log").read_text().count("\n") == 2)
    finally:
        process.close()


# ── a gateway that stands still ─────────────────────────────────────────────────────────────────────────────


def test_gateway_that_stood_still_past_its_lease_does_nothing_when_it_wakes(
    tmp_path: Path, postgres_url: str
) -> None:
    """Another one has taken its turn over and answered; the sleeper writes, sends and repeats nothing."""
    first, second = tmp_path / "first", tmp_path / "second"
    with gateway(first, STORE__URL=postgres_url) as sleeper:
        Person(sleeper).say("step a 2s\nonce b 0s\nsay: done", "one")
        wait_for("the step runs", lambda: (first / "rehearsal.log").exists())
        sleeper.signal(signal.SIGSTOP)
        with gateway(second, STORE__URL=postgres_url) as other:
            person = Person(other)
            assert wait_for("the other has taken over", person.replies, 90) == ["done"]
            sleeper.signal(signal.SIGCONT)
            wait_for("it has noticed that it was declared dead", lambda: "run_replaced" in sleeper.log())
            assert person.replies() == ["done"]
            ran = [line.split()[0] for home in (first, second) for line in _trace(home)]
            assert ran.count("b") <= 1, "a `once` step ran twice"
            assert other.stop() == 0


def _trace(home: Path) -> list[str]:
    trace = home / "rehearsal.log"
    return trace.read_text().splitlines() if trace.exists() else []


# ── a network that falls silent ─────────────────────────────────────────────────────────────────────────────

# Opens the store from the far side of the line, writes all the time, and says how each write went.
FAR = """
import asyncio, json, sys
from pathlib import Path
from perdure.store.api import open_database

async def main(url, home):
    database = await open_database(url, home=Path(home))
    await database.write(lambda tx: tx.run("CREATE TABLE IF NOT EXISTS far (n INTEGER)"))
    for line in sys.stdin:
        try:
            await database.write(lambda tx: tx.run("INSERT INTO far VALUES (:n)", n=int(line)))
            rows = await database.read(lambda tx: tx.all("SELECT n FROM far ORDER BY n"))
            print(json.dumps([row[0] for row in rows]), flush=True)
        except Exception as error:
            print(json.dumps(str(error)), flush=True)

asyncio.run(main(*sys.argv[1:]))
"""
SPACE, NEAR, AWAY = "perdure-soak", "pdsoak0", "pdsoak1"


def ip(*words: str, check: bool = True) -> None:
    subprocess.run(["/usr/bin/env", "ip", *words], check=check, capture_output=not check)


@pytest.fixture
def line() -> Iterator[str]:
    """A network of two, of which we are one; the address of our end."""
    ip("netns", "del", SPACE, check=False)
    ip("netns", "add", SPACE)
    try:
        ip("link", "add", NEAR, "type", "veth", "peer", "name", AWAY, "netns", SPACE)
        ip("addr", "add", "10.213.97.1/30", "dev", NEAR)
        ip("link", "set", NEAR, "up")
        ip("-n", SPACE, "addr", "add", "10.213.97.2/30", "dev", AWAY)
        ip("-n", SPACE, "link", "set", AWAY, "up")
        yield "10.213.97.1"
    finally:
        ip("netns", "del", SPACE)


def test_write_is_done_once_when_the_line_to_the_server_was_silent_for_a_while(
    tmp_path: Path, line: str, postgres_server: PostgresServer, postgres_url: str
) -> None:
    """A half-open connection: nothing announces that it is dead, and data is on its way."""
    bridge = [sys.executable, "-c", BRIDGE, line, str(postgres_server.port)]
    with subprocess.Popen(bridge, stdout=subprocess.PIPE, text=True) as near:
        assert near.stdout is not None
        port = near.stdout.readline().strip()
        url = postgres_url.replace(f"127.0.0.1:{postgres_server.port}", f"{line}:{port}")
        assert url != postgres_url
        command = ["/usr/bin/env", "ip", "netns", "exec", SPACE, sys.executable, "-c", FAR, url, str(tmp_path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as far:
            assert _write(far, 1) == [1]
            ip("link", "set", NEAR, "down")
            said = _write(far, 2)
            assert isinstance(said, str), "nobody noticed that the line is dead"
            ip("link", "set", NEAR, "up")
            found = _write(far, 3)
            assert found in ([1, 3], [1, 2, 3]), "each is there once or was said not to be"
            far.kill()
        near.kill()


# Passes bytes between the line and the server, in a process of its own.
BRIDGE = """
import asyncio, sys

async def serve(reader, writer):
    there, back = await asyncio.open_connection("127.0.0.1", int(sys.argv[2]))
    await asyncio.gather(pump(reader, back), pump(there, writer), return_exceptions=True)

async def pump(source, sink):
    while data := await source.read(65536):
        sink.write(data)
        await sink.drain()
    sink.close()

async def main():
    server = await asyncio.start_server(serve, sys.argv[1], 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""


def _write(far: subprocess.Popen[str], number: int) -> list[int] | str:
    assert far.stdin is not None
    assert far.stdout is not None
    far.stdin.write(f"{number}\n")
    far.stdin.flush()
    said: list[int] | str = json.loads(far.stdout.readline())
    return said

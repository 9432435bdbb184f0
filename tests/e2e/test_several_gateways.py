"""Several gateways on one PostgreSQL: a stall of the database kills none of them, and a dead one is replaced.

Drives `runtime/heartbeat`, `runtime/run_observer`, `runtime/instance` and
`store/backends/postgres_side_connection`.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import signal
import stat
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import psycopg
import pytest

from perdure.runtime.gateway import Gateway
from perdure.testing import SettableClock, SimulatedPlatform
from perdure.testing.simulated_platform import SimulatedAdapter
from support.gateway import COMMAND, GatewayProcess, Person, gateway
from support.inprocess import serving
from support.postgres import PostgresServer
from support.recovery import AgentHarness
from support.store_gateway import DatabaseLocation, StoreConnection, StoreGateway
from support.waiting import eventually, wait_for

pytestmark = pytest.mark.anyio

Action = Callable[[PostgresServer], None]

CHATS = "123456"
LEASE = 1.5  # seconds, instead of 30
SILENCE = re.compile(r"no heartbeat was recorded for (\d+) s")


@asynccontextmanager
async def three_gateways(folder: Path, url: str, platform: SimulatedPlatform) -> AsyncIterator[list[Gateway]]:
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                serving(folder / name, platform, STORE__URL=url, STORE__LEASE=f"{LEASE}s")
            )
            for name in ("one", "two", "three")
        ]


class PostingAdapter(SimulatedAdapter):
    @property
    def receives_by_lease(self) -> bool:
        return False


class PostingPlatform(SimulatedPlatform):
    """A platform that posts its events to all gateways, so that receiving needs no lease."""

    def adapter(self) -> SimulatedAdapter:
        return PostingAdapter(self)


def silence(gateway: Gateway) -> int:
    """For how many seconds the gateway says that it could make no heartbeat."""
    return max((int(found[1]) for found in map(SILENCE.match, gateway.problems()) if found), default=0)


async def outlast_the_lease(gateways: list[Gateway]) -> None:
    await eventually(
        "every gateway was cut off for longer than its lease",
        lambda: all(silence(each) > 2 * LEASE for each in gateways),
    )


def query(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(statement.encode()).fetchall()


def steps_run(folder: Path) -> list[str]:
    """The steps that have begun in any of the gateways."""
    return [line for log in folder.glob("*/rehearsal.log") for line in log.read_text().splitlines()]


def write_to_all(platform: SimulatedPlatform, word: str) -> None:
    for chat in CHATS:
        platform.write(f"step {word}{chat} 0.2s\nsay: {word} {chat}", chat=chat)


async def all_are_answered_once(platform: SimulatedPlatform, *words: str) -> None:
    await eventually("all are answered", lambda: all(len(platform.replies(chat)) >= len(words) for chat in CHATS))
    for chat in CHATS:
        assert platform.replies(chat) == [f"{word} {chat}" for word in words]


async def nobody_was_killed(url: str, gateways: list[Gateway], runs: list[str]) -> None:
    assert [gateway.operator_verbs.run for gateway in gateways] == runs
    assert query(url, "SELECT id FROM runs WHERE ended_at IS NOT NULL") == []
    await eventually("every gateway is healthy", lambda: not any(gateway.problems() for gateway in gateways))


# ── a database that is away ─────────────────────────────────────────────────────────────────────────────────


OUTAGES: dict[str, tuple[Action, Action]] = {
    "stopped": (PostgresServer.stop, PostgresServer.start),
    "frozen": (PostgresServer.freeze, PostgresServer.thaw),
    "read-only": (lambda server: server.set_read_only(True), lambda server: server.set_read_only(False)),
}


@pytest.mark.parametrize("outage", OUTAGES)
async def test_b163_b164_all_gateways_live_on_when_the_database_was_away_for_longer_than_their_lease(
    tmp_path: Path, postgres_server: PostgresServer, postgres_url: str, outage: str
) -> None:
    begin, end = OUTAGES[outage]
    platform = SimulatedPlatform()
    async with three_gateways(tmp_path, postgres_url, platform) as gateways:
        runs = [gateway.operator_verbs.run for gateway in gateways]
        write_to_all(platform, "first")
        await eventually("work has begun", platform.replies)
        await asyncio.to_thread(begin, postgres_server)
        try:
            platform.write("say: meanwhile", chat="7")
            await outlast_the_lease(gateways)
        finally:
            await asyncio.to_thread(end, postgres_server)
        await all_are_answered_once(platform, "first")
        await eventually("what was written meanwhile is answered", lambda: platform.replies("7"))
        write_to_all(platform, "second")
        await all_are_answered_once(platform, "first", "second")
        assert platform.replies("7") == ["meanwhile"]
        await nobody_was_killed(postgres_url, gateways, runs)


@pytest.mark.parametrize("lock", ["SHARE", "ACCESS EXCLUSIVE"])
async def test_b163_all_gateways_live_on_when_a_lock_was_held_for_longer_than_their_lease(
    tmp_path: Path, postgres_url: str, lock: str
) -> None:
    """With the weaker lock everything but the heartbeat could go on: nothing begins at the end of the lease."""
    platform = PostingPlatform()
    async with three_gateways(tmp_path, postgres_url, platform) as gateways:
        runs = [gateway.operator_verbs.run for gateway in gateways]
        with psycopg.connect(postgres_url) as connection:
            await asyncio.to_thread(connection.execute, f"LOCK TABLE runs IN {lock} MODE".encode())
            await outlast_the_lease(gateways)
            write_to_all(platform, "late")
            if lock == "SHARE":
                claimed = "SELECT 1 FROM turns WHERE state = 'running'"
                await eventually("the turns are claimed", lambda: len(query(postgres_url, claimed)) == 6)
            assert platform.posted == []
            assert steps_run(tmp_path) == []
        await all_are_answered_once(platform, "late")
        await nobody_was_killed(postgres_url, gateways, runs)


# ── a gateway that is frozen or killed ──────────────────────────────────────────────────────────────────────


def shared(folder: Path, url: str, name: str) -> GatewayProcess:
    return GatewayProcess(folder / name, STORE__URL=url, STORE__LEASE=f"{LEASE}s")


def metric(process: GatewayProcess, name: str) -> float:
    headers = {"Authorization": f"Bearer {process.token}"}
    lines = httpx.get(f"{process.url}/metrics", headers=headers, timeout=30).text.splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(name))


def test_b163_gateway_that_was_frozen_past_its_lease_is_taken_over_once(tmp_path: Path, postgres_url: str) -> None:
    frozen, survivor = (shared(tmp_path, postgres_url, name) for name in ("frozen", "survivor"))
    try:
        frozen.start()
        person = Person(frozen)
        person.say("once first 1s\nsay: done", "first")
        wait_for("the step runs", lambda: (frozen.home / "rehearsal.log").exists())
        frozen.signal(signal.SIGSTOP)
        survivor.start()
        wait_for("it has watched for a lease", lambda: metric(survivor, "perdure_heartbeat_steady") == 1)
        replies = Person(survivor).wait_for_replies(1)
        frozen.signal(signal.SIGCONT)
        wait_for("it has begun a new run", lambda: frozen.log().count("run_began") == 2)
        assert "was declared dead" in frozen.log()
        assert Person(survivor).replies() == replies
        assert query(postgres_url, "SELECT count(*) FROM turns WHERE state = 'done'") == [(1,)]
        assert query(postgres_url, "SELECT count(*) FROM outbox WHERE state = 'sent'") == [(1,)]
        assert len(steps_run(tmp_path)) == 1
        assert survivor.stop() == 0
        assert Person(frozen).replies() == replies
        Person(frozen, "other").say("say: I am back")
        assert Person(frozen, "other").wait_for_replies(1) == ["I am back"]
        assert frozen.stop() == 0
    finally:
        frozen.close()
        survivor.close()


async def test_b163_nobody_is_declared_dead_by_clocks_that_are_minutes_apart(
    tmp_path: Path, postgres_url: str
) -> None:
    """Each looks at the other's count of heartbeats, by a clock that nobody sets."""
    platform = SimulatedPlatform()
    async with AsyncExitStack() as stack:
        gateways = []
        for minutes in (-1, 0, 1):
            clock = SettableClock()
            clock.move(60 * minutes)
            options = {"clock": clock, "STORE__URL": postgres_url, "STORE__LEASE": f"{LEASE}s"}
            home = tmp_path / f"clock {minutes}"
            gateways.append(await stack.enter_async_context(serving(home, platform, **options)))
        runs = [gateway.operator_verbs.run for gateway in gateways]
        await eventually(
            "all have watched each other for a lease",
            lambda: all(each.loops.heartbeat.is_steady for each in gateways),
        )
        write_to_all(platform, "first")
        await all_are_answered_once(platform, "first")
        await nobody_was_killed(postgres_url, gateways, runs)


async def test_b163_gateway_that_was_declared_dead_begins_a_new_run(tmp_path: Path, postgres_url: str) -> None:
    """And takes its own turn up again, if nobody else has."""
    platform, agent = SimulatedPlatform(), AgentHarness("cut")
    observer = await StoreGateway(DatabaseLocation(postgres_url, tmp_path), "observer").open()
    options = {"STORE__URL": postgres_url, "STORE__LEASE": f"{LEASE}s"}
    async with serving(tmp_path / "gateway", platform, agent=agent.agent, **options) as gateway:
        platform.write("step cut\nsay: done")
        await eventually("the step hangs", lambda: agent.hung_steps)
        before = StoreConnection(observer.place)
        before.run = gateway.operator_verbs.run
        await eventually("it is declared dead", lambda: observer.declares_dead(before))
        await eventually("it has a new run", lambda: gateway.operator_verbs.run != before.run)
        agent.release()
        await eventually("the turn is answered", lambda: platform.replies() == ["done"])
        platform.write("say: and on", chat="2")
        await eventually("others are answered", lambda: platform.replies("2") == ["and on"])
        assert platform.replies() == ["done"]
    await observer.stop()


def test_b163_readiness_says_that_no_heartbeat_can_be_made(tmp_path: Path, postgres_url: str) -> None:
    def reasons(process: GatewayProcess) -> list[str]:
        found: list[str] = httpx.get(f"{process.url}/readyz", timeout=30).json()["reasons"]
        return found

    with gateway(tmp_path / "home", STORE__URL=postgres_url, STORE__LEASE=f"{LEASE}s") as process:
        wait_for("it is steady", lambda: metric(process, "perdure_heartbeat_steady") == 1)
        with psycopg.connect(postgres_url) as connection:
            connection.execute("LOCK TABLE runs IN SHARE MODE")
            wait_for("it says so", lambda: any(map(SILENCE.match, reasons(process))))
            assert metric(process, "perdure_heartbeat_steady") == 0
        wait_for("it is ready again", lambda: not reasons(process))
        assert process.stop() == 0


# ── who is who ──────────────────────────────────────────────────────────────────────────────────────────────


def test_b168_copy_of_a_home_is_refused_while_the_first_one_lives(tmp_path: Path, postgres_url: str) -> None:
    first, copy = (shared(tmp_path, postgres_url, name) for name in ("first", "copy"))
    try:
        first.start()
        shutil.copytree(first.home, copy.home)
        ran = subprocess.run([*COMMAND, "run"], env=copy.environment(), capture_output=True, text=True, timeout=60)
        assert (ran.returncode, ran.stdout) == (78, "")
        assert "another gateway lives with the id of this home" in ran.stderr
        assert str(first.home) in ran.stderr
        assert "hint: " in ran.stderr
        assert query(postgres_url, "SELECT count(*) FROM runs") == [(1,)]
        (copy.home / "instance").unlink()
        copy.start()
        assert query(postgres_url, "SELECT count(DISTINCT instance) FROM runs WHERE ended_at IS NULL") == [(2,)]
        assert (copy.stop(), first.stop()) == (0, 0)
    finally:
        first.close()
        copy.close()


def test_b168_home_that_was_moved_is_served_when_its_gateway_was_killed(tmp_path: Path, postgres_url: str) -> None:
    """Its lock is another one there: the start waits until the heartbeats have stood still for a lease."""
    before, after = (shared(tmp_path, postgres_url, name) for name in ("before", "after"))
    try:
        before.start()
        Person(before).say("step first 30s\nsay: done", "first")
        wait_for("the step runs", lambda: (before.home / "rehearsal.log").exists())
        before.kill()
        shutil.copytree(before.home, after.home)
        after.start()
        assert "instance_elsewhere" in after.log()
        assert query(postgres_url, "SELECT count(*), count(DISTINCT instance) FROM runs") == [(2, 1)]
        assert query(postgres_url, "SELECT ending FROM runs ORDER BY id") == [("lost",), (None,)]
        wait_for("the turn goes on", lambda: query(postgres_url, "SELECT 1 FROM turns WHERE attempt = 2"))
    finally:
        before.close()
        after.close()


def test_b168_gateway_is_known_by_a_random_id_that_stays_in_its_home(tmp_path: Path, postgres_url: str) -> None:
    process = shared(tmp_path, postgres_url, "home")
    try:
        process.start()
        kept = (process.home / "instance").read_bytes()
        assert stat.S_IMODE((process.home / "instance").stat().st_mode) == 0o600
        process.kill()
        process.start()
        assert (process.home / "instance").read_bytes() == kept
        assert query(postgres_url, "SELECT DISTINCT instance FROM runs") == [(json.loads(kept)["id"],)]
        assert query(postgres_url, "SELECT ending FROM runs ORDER BY id") == [("lost",), (None,)]
        assert process.stop() == 0
        (process.home / "instance").write_text("half")
        ran = subprocess.run(
            [*COMMAND, "run"], env=process.environment(), capture_output=True, text=True, timeout=60
        )
        assert (ran.returncode, ran.stdout) == (78, "")
        assert "is damaged" in ran.stderr
    finally:
        process.close()

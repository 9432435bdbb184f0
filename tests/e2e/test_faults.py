"""Faults from outside that have no other home: clocks that jump, servers that die, a turn that eats all memory.

Drives `runtime/gateway` and `store/backends`.
"""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from perdure.core.states import TurnState
from perdure.testing import SettableClock, SimulatedPlatform
from support.gateway import GatewayProcess, Person, gateway
from support.inprocess import crashing_at_the_end, serving
from support.postgres import PostgresServer
from support.recovery import key_of, turn_views
from support.waiting import eventually, wait_for

DAY = 86_400.0
MINUTE = 60.0


def begun(home: Path, lines: int = 1) -> bool:
    """Whether so many steps have begun."""
    trace = home / "rehearsal.log"
    return trace.exists() and len(trace.read_text().splitlines()) >= lines


# ── clocks ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.anyio
@pytest.mark.parametrize("jump", [-DAY, DAY], ids=["back", "forward"])
async def test_everything_is_answered_once_in_order_when_the_clock_jumps(tmp_path: Path, jump: float) -> None:
    """B43: order is by sequence, never by time. It jumps in the middle of a turn, and back while another runs."""
    platform, clock = SimulatedPlatform(), SettableClock()
    async with serving(tmp_path, platform, clock=clock) as running:
        platform.write("once a 1s\nsay: one")
        await eventually("the first step runs", lambda: begun(tmp_path))
        clock.move(jump)
        platform.write("once b 1s\nsay: two")
        await eventually("the second step runs", lambda: begun(tmp_path, 2))
        clock.move(-jump)
        platform.write("say: three")
        await eventually("all is answered", lambda: platform.replies() == ["one", "two", "three"])
        views = await turn_views(running.store, key_of(platform))
    assert [view.state for view in views] == [TurnState.DONE] * 3
    assert not any(view.interruptions for view in views), "the jump was taken for a death"


@pytest.mark.anyio
@pytest.mark.parametrize("jump", [-DAY, 30 * MINUTE], ids=["back", "forward"])
async def test_b43_turn_goes_on_when_the_clock_jumped_while_the_gateway_was_down(
    tmp_path: Path, jump: float
) -> None:
    """A negative age is none."""
    platform, clock = SimulatedPlatform(), SettableClock()
    async with crashing_at_the_end(tmp_path, platform, clock=clock):
        platform.write("step a 3s\nsay: done")
        await eventually("the step runs", lambda: begun(tmp_path))
    clock.move(jump)
    async with serving(tmp_path, platform, clock=clock):
        await eventually("it is answered", lambda: platform.replies() == ["done"])


# ── a database server ───────────────────────────────────────────────────────────────────────────────────────


def test_turn_ends_and_is_answered_once_when_the_database_server_is_killed(
    tmp_path: Path, postgres_server: PostgresServer, postgres_url: str
) -> None:
    """The gateway stays, waits for its server, and goes on; what was taken in is answered once."""
    home = tmp_path / "home"
    with gateway(home, STORE__URL=postgres_url) as process:
        person = Person(process)
        person.say("once a 3s\nstep b 0s\nsay: done", "first")
        wait_for("the step runs", lambda: begun(home))
        postgres_server.kill()
        postgres_server.start()
        assert wait_for("it is answered", lambda: _replies(person)) == ["done"]
        assert (home / "rehearsal.log").read_text().count("once") <= 1
        assert process.stop() == 0


def _replies(person: Person) -> list[str] | None:
    response = person.request("GET", "/messages")
    return person.replies() if response.status_code == 200 and person.replies() else None


# ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────

# What the kernel does to a process that has eaten all memory: SIGKILL, in the middle of whatever it does.
EATER = """
import os, signal
from pathlib import Path

async def answer(context):
    if context.message == "eat":
        with Path(os.environ["PERDURE_HOME"], "eaten").open("a") as eaten:
            eaten.write("once more\\n")
        os.kill(os.getpid(), signal.SIGKILL)
    return "fine"
"""


def test_b52_b53_turn_that_eats_all_memory_does_not_take_everybody_down(tmp_path: Path) -> None:
    """The supervisor starts the gateway again; after three deaths the turn rests, and others are answered."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "eater.py").write_text(EATER)
    process = GatewayProcess(home, command="up", AGENT__ENTRYPOINT="eater:answer")
    try:
        process.start()
        Person(process).say("eat")
        deaths = home / "eaten"
        wait_for("it has died three times", lambda: deaths.exists() and deaths.read_text().count("\n") == 3, 60)
        other = Person(process, "other")
        wait_for("a message is taken in", lambda: _is_taken(other), 60)
        assert other.wait_for_replies(1) == ["fine"]
        assert deaths.read_text().count("\n") == 3, "the turn was taken up again and again"
        assert process.stop() == 0
    finally:
        process.close()


def _is_taken(person: Person) -> bool:
    try:
        return person.say("hello", "hello").status_code in (200, 202)
    except httpx.TransportError:
        return False  # it is just being started again

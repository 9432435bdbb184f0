"""In and out, through a real gateway and a platform that misbehaves.

Drives `runtime/intake`, `runtime/delivery` and `store/outbox`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from msgspec.structs import replace

from perdure.core import texts
from perdure.core.delivery import DeliveryState
from perdure.core.messages import Stored
from perdure.errors import StoreBroken
from perdure.platforms.api import Capabilities, Event
from perdure.store.api import Store
from perdure.store.database import Database
from perdure.testing import FaultyDatabase, SettableClock, SimulatedPlatform, gateways
from perdure.testing.simulated_platform import SimulatedAdapter
from support.inprocess import crashing_at_the_end, serving
from support.shutdown import crashing_at_fact
from support.waiting import eventually

pytestmark = pytest.mark.anyio

NO_IDEMPOTENCE = Capabilities(keeps_missed=True)
DROP = {"DELIVERY__UNKNOWN": "drop"}
READ_BACK = Capabilities(keeps_missed=True, read_back=True)


async def replies(platform: SimulatedPlatform, *texts: str, chat: str = "1") -> None:
    await eventually(f"chat {chat} sees {texts}", lambda: platform.replies(chat) == list(texts))


async def nothing_owed(store: Store) -> None:
    await eventually("nothing is owed", lambda: _nothing_open(store))


async def _nothing_open(store: Store) -> bool:
    return not await store.outbox.open_deliveries()


async def test_b70_garbled_event_is_kept_and_acknowledged(tmp_path: Path) -> None:
    platform = SimulatedPlatform()
    async with serving(tmp_path, platform) as gateway:
        platform.garble("}{")
        await eventually("it is acknowledged", lambda: not platform.garbled_events())
        kept = await gateway.store.database.read(lambda tx: tx.all("SELECT state, raw, problem FROM inbox"))
    assert kept == [("rejected", "}{", "this is no message")]


async def test_b71_redelivered_message_acts_once(tmp_path: Path) -> None:
    platform = SimulatedPlatform()
    platform.redeliver = 2
    async with serving(tmp_path, platform):
        platform.write("say: one")
        platform.write("say: two")
        await replies(platform, "one", "two")


async def test_b72_message_written_while_down_is_answered_after_the_start(tmp_path: Path) -> None:
    platform = SimulatedPlatform()
    async with serving(tmp_path, platform):
        pass
    platform.write("say: one")
    platform.write("say: two")
    async with serving(tmp_path, platform):
        await replies(platform, "one", "two")


@pytest.mark.parametrize(
    ("capabilities", "settings", "seen"),
    [
        pytest.param(None, {}, ["hi"], id="an idempotent platform gets the same key again"),
        pytest.param(READ_BACK, {}, ["hi"], id="a platform with read-back is asked"),
        pytest.param(
            NO_IDEMPOTENCE,
            {},
            ["hi", texts.delivery.maybe_duplicate("hi")],
            id="otherwise it is resent with a mark",
        ),
        pytest.param(
            NO_IDEMPOTENCE,
            {"DELIVERY__UNKNOWN": "drop"},
            ["hi", texts.delivery.REPLY_DROPPED],
            id="or dropped, and told",
        ),
    ],
)
async def test_b74_unknown_send_is_resolved(
    tmp_path: Path, capabilities: Capabilities | None, settings: dict[str, str], seen: list[str]
) -> None:
    platform = SimulatedPlatform(capabilities=capabilities)
    platform.lose_answers = 1
    async with serving(tmp_path, platform, **settings) as gateway:
        platform.write("say: hi")
        await replies(platform, *seen)
        await nothing_owed(gateway.store)


async def test_b73_answer_is_sent_after_the_restart_when_killed_at_the_end_of_its_turn(tmp_path: Path) -> None:
    platform = SimulatedPlatform()
    async with crashing_at_fact(tmp_path, platform, fact="SELECT 1 FROM turns WHERE state = 'done'"):
        platform.write("say: hi")
    assert platform.replies() == []
    async with serving(tmp_path, platform):
        await replies(platform, "hi")


async def test_b75_reply_waits_for_its_platform_and_uses_up_no_attempt(tmp_path: Path) -> None:
    platform, clock = SimulatedPlatform(), SettableClock()
    async with serving(tmp_path, platform, clock=clock) as gateway:
        platform.write("step wait 3s\nsay: late")
        await eventually("it is stored", lambda: not platform.pending())
        platform.reachable = False
        platform.disconnect()
        [row] = await eventually("the reply is owed", gateway.store.outbox.open_deliveries)
        clock.move(3600)
        platform.reachable = True
        await replies(platform, "late")
        assert row.attempts == 0


async def test_b75_refusal_drops_the_rest_of_that_reply_only(tmp_path: Path) -> None:
    platform = SimulatedPlatform(capabilities=Capabilities(idempotent_send=True, keeps_missed=True, max_length=5))
    platform.refusals.add("1")
    async with serving(tmp_path, platform) as gateway:
        platform.write("say: one two three")
        sent = await eventually("the turn is done", lambda: _first_turn_rows(gateway.store))
        await nothing_owed(gateway.store)
        platform.refusals.clear()
        platform.write("say: four")
        await replies(platform, "four")
        states = [row.state for row in await gateway.store.outbox.of_turn(sent)]
    assert states == [DeliveryState.REFUSED] * 3


async def _first_turn_rows(store: Store) -> str | None:
    rows = await store.database.read(lambda tx: tx.all("SELECT id FROM turns WHERE state = 'done'"))
    return rows[0][0] if rows else None


async def test_b75_reply_expires_visibly_when_too_old(tmp_path: Path) -> None:
    platform, clock = SimulatedPlatform(), SettableClock()
    async with crashing_at_the_end(tmp_path, platform, clock=clock) as gateway:
        platform.write("step wait 2s\nsay: old")
        await eventually("it is stored", lambda: not platform.pending())
        platform.reachable = False
        platform.disconnect()
        [row] = await eventually("the reply is owed", gateway.store.outbox.open_deliveries)
    clock.move(25 * 3600)
    platform.reachable = True
    async with serving(tmp_path, platform, clock=clock) as gateway:
        await eventually("the chat is told", platform.replies)
        await nothing_owed(gateway.store)
        [expired] = await gateway.store.outbox.of_turn(str(row.turn))
    assert (expired.state, platform.replies()) == (DeliveryState.EXPIRED, [texts.delivery.REPLY_EXPIRED])


async def test_b79_reply_is_attached_to_its_message_and_a_thread_is_its_own_session(tmp_path: Path) -> None:
    platform = SimulatedPlatform()
    async with serving(tmp_path, platform) as gateway:
        first = platform.write("say: main")
        second = platform.write("say: topic", thread="7")
        await eventually("both are answered", lambda: len(platform.posted) == 2)
        sessions = await gateway.store.sessions.page()
    attached = {posted.text: (posted.reply_to, posted.address.thread) for posted in platform.posted}
    assert attached == {"main": (first, None), "topic": (second, "7")}
    assert len(sessions) == 2


async def test_b60_nothing_further_runs_while_the_disk_is_full(tmp_path: Path) -> None:
    platform = SimulatedPlatform()
    databases: list[FaultyDatabase] = []

    def wrap(database: Database) -> Database:
        databases.append(FaultyDatabase(database))
        return databases[0]

    async with serving(tmp_path, platform, wrap=wrap) as gateway:
        platform.write("step a 3s\nstep b 0s\nsay: done")
        await eventually("the first step runs", lambda: (tmp_path / "rehearsal.log").exists())
        databases[0].fill()
        platform.write("say: second", chat="2")
        assert gateway.problems() == ["not written: the disk is full"]
        await eventually("the second message was turned away", lambda: platform.turned_away == ["m2"])
        assert (tmp_path / "rehearsal.log").read_text().count("\n") == 1
        databases[0].mend()
        platform.disconnect()  # what was not acknowledged comes again
        await replies(platform, "done")
        await replies(platform, "second", chat="2")
        assert gateway.problems() == []


async def test_gateway_ends_with_an_error_when_a_sync_failed(tmp_path: Path) -> None:
    platform = SimulatedPlatform()
    databases: list[FaultyDatabase] = []

    def wrap(database: Database) -> Database:
        databases.append(FaultyDatabase(database))
        return databases[0]

    with pytest.raises(StoreBroken, match="disk I/O error"):
        async with serving(tmp_path, platform, wrap=wrap) as gateway:
            databases[0].break_sync()
            platform.write("say: hi")
            await eventually("the gateway has stopped", lambda: gateway.phase == "stopped")
    async with serving(tmp_path, platform):
        await replies(platform, "hi")


async def test_gateway_ends_when_an_adapter_meets_a_broken_store(tmp_path: Path) -> None:
    """That is no defect of its platform, which could be tried again."""

    class Meets(SimulatedAdapter):
        async def receive(self) -> AsyncGenerator[Event]:
            async for event in super().receive():
                raise StoreBroken("the database cannot be written: disk I/O error")
                yield event

    platform = SimulatedPlatform()
    with pytest.raises(StoreBroken, match="disk I/O error"):
        async with gateways.serving(tmp_path, [Meets(platform)]) as gateway:
            platform.write("say: hi")
            await eventually("the gateway has stopped", lambda: gateway.phase == "stopped")
    async with serving(tmp_path, platform):
        await replies(platform, "hi")


async def test_b75_wait_that_a_platform_names_uses_up_no_attempt(tmp_path: Path) -> None:
    platform = SimulatedPlatform()
    platform.wait = 2
    async with serving(tmp_path, platform) as gateway:
        platform.write("say: one")
        platform.write("say: two")
        await replies(platform, "one", "two")
        await nothing_owed(gateway.store)
        [turn] = await gateway.store.database.read(lambda tx: tx.all("SELECT turn FROM outbox WHERE text = 'one'"))
        [row] = await gateway.store.outbox.of_turn(turn[0])
    assert (row.state, row.attempts) == (DeliveryState.SENT, 0)


async def test_b41_others_are_served_when_an_acknowledgement_fails(tmp_path: Path) -> None:
    """What the platform does not hear of comes again, and is known."""

    class Mute(SimulatedAdapter):
        async def receive(self) -> AsyncGenerator[Event]:
            async for event in super().receive():
                yield replace(event, ack=self.ack) if platform.mute else event

        async def ack(self, _: Stored | None) -> None:
            raise ZeroDivisionError("nobody is told")

    class Muting(SimulatedPlatform):
        mute = True

    platform = Muting()
    async with gateways.serving(tmp_path, [Mute(platform)]):
        platform.write("say: one")
        await replies(platform, "one")
        platform.mute = False
        platform.write("say: two")
        await replies(platform, "one", "two")
        await eventually("only the first is still there", lambda: len(platform.pending()) == 1)
        platform.disconnect()
        await eventually("it is handed over again, and acknowledged", lambda: not platform.pending())
    assert platform.replies() == ["one", "two"]


class Defective(SimulatedAdapter):
    """Falls over whenever it hears something, until it is mended."""

    broken = True

    async def receive(self) -> AsyncGenerator[Event]:
        async for event in super().receive():
            if self.broken:
                raise ZeroDivisionError("what nobody should read")
            yield event


async def test_b41_others_are_served_when_an_adapter_has_a_defect(tmp_path: Path) -> None:
    good, bad = SimulatedPlatform("good"), SimulatedPlatform("bad")
    defective = Defective(bad)
    said = "bad: its adapter failed with ZeroDivisionError; the log says where"
    async with gateways.serving(tmp_path, [good.adapter(), defective]) as gateway:
        bad.write("say: at last")
        await eventually("it is said what is wrong", lambda: said in gateway.problems())
        good.write("say: fine")
        await replies(good, "fine")
        defective.broken = False
        await replies(bad, "at last")

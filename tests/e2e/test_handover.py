"""Several gateways on one PostgreSQL: each serves what it can, and nothing is stranded when one stops.

Drives `store/run_services`, `store/leases`, `runtime/lost_turns` and `runtime/recovery`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest

from perdure.core import texts
from perdure.core.address import Address, session_key
from perdure.core.journal import JournalRecord, RecoveryDecided, ToolEnded, ToolStarted, TurnInterrupted
from perdure.core.recovery.decision import ALONE_EVIDENCE
from perdure.core.states import TurnState
from perdure.runtime.gateway import Gateway, Phase
from perdure.store.database import Transaction
from perdure.store.journal import append
from perdure.store.leases import holder
from perdure.store.run_services import PutAside
from perdure.testing import SettableClock, SimulatedPlatform
from perdure.testing.faults import FaultyDatabase
from perdure.web.api.gateway import gateway_status
from perdure.web.api.overview import attention_items
from support.chat_folders import chat_workspace
from support.inprocess import crashing_at_the_end, serving
from support.newer_version import Pondered
from support.recovery import AgentHarness
from support.waiting import eventually

pytestmark = pytest.mark.anyio

T = TypeVar("T")

ASK = "ask: Which way? | Left | Right\nstep go 0s"
QUESTION = "Which way?\n(Left / Right)"
SHORT_LEASE = {"STORE__LEASE": "6s"}  # a heartbeat every second
AT_ONCE = {"DRAIN__DEADLINE": "0s"}


class GatewayGroup:
    """Gateways with homes of their own on one PostgreSQL, each stopped on its own."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        self._url = url
        self._stacks: dict[str, AsyncExitStack] = {}
        self.harness = AgentHarness()

    async def start(self, name: str, *platforms: SimulatedPlatform, **options: Any) -> Gateway:
        """Start the gateway of that name, with its home as it was."""
        stack = self._stacks[name] = AsyncExitStack()
        settings = {"STORE__URL": self._url, "agent": self.harness.agent} | SHORT_LEASE | options
        gateway = await stack.enter_async_context(serving(self._folder / name, *platforms, **settings))
        await eventually("its platforms are connected", lambda: not gateway.problems())
        return gateway

    @asynccontextmanager
    async def crashing(self, name: str, *platforms: SimulatedPlatform) -> AsyncIterator[Gateway]:
        """Run a gateway, and crash it at the end."""
        settings = {"STORE__URL": self._url, "agent": self.harness.agent} | SHORT_LEASE
        async with crashing_at_the_end(self._folder / name, *platforms, **settings) as gateway:
            yield gateway

    async def stop(self, name: str) -> None:
        """Stop a gateway in order."""
        await self._stacks.pop(name).aclose()

    async def close(self) -> None:
        self.harness.release()
        for name in list(self._stacks):
            await self.stop(name)


@pytest.fixture
async def group(tmp_path: Path, postgres_url: str) -> AsyncIterator[GatewayGroup]:
    group = GatewayGroup(tmp_path, postgres_url)
    yield group
    await group.close()


def key_of(platform: SimulatedPlatform, chat: str = "1", agent: str = "main") -> str:
    return session_key(agent, Address(platform.name, "dm", chat))


async def wait_for_replies(platform: SimulatedPlatform, *texts: str, chat: str = "1") -> None:
    """Wait until a chat has these replies, each once and in this order; banners of a stop may stand between."""
    await eventually(
        f"chat {chat} sees {texts}",
        lambda: [text for text in platform.replies(chat) if text in texts] == list(texts),
    )


async def turn_state(gateway: Gateway, key: str) -> TurnState | None:
    turn = await gateway.store.turns.current(key)
    return turn.state if turn is not None else None


async def lease_holder(gateway: Gateway, key: str) -> str | None:
    return await gateway.store.database.read(lambda tx: holder(tx, key))


async def holds(gateway: Gateway, key: str) -> bool:
    return await lease_holder(gateway, key) == gateway.operator_verbs.run


async def journal_of(gateway: Gateway, key: str) -> list[JournalRecord]:
    """The journal of the open turn of a chat, if it has one."""
    turn = await gateway.store.turns.current(key)
    return await gateway.store.journal.of_turn(turn.session, turn.id) if turn is not None else []


async def last_journal(gateway: Gateway, platform: SimulatedPlatform) -> list[JournalRecord]:
    """The journal of the session of chat 1."""
    session = await gateway.store.sessions.current(key_of(platform))
    assert session is not None
    return [record for _, record in await gateway.store.journal.read_after(session.id, 0)]


async def beats(gateway: Gateway, count: int = 2) -> None:
    """Wait until a gateway has looked for lost turns that many times."""
    runs, run = gateway.store.runs, gateway.operator_verbs.run
    for _ in range(count):
        before = await runs.get(run)

        async def beaten(before: object = before) -> bool:
            return await runs.get(run) != before

        await eventually("its heart beats", beaten)


# ── hand-over ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_b161_question_is_answered_through_the_other_gateway_after_a_clean_stop(group: GatewayGroup) -> None:
    platform = SimulatedPlatform()
    await group.start("a", platform)
    platform.write(ASK)
    await wait_for_replies(platform, QUESTION)
    await group.start("b", platform)
    await group.stop("a")
    platform.write("right")
    await wait_for_replies(platform, QUESTION, "Right\ngo: done")


async def test_b161_interrupted_turn_goes_on_at_the_other_gateway_without_a_further_start(
    group: GatewayGroup,
) -> None:
    platform = SimulatedPlatform()
    group.harness.stuck.add("long")
    await group.start("a", platform, **AT_ONCE)
    platform.write("step first\nstep long\nsay: done")
    await group.harness.wait_until_hanging()
    b = await group.start("b", platform)
    await group.stop("a")
    await group.harness.wait_until_hanging(2)
    assert await lease_holder(b, key_of(platform)) == b.operator_verbs.run
    group.harness.release()
    await wait_for_replies(platform, "done")
    assert group.harness.run_counts["first"] == 1, "a finished step is not run again"


async def test_b161_idle_chat_is_served_by_another_gateway_while_its_own_drains(group: GatewayGroup) -> None:
    platform = SimulatedPlatform()
    group.harness.stuck.add("long")
    a = await group.start("a", platform)
    platform.write("say: hello", chat="2")
    await wait_for_replies(platform, "hello", chat="2")
    platform.write("step long\nsay: done")
    await group.harness.wait_until_hanging()
    b = await group.start("b", platform)
    a.stop()
    platform.write("say: again", chat="2")
    await wait_for_replies(platform, "hello", "again", chat="2")
    assert a.phase is Phase.DRAINING, "it still waits for the turn of chat 1"
    assert await lease_holder(b, key_of(platform, "2")) == b.operator_verbs.run
    group.harness.release()
    await wait_for_replies(platform, "done")


async def test_b161_turn_with_a_live_command_waits_for_its_own_gateway(
    group: GatewayGroup, tmp_path: Path
) -> None:
    platform = SimulatedPlatform()
    released = chat_workspace(tmp_path / "a", key_of(platform)) / "released"
    await group.start("a", platform, agent=None, **AT_ONCE)
    platform.write("run: until [ -e released ]; do sleep 0.1; done; echo made\nsay: done")
    b = await group.start("b", platform, agent=None)

    async def running() -> bool:
        records = await journal_of(b, key_of(platform))
        return any(isinstance(record.entry, ToolStarted) for record in records)

    await eventually("the command runs", running)
    await group.stop("a")
    await beats(b, 3)
    assert await turn_state(b, key_of(platform)) is TurnState.INTERRUPTED
    a = await group.start("a", platform, agent=None)
    await eventually("its own gateway has it again", lambda: holds(a, key_of(platform)))
    released.touch()
    await wait_for_replies(platform, "done")
    ended = [record.entry for record in await last_journal(b, platform) if isinstance(record.entry, ToolEnded)]
    assert ["made" in entry.text for entry in ended] == [True], "the output is not lost"


# ── take-over ───────────────────────────────────────────────────────────────────────────────────────────────

CHATS = [str(number) for number in range(16)]


async def crash_in_every_chat(group: GatewayGroup, platform: SimulatedPlatform, chats: Sequence[str]) -> None:
    """Crash gateway a while a step hangs in each chat."""
    group.harness.stuck.add("long")
    async with group.crashing("a", platform):
        for chat in chats:
            platform.write("step long\nsay: done", chat=chat)
        await group.harness.wait_until_hanging(len(chats))


async def test_b162_b167_turns_of_a_dead_gateway_are_shared_by_those_that_live(group: GatewayGroup) -> None:
    """The dead gateway comes back without its platform: its run is known to be dead, and it can serve nothing."""
    platform, limits = SimulatedPlatform(), {"RECOVERY__CONCURRENCY": "100"}
    await crash_in_every_chat(group, platform, CHATS)
    b, c = await group.start("b", platform, **limits), await group.start("c", platform, **limits)
    await group.start("a", SimulatedPlatform("other"))
    await group.harness.wait_until_hanging(2 * len(CHATS))
    holders = Counter([await lease_holder(b, key_of(platform, chat)) for chat in CHATS])
    assert set(holders) == {b.operator_verbs.run, c.operator_verbs.run}
    assert len(b.loops.connections.standing_by | c.loops.connections.standing_by) == 1, "one of them only sends"
    group.harness.release()
    for chat in CHATS:
        await wait_for_replies(platform, "done", chat=chat)
    assert group.harness.run_counts["long"] == 2 * len(CHATS), "each was taken over once"


async def test_b162_turn_of_a_killed_gateway_is_taken_over_when_its_lease_has_run_out(group: GatewayGroup) -> None:
    """A gateway without its platform finds the death as well, and leaves the turn to the one that has it."""
    platform = SimulatedPlatform()
    await crash_in_every_chat(group, platform, ["1"])
    await group.start("w", SimulatedPlatform("other"))
    b = await group.start("b", platform)
    await group.harness.wait_until_hanging(2)
    assert await holds(b, key_of(platform))
    group.harness.release()
    await wait_for_replies(platform, "done")


class FailingTakeOver(FaultyDatabase):
    """A database that fails in one chat, until it is mended."""

    broken_key: ClassVar[str] = ""

    async def write(self, transaction: Transaction[T], *, key: str = "", at: int | None = None) -> T:
        if key and key == self.broken_key and at is not None:  # a take-over; putting it aside says no time
            raise ValueError("this turn is odd")
        return await super().write(transaction, key=key, at=at)


async def test_b162_turn_that_cannot_be_taken_over_is_tried_again_and_keeps_nobody_waiting(
    group: GatewayGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform, clock = SimulatedPlatform(), SettableClock()
    await crash_in_every_chat(group, platform, ["1", "2"])
    monkeypatch.setattr(FailingTakeOver, "broken_key", key_of(platform, "1"))
    b = await group.start("b", platform, wrap=FailingTakeOver, clock=clock)
    await group.start("a", SimulatedPlatform("other"))
    await group.harness.wait_until_hanging(3)
    group.harness.release()
    await wait_for_replies(platform, "done", chat="2")

    async def put_aside() -> list[PutAside]:
        return await b.store.run_services.put_aside()

    [aside] = await eventually("the odd one is put aside", put_aside)
    assert (aside.key, aside.problem) == (key_of(platform, "1"), "ValueError: this turn is odd")
    assert any("this turn is odd" in item.text for item in await attention_items(b))
    monkeypatch.setattr(FailingTakeOver, "broken_key", "")
    await beats(b)
    assert not await holds(b, key_of(platform, "1")), "it is not time yet"
    clock.move(61)
    await wait_for_replies(platform, "done", chat="1")


# ── poison ──────────────────────────────────────────────────────────────────────────────────────────────────


async def crash_without_progress(group: GatewayGroup, name: str, platform: SimulatedPlatform, hung: int) -> None:
    """Crash a gateway when so many steps have hung in all."""
    async with group.crashing(name, platform):
        await group.harness.wait_until_hanging(hung)


async def reasons_of(gateway: Gateway, key: str) -> list[str]:
    """Why the open turn of a chat was interrupted, each time."""
    records = await journal_of(gateway, key)
    return [record.entry.reason for record in records if isinstance(record.entry, TurnInterrupted)]


async def test_b52_b162_turn_that_was_cut_off_by_a_crash_without_progress_runs_alone(group: GatewayGroup) -> None:
    """A further crash counts for that turn only: its neighbours, which were cut off with it, have to wait."""
    platform = SimulatedPlatform()
    group.harness.stuck.add("poison")
    async with group.crashing("a", platform):
        for chat in "123":
            platform.write("step poison\nsay: done", chat=chat)
        await group.harness.wait_until_hanging(3)
    await crash_without_progress(group, "b", platform, 6)
    async with group.crashing("c", platform) as c:
        await group.harness.wait_until_hanging(7)

        async def waiting() -> list[RecoveryDecided]:
            """The decisions that wait for their time, of all chats but one."""
            records = [await journal_of(c, key_of(platform, chat)) for chat in "123"]
            last = [each[-1].entry for each in records]
            decided = [entry for entry in last if isinstance(entry, RecoveryDecided)]
            return decided if len(decided) == 2 else []

        decisions = await eventually("the others wait", waiting)
        assert all(decision.evidence[ALONE_EVIDENCE] for decision in decisions)
    group.harness.release()
    await group.start("d", platform)
    told = texts.recovery.suspended("it was interrupted 3 times in a row without progress")
    await eventually("all are answered", lambda: all(platform.replies(chat) for chat in "123"))
    assert sorted(text for chat in "123" for text in platform.replies(chat)) == sorted(["done", "done", told])


async def test_b52_b162_interruptions_count_whichever_gateway_died(group: GatewayGroup) -> None:
    platform = SimulatedPlatform()
    group.harness.stuck.add("poison")
    async with group.crashing("a", platform):
        platform.write("step poison\nsay: done")
        await group.harness.wait_until_hanging()
    await crash_without_progress(group, "b", platform, 2)
    await crash_without_progress(group, "c", platform, 3)
    await group.start("d", platform)
    told = texts.recovery.suspended("it was interrupted 3 times in a row without progress")
    await wait_for_replies(platform, told)
    assert group.harness.run_counts["poison"] == 3, "a fourth gateway does not try"


async def test_b52_b161_planned_hand_over_is_no_interruption_without_progress(group: GatewayGroup) -> None:
    """It counts toward the ten of all, and not toward the three in a row."""
    platform = SimulatedPlatform()
    group.harness.stuck.add("long")
    last = await group.start("0", platform, **AT_ONCE)
    platform.write("step long\nsay: done")
    for number in range(1, 5):
        await group.harness.wait_until_hanging(number)
        last = await group.start(str(number), platform, **AT_ONCE)
        await group.stop(str(number - 1))
    await group.harness.wait_until_hanging(5)
    assert await reasons_of(last, key_of(platform)) == ["shutdown_timeout"] * 4
    group.harness.release()
    await wait_for_replies(platform, "done")


# ── capabilities ────────────────────────────────────────────────────────────────────────────────────────────


async def test_b160_chat_is_left_alone_by_a_gateway_without_its_platform(group: GatewayGroup) -> None:
    """A clean stop, with one turn interrupted and one message behind it; the other gateway goes on."""
    far, near = SimulatedPlatform("far"), SimulatedPlatform()
    group.harness.stuck.add("long")
    w = await group.start("w", near)
    await group.start("t", far, near, **AT_ONCE)
    far.write("step long\nsay: first")
    await group.harness.wait_until_hanging()
    far.write("say: second")
    await eventually("both are stored", lambda: not far.mailbox.pending())
    await group.stop("t")
    await beats(w)
    assert await turn_state(w, key_of(far)) is TurnState.INTERRUPTED
    assert await lease_holder(w, key_of(far)) != w.operator_verbs.run
    near.write("say: still here")
    await wait_for_replies(near, "still here")
    status = await gateway_status(w)
    assert [(each.platform, each.agent, each.chats) for each in status.unserved] == [("far", "main", 1)]
    assert any("wait" in line and "far" in line for line in status.summary)
    assert any("far" in item.text for item in await attention_items(w))
    group.harness.release()
    await group.start("t", far, near)
    await wait_for_replies(far, "first", "second")
    assert (await gateway_status(w)).unserved == []


async def test_b160_turn_of_one_agent_is_not_finished_by_another(group: GatewayGroup) -> None:
    platform = SimulatedPlatform()
    support = AgentHarness()
    group.harness.stuck.add("long")
    await group.start("sales", platform, AGENT__NAME="sales", **AT_ONCE)
    platform.write("step long\nsay: sold")
    await group.harness.wait_until_hanging()
    other = await group.start("support", platform, agent=support.agent, AGENT__NAME="support")
    await group.stop("sales")
    await beats(other)
    key = key_of(platform, agent="sales")
    assert await turn_state(other, key) is TurnState.INTERRUPTED
    assert await lease_holder(other, key) != other.operator_verbs.run
    group.harness.release()
    await group.start("sales", platform, AGENT__NAME="sales")
    await wait_for_replies(platform, "sold")
    assert group.harness.run_counts["long"] == 2


async def test_b160_drop_and_erase_work_through_any_gateway(group: GatewayGroup) -> None:
    far, near = SimulatedPlatform("far"), SimulatedPlatform()
    group.harness.stuck.add("long")
    w = await group.start("w", near)
    await group.start("t", far, **AT_ONCE)
    for chat in ("1", "2"):
        far.write("step long\nsay: never", chat=chat)
    await group.harness.wait_until_hanging(2)
    await group.stop("t")
    for chat in ("1", "2"):
        session = await w.store.sessions.current(key_of(far, chat))
        assert session is not None
        if chat == "1":
            assert await w.operator_verbs.drop(session)
        else:
            assert await w.operator_verbs.erase(session.id)
    assert (await gateway_status(w)).unserved == []


async def test_b160_session_with_newer_entries_is_left_to_a_newer_gateway(group: GatewayGroup) -> None:
    class Foreseen(Pondered, frozen=True):
        version = 2

    platform = SimulatedPlatform()
    group.harness.stuck.add("long")
    await group.start("a", platform, **AT_ONCE)
    platform.write("step long\nsay: done")
    await group.harness.wait_until_hanging()
    b = await group.start("b", platform)
    turn = await b.store.turns.current(key_of(platform))
    assert turn is not None
    entry = Foreseen("deeply")
    await b.store.database.write(lambda tx: append(tx, turn.session, turn.id, [entry]), key=turn.key)
    await group.stop("a")
    await beats(b)
    assert await lease_holder(b, key_of(platform)) != b.operator_verbs.run
    [unserved] = (await gateway_status(b)).unserved
    assert unserved.newer
    platform.write("say: fine", chat="2")
    await wait_for_replies(platform, "fine", chat="2")


async def test_b160_gateway_says_at_its_start_what_only_it_or_only_others_serve(
    group: GatewayGroup, caplog: pytest.LogCaptureFixture
) -> None:
    def told() -> list[str]:
        return [record.__dict__["fields"]["says"] for record in caplog.records if record.msg == "gateways_differ"]

    far, near = SimulatedPlatform("far"), SimulatedPlatform()
    await group.start("a", far)
    assert told() == [], "it is the only one"
    await group.start("b", near)
    assert told() == [
        texts.recovery.served_elsewhere(["main on far"]),
        texts.recovery.served_here_alone(["main on simulated"]),
    ]


async def test_b160_second_account_of_a_platform_is_refused(group: GatewayGroup, tmp_path: Path) -> None:
    from perdure.errors import ConfigurationError
    from perdure.testing.gateways import make_gateway

    platform = SimulatedPlatform()
    await group.start("a", platform)
    adapter = platform.adapter()
    adapter.account = "another"
    gateway = make_gateway(tmp_path / "b", [adapter], STORE__URL=group._url)
    with pytest.raises(ConfigurationError, match="one database knows one account"):
        await asyncio.wait_for(gateway.run(), 20)

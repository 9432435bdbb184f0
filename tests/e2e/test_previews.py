"""B76: people see an answer grow, on platforms where a message can be edited; and never take it for the answer.

Drives `runtime` and `store/previews`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from perdure.agents.api import Reply, TurnContext
from perdure.core import texts
from perdure.core.messages import Outbound, Receipt
from perdure.errors import ModelError
from perdure.operations.inspect import trace_message
from perdure.platforms.api import Capabilities
from perdure.runtime.gateway import Gateway
from perdure.testing import SimulatedPlatform
from perdure.testing.simulated_platform import SimulatedAdapter
from support.inprocess import crashing_at_the_end, serving
from support.waiting import eventually

pytestmark = pytest.mark.anyio


class Speaker:
    """An agent that shows what it is told to show, and ends when it is told to."""

    def __init__(self, *shown: str, answer: str | None = "the answer") -> None:
        self.shown = shown
        self.answer = answer
        self.speaking = asyncio.Event()
        self.go_on = asyncio.Event()

    async def run(self, context: TurnContext) -> Reply:
        for text in self.shown:
            context.show(text)
        self.speaking.set()
        await self.go_on.wait()
        if self.answer is None:
            raise ModelError("no more words")
        return Reply(self.answer)


def editable(max_length: int | None = None, *, every: float = 0.0, after: float = 0.0) -> SimulatedPlatform:
    can = Capabilities(keeps_missed=True, edit=True, edit_every=every, show_after=after, max_length=max_length)
    return SimulatedPlatform(capabilities=can)


async def sees(platform: SimulatedPlatform, *texts: str) -> None:
    await eventually(f"the chat sees {texts}", lambda: platform.replies() == list(texts))


async def kept(gateway: Gateway) -> list[tuple[object, ...]]:
    """The previews on record. A test only reads."""
    rows = await gateway.store.database.read(lambda tx: tx.all("SELECT state, receipt FROM previews"))
    return [tuple(row) for row in rows]


async def told(gateway: Gateway, message: str) -> list[str]:
    return [f"{fact['what']} {fact['detail']}" for fact in await trace_message(gateway.store, message)]


async def test_b76_answer_takes_the_place_of_its_preview(tmp_path: Path) -> None:
    platform, agent = editable(), Speaker("the", "the ans")
    async with serving(tmp_path, platform, agent=agent) as gateway:
        message = platform.write("hello")
        await sees(platform, "the ans …")
        assert platform.posted[0].preview
        agent.go_on.set()
        await sees(platform, "the answer")
        await eventually("the preview is settled", lambda: _states(gateway, "settled"))
    assert not platform.posted[0].preview
    assert platform.posted[0].reply_to == message


async def _states(gateway: Gateway, *states: str) -> bool:
    return [row[0] for row in await kept(gateway)] == list(states)


async def test_b76_answer_grows_no_more_often_than_its_platform_says(tmp_path: Path) -> None:
    """`edit_every`: the next words wait for an hour. The answer does not."""
    platform, agent = editable(every=3600), Speaker("the")
    async with serving(tmp_path, platform, agent=agent) as gateway:
        platform.write("hello")
        await sees(platform, "the …")
        [(attempt, _)] = gateway.loops.runner.attempts.values()
        attempt.show("the ans")
        await _somebody_else_is_answered(platform)
        agent.go_on.set()
        await sees(platform, "the answer")
    assert platform.drafts == ["the …"]


async def test_b76_answer_is_not_seen_to_grow_sooner_than_its_platform_says(tmp_path: Path) -> None:
    """`show_after`: an answer that is there within an hour is seen as a whole."""
    platform, agent = editable(after=3600), Speaker("the")
    async with serving(tmp_path, platform, agent=agent) as gateway:
        platform.write("hello")
        await eventually("the agent speaks", agent.speaking.is_set)
        await _somebody_else_is_answered(platform)
        agent.go_on.set()
        await sees(platform, "the answer")
        assert await kept(gateway) == []
    assert platform.drafts == []


async def _somebody_else_is_answered(platform: SimulatedPlatform) -> None:
    """By then, whatever was to be shown at once would be there."""
    platform.write("/status", chat="2")
    await eventually("somebody else is answered", lambda: platform.replies("2"))


async def test_b76_preview_is_on_record_before_it_is_sent(tmp_path: Path) -> None:
    platform = editable()
    on_record: list[list[tuple[object, ...]]] = []

    class Watching(SimulatedAdapter):
        async def send(self, outbound: Outbound) -> Receipt:
            if outbound.preview:
                on_record.append(await kept(gateway))
            return await super().send(outbound)

    agent = Speaker("the")
    platform.adapter = lambda: Watching(platform)  # type: ignore[method-assign]  # the platform as this test sees it
    async with serving(tmp_path, platform, agent=agent) as gateway:
        platform.write("hello")
        await sees(platform, "the …")
        agent.go_on.set()
        await sees(platform, "the answer")
    assert on_record == [[("sending", None)]]


async def test_b76_nothing_is_shown_where_messages_cannot_be_edited(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), Speaker("the")
    async with serving(tmp_path, platform, agent=agent) as gateway:
        platform.write("hello")
        await eventually("the agent speaks", agent.speaking.is_set)
        agent.go_on.set()
        await sees(platform, "the answer")
        assert await kept(gateway) == []
    assert platform.drafts == []


async def test_b76_answer_is_a_new_message_when_the_receipt_of_the_preview_is_unknown(tmp_path: Path) -> None:
    platform, agent = editable(), Speaker("the")
    platform.lose_answers = 1
    async with serving(tmp_path, platform, agent=agent) as gateway:
        message = platform.write("hello")
        await sees(platform, "the …")
        agent.go_on.set()
        await sees(platform, "the …", "the answer")
        life = await told(gateway, message)
    assert [line for line in life if "may still stand in the chat" in line], life


async def test_b76_next_attempt_goes_on_with_the_preview_that_is_there(tmp_path: Path) -> None:
    """Text seen before a crash may be replaced by different text, in the same message."""
    platform = editable()
    async with crashing_at_the_end(tmp_path, platform, agent=Speaker("first words")) as gateway:
        platform.write("hello")
        await sees(platform, "first words …")
        await eventually("its receipt is on record", lambda: _states(gateway, "shown"))
    agent = Speaker("other words")
    async with serving(tmp_path, platform, agent=agent):
        await sees(platform, "other words …")
        agent.go_on.set()
        await sees(platform, "the answer")


async def test_b76_preview_cut_off_by_a_crash_before_its_receipt_is_lost_and_named(tmp_path: Path) -> None:
    platform = editable()

    class Deaf(SimulatedAdapter):
        async def send(self, outbound: Outbound) -> Receipt:
            await super().send(outbound)
            await asyncio.Event().wait()
            raise AssertionError("the gateway has died by now")

    platform.adapter = lambda: Deaf(platform)  # type: ignore[method-assign]  # the platform never answers
    async with crashing_at_the_end(tmp_path, platform, agent=Speaker("first words")):
        message = platform.write("hello")
        await sees(platform, "first words …")
    del platform.adapter
    agent = Speaker("other words")
    async with serving(tmp_path, platform, agent=agent) as gateway:
        await sees(platform, "first words …", "other words …")
        agent.go_on.set()
        await sees(platform, "first words …", "the answer")
        life = await told(gateway, message)
    assert len([line for line in life if line.startswith("preview")]) == 2, life
    assert len([line for line in life if "may still stand in the chat" in line]) == 1, life


async def test_b76_failure_takes_the_place_of_the_preview(tmp_path: Path) -> None:
    platform, agent = editable(), Speaker("the", answer=None)
    async with serving(tmp_path, platform, agent=agent):
        platform.write("hello")
        await sees(platform, "the …")
        agent.go_on.set()
        await sees(platform, texts.turns.failed("no more words"))


async def test_b76_preview_says_that_its_turn_was_stopped(tmp_path: Path) -> None:
    platform = editable()
    async with serving(tmp_path, platform, agent=Speaker("the")):
        platform.write("hello")
        await sees(platform, "the …")
        platform.write("/stop")
        await sees(platform, texts.delivery.PREVIEW_UNFINISHED, "Stopped.")


async def test_b76_preview_says_after_a_restart_that_its_turn_was_stopped_meanwhile(tmp_path: Path) -> None:
    platform = editable()
    async with crashing_at_the_end(tmp_path, platform, agent=Speaker("the")) as gateway:
        platform.write("hello")
        await eventually("its receipt is on record", lambda: _states(gateway, "shown"))
    platform.write("/stop")
    async with serving(tmp_path, platform, agent=Speaker("never")):
        await eventually("the preview says so", lambda: texts.delivery.PREVIEW_UNFINISHED in platform.replies())
    assert "the …" not in platform.replies()
    assert "never …" not in platform.replies()


async def test_b76_long_answer_begins_in_the_place_of_the_preview(tmp_path: Path) -> None:
    platform, agent = editable(max_length=10), Speaker("one two three four", answer="one two three four")
    async with serving(tmp_path, platform, agent=agent):
        platform.write("hello")
        await sees(platform, "one two  …")
        agent.go_on.set()
        await sees(platform, "one two", "three four")


async def test_b76_answer_is_a_new_message_when_the_preview_was_deleted(tmp_path: Path) -> None:
    platform, agent = editable(), Speaker("the")
    async with serving(tmp_path, platform, agent=agent) as gateway:
        platform.write("hello")
        await eventually("its receipt is on record", lambda: _states(gateway, "shown"))
        platform.posted.clear()  # a person removes it
        agent.go_on.set()
        await sees(platform, "the answer")


async def test_b76_answer_comes_when_an_edit_of_the_preview_hangs(tmp_path: Path) -> None:
    platform = editable()

    class Slow(SimulatedAdapter):
        async def edit(self, receipt: Receipt, outbound: Outbound) -> None:
            if outbound.preview and outbound.text != "the …":
                hanging.set()
                await asyncio.Event().wait()
            await super().edit(receipt, outbound)

    hanging = asyncio.Event()
    platform.adapter = lambda: Slow(platform)  # type: ignore[method-assign]  # the platform as this test sees it
    agent = Speaker("the")
    async with serving(tmp_path, platform, agent=agent) as gateway:
        platform.write("hello")
        await sees(platform, "the …")
        [(attempt, _)] = gateway.loops.runner.attempts.values()
        attempt.show("the ans")
        await eventually("the edit hangs", hanging.is_set)
        agent.go_on.set()
        await sees(platform, "the answer")


async def test_b76_withdrawn_answer_leaves_no_preview_behind(tmp_path: Path) -> None:
    """The answer was owed and not sent when `/stop` came: what was shown says that nothing follows."""
    platform, agent = editable(), Speaker("the")
    async with serving(tmp_path, platform, agent=agent) as gateway:
        platform.write("hello")
        await eventually("its receipt is on record", lambda: _states(gateway, "shown"))
        platform.reachable = False
        agent.go_on.set()
        await eventually("the answer waits for its platform", lambda: _put_back(gateway))
        session = await gateway.store.sessions.current("agent:main:simulated:dm:1")
        assert session is not None
        await gateway.operator_verbs.stop(session)
        platform.reachable = True
        await sees(platform, texts.delivery.PREVIEW_UNFINISHED)


async def _put_back(gateway: Gateway) -> bool:
    """Whether the answer was tried in vain, and is not being sent at this moment."""
    return [(row.state, bool(row.problem)) for row in await gateway.store.outbox.open_deliveries()] == [
        ("owed", True)
    ]

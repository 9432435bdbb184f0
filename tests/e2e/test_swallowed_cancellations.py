"""Cancellations that an agent or a tool swallows: what comes after them is neither an answer nor a result.

Drives `runtime/attempt` and `agents/tool_calls`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from perdure.agents.api import Reply, TurnContext
from perdure.agents.builtin_agent import BuiltinAgent
from perdure.agents.custom.function import FunctionAgent
from perdure.agents.custom.steps import StepContext
from perdure.agents.offline_model import OfflineModel
from perdure.core import texts
from perdure.core.effects import Effect
from perdure.core.journal import ModelAnswered, ToolEnded, TurnView
from perdure.core.states import TurnState
from perdure.core.tools import Tool, Use
from perdure.testing import SimulatedPlatform
from support.inprocess import serving
from support.recovery import interruption_reasons, key_of, last_turn, wait_for_replies
from support.shutdown import read_only_store, wait_until_stopped

pytestmark = pytest.mark.anyio

STOPPING = texts.recovery.banner(restart=False)
NO_TIME = {"DRAIN__DEADLINE": "0s"}


class Swallowing:
    """An agent that catches its first cancellation and does something else instead; then it answers at once."""

    def __init__(self, instead: str) -> None:
        self._instead = instead
        self.running = asyncio.Event()

    async def run(self, context: TurnContext) -> Reply:
        if self.running.is_set():
            return Reply("the whole answer")
        self.running.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return await self._go_on(context)
        raise AssertionError("nobody wakes this agent")

    async def _go_on(self, context: TurnContext) -> Reply:
        half = "Sorry, I was interrupted."
        if self._instead == "asks":
            await context.ask("q1", half, ("yes", "no"))
        closing = (ModelAnswered(1, half, (), "stop"),) if self._instead == "answers with a final response" else ()
        return Reply(half, closing)


@pytest.mark.parametrize("instead", ["answers", "answers with a final response", "asks"])
async def test_b15_turn_stays_interrupted_and_is_resumed_when_its_agent_swallows_the_cancellation(
    tmp_path: Path, instead: str
) -> None:
    platform, agent = SimulatedPlatform(), Swallowing(instead)
    async with serving(tmp_path, platform, agent=agent, **NO_TIME) as gateway:
        platform.write("work")
        await agent.running.wait()
        gateway.stop()
        await wait_until_stopped(gateway)
    async with read_only_store(tmp_path) as store:
        cut = await last_turn(store, key_of(platform))
    assert (cut.state, interruption_reasons(cut), cut.responses) == (
        TurnState.INTERRUPTED,
        ["shutdown_timeout"],
        [],
    )
    assert platform.replies() == [STOPPING]
    async with serving(tmp_path, platform, agent=agent) as gateway:
        await wait_for_replies(platform, STOPPING, "the whole answer")
        assert (await last_turn(gateway.store, key_of(platform))).attempt == 2


class Stubborn:
    """A step that catches its cancellation and returns all the same."""

    def __init__(self) -> None:
        self.running = asyncio.Event()
        self.runs = 0

    async def send(self) -> str:
        self.runs += 1
        self.running.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "sent, I believe"
        raise AssertionError("nobody wakes this step")

    async def as_tool(self, use: Use) -> str:
        return await self.send()

    async def as_step(self, turn: StepContext) -> str:
        try:
            return f"said: {await turn.step('send', self.send)}"
        except Exception as error:  # noqa: BLE001 reason: whatever it is, the answer tells
            return f"{type(error).__name__}"


def results(view: TurnView) -> list[tuple[str, str]]:
    ended = [record.entry for record in view.records if isinstance(record.entry, ToolEnded)]
    return [(entry.outcome, entry.text) for entry in ended]


async def test_b15_tool_that_returns_after_its_cancellation_has_an_unknown_outcome(tmp_path: Path) -> None:
    platform, stubborn = SimulatedPlatform(), Stubborn()
    agent = BuiltinAgent(OfflineModel(), [Tool("once", "sends", stubborn.as_tool, Effect.ONCE)])
    async with serving(tmp_path, platform, agent=agent, **NO_TIME) as gateway:
        platform.write("once send\nsay: done")
        await stubborn.running.wait()
        gateway.stop()
        await wait_until_stopped(gateway)
    async with read_only_store(tmp_path) as store:
        assert results(await last_turn(store, key_of(platform))) == []
    async with serving(tmp_path, platform, agent=agent) as gateway:
        await wait_for_replies(platform, STOPPING, "done")
        assert results(await last_turn(gateway.store, key_of(platform))) == [
            ("unknown", texts.tool_calls.OUTCOME_UNKNOWN)
        ]
    assert stubborn.runs == 1


async def test_b15_step_that_returns_after_its_cancellation_has_an_unknown_outcome(tmp_path: Path) -> None:
    platform, stubborn = SimulatedPlatform(), Stubborn()
    agent = FunctionAgent(stubborn.as_step)
    async with serving(tmp_path, platform, agent=agent, **NO_TIME) as gateway:
        platform.write("work")
        await stubborn.running.wait()
        gateway.stop()
        await wait_until_stopped(gateway)
    async with read_only_store(tmp_path) as store:
        cut = await last_turn(store, key_of(platform))
    assert (cut.state, results(cut)) == (TurnState.INTERRUPTED, [])
    async with serving(tmp_path, platform, agent=agent):
        await wait_for_replies(platform, STOPPING, "OutcomeUnknown")
    assert stubborn.runs == 1

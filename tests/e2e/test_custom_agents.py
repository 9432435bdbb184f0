"""Agents of one's own in a real gateway: what people are told, and what a resumed turn does not repeat.

Drives `agents/custom` and `runtime/agent_factory`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pydantic_ai
import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from perdure.agents import Agent, FunctionAgent, PydanticAgent, StepContext
from perdure.core import texts
from perdure.testing import SimulatedPlatform
from support.inprocess import crashing_at_the_end, serving
from support.waiting import eventually

pytestmark = pytest.mark.anyio


class Office:
    """What an agent can do, and what was done. A step named `hang` never ends in the first gateway."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.hangs = True

    async def do(self, what: str) -> str:
        self.done.append(what)
        if what == "hang" and self.hangs:
            await asyncio.Event().wait()
        return what


def careful(office: Office, effect: str) -> Agent:
    async def answer(context: StepContext) -> str:
        await context.step("send", office.do, f"send {context.message}")
        await context.step("hang", office.do, "hang", effect=effect)
        return f"{context.message} is sent."

    return FunctionAgent(answer)


async def replies(platform: SimulatedPlatform, *texts: str) -> None:
    await eventually(f"the chat sees {texts}", lambda: platform.replies() == list(texts))


async def hanging(office: Office) -> None:
    await eventually("the step hangs", lambda: "hang" in office.done)


async def test_b61_pure_step_is_run_again_and_b46_a_finished_one_is_not(tmp_path: Path) -> None:
    platform, office = SimulatedPlatform(), Office()
    async with crashing_at_the_end(tmp_path, platform, agent=careful(office, "pure")):
        platform.write("mail")
        await hanging(office)
    office.hangs = False
    async with serving(tmp_path, platform, agent=careful(office, "pure")):
        await replies(platform, "mail is sent.")
    assert office.done == ["send mail", "hang", "hang"]


async def test_b62_person_is_told_that_an_outcome_is_unknown(tmp_path: Path) -> None:
    platform, office = SimulatedPlatform(), Office()
    async with crashing_at_the_end(tmp_path, platform, agent=careful(office, "once")):
        platform.write("mail")
        await hanging(office)
    unknown = texts.turns.failed(
        texts.agents.step_outcome_unknown("hang(what='hang')", texts.agents.STEP_INTERRUPTED)
    )
    async with serving(tmp_path, platform, agent=careful(office, "once")):
        await replies(platform, unknown)
    assert office.done == ["send mail", "hang"]


async def test_b49_message_that_joins_gets_its_own_answer_in_the_same_reply(tmp_path: Path) -> None:
    platform, office = SimulatedPlatform(), Office()
    async with crashing_at_the_end(tmp_path, platform, agent=careful(office, "pure")):
        platform.write("mail")
        await hanging(office)
    office.hangs = False
    settings = {"RECOVERY__POLICY": "off"}
    async with serving(tmp_path, platform, agent=careful(office, "pure"), **settings):
        await eventually("the chat hears that it does not go on", lambda: len(platform.replies()) == 1)
        platform.write("letter")
        await eventually("the chat gets an answer", lambda: len(platform.replies()) == 2)
    assert platform.replies()[-1] == "mail is sent.\n\nletter is sent."
    assert office.done == ["send mail", "hang", "hang", "send letter", "hang"]


async def test_what_was_set_aside_goes_on_without_repeating_a_finished_step(tmp_path: Path) -> None:
    platform, office = SimulatedPlatform(), Office()
    async with serving(tmp_path, platform, agent=careful(office, "pure")) as gateway:
        platform.write("mail")
        await hanging(office)
        (session,) = await gateway.store.sessions.page()
        assert await gateway.operator_verbs.suspend(session)
        office.hangs = False
        platform.write("/resume")
        await eventually("it is sent", lambda: "mail is sent." in platform.replies())
    assert office.done == ["send mail", "hang", "hang"]


async def test_person_is_told_politely_when_a_function_fails(tmp_path: Path) -> None:
    async def answer(context: StepContext) -> str:
        raise ZeroDivisionError

    platform = SimulatedPlatform()
    async with serving(tmp_path, platform, agent=FunctionAgent(answer)):
        platform.write("hello")
        await replies(platform, texts.turns.failed(texts.turns.AGENT_CRASHED))


async def test_b60_pydantic_agent_runs_only_the_missing_call_of_a_set(tmp_path: Path) -> None:
    """B62: and the one that was cut off is told as unknown."""
    office = Office()

    async def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if not any(isinstance(message, ModelResponse) for message in messages):
            return ModelResponse([ToolCallPart("do", {"what": what}) for what in ("send", "hang")])
        results = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
        return ModelResponse([TextPart("; ".join(str(part.content) for part in results))])

    agent = PydanticAgent(pydantic_ai.Agent(FunctionModel(respond), tools=[office.do]))
    platform = SimulatedPlatform()
    async with crashing_at_the_end(tmp_path, platform, agent=agent) as gateway:
        platform.write("go")
        await hanging(office)
        (session,) = await gateway.store.sessions.page()

        async def kept() -> bool:
            records = await gateway.store.journal.read_after(session.id, 0)
            return any(record.entry.kind == "tool_ended" for _, record in records)

        await eventually("one result is on record", kept)
    async with serving(tmp_path, platform, agent=agent):
        await eventually("the chat gets an answer", lambda: platform.replies())
    assert platform.replies() == [f"send; {texts.tool_calls.OUTCOME_UNKNOWN}"]
    assert office.done == ["send", "hang"]

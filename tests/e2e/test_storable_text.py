"""Text that no database takes is cleaned where it enters, whoever it comes from (B14).

Drives `core/storable_text`, `runtime/intake`, `store/journal` and `store/outbox`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest
from msgspec.structs import replace

from perdure.agents import Agent, FunctionAgent, StepContext
from perdure.agents.api import ModelRequest, PreviewCallback, Reply, TurnContext
from perdure.agents.builtin_agent import BuiltinAgent
from perdure.core import texts
from perdure.core.effects import Effect
from perdure.core.journal import Entry, ModelAnswered, ToolCall, ToolEnded, TurnFailed, TurnFinished, fold
from perdure.core.messages import Attachment, Inbound, Outbound, Receipt, Sender
from perdure.core.tools import Tool, Use
from perdure.errors import ModelError, NotConnected, SendRefused, ToolFailed
from perdure.platforms.api import Capabilities, Event
from perdure.runtime.gateway import Gateway
from perdure.testing import SimulatedPlatform, gateways
from perdure.testing.simulated_platform import SimulatedAdapter
from support.inprocess import serving
from support.waiting import eventually

pytestmark = pytest.mark.anyio

E = TypeVar("E", bound=Entry)

HALF = "\ud83d"  # the first half of the surrogate pair of an emoji
BAD = f"a{HALF}b\0c"
CLEAN = "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}c"
SEEN = "a\N{REPLACEMENT CHARACTER}bc"  # replies leave zero bytes out


async def replies(platform: SimulatedPlatform, *texts: str, chat: str = "1") -> None:
    await eventually(f"chat {chat} sees {texts}", lambda: platform.replies(chat) == list(texts))


async def neighbour_is_served(platform: SimulatedPlatform) -> None:
    platform.write("say: hello", chat="2")
    await eventually("another chat is answered", lambda: bool(platform.replies("2")))


class Own:
    """An agent that greets whoever wants it to, and answers everybody else with a function."""

    def __init__(self, answer: Callable[[TurnContext], Awaitable[Reply]]) -> None:
        self._answer = answer

    async def run(self, context: TurnContext) -> Reply:
        greets = context.view.causes[-1].text.startswith("say:")
        return Reply("hello") if greets else await self._answer(context)


def agent_that(answer: Callable[[TurnContext], Awaitable[Reply]]) -> Agent:
    return Own(answer)


async def test_b14_half_an_emoji_in_a_providers_error_fails_one_turn(tmp_path: Path) -> None:
    async def refused(context: TurnContext) -> Reply:
        raise ModelError(f"the provider said {BAD}")

    platform = SimulatedPlatform()
    async with serving(tmp_path, platform, agent=agent_that(refused)) as gateway:
        platform.write("hi")
        await replies(platform, texts.turns.failed(f"the provider said {SEEN}"))
        await neighbour_is_served(platform)
        [error] = [entry.error for entry in await entries(gateway, TurnFailed)]
        assert error == f"the provider said {CLEAN}"


async def test_b14_answer_with_half_an_emoji_is_shown_and_stored_alike(tmp_path: Path) -> None:
    async def answer(context: TurnContext) -> Reply:
        return Reply(BAD, (ModelAnswered(1, BAD, (), "stop"),))

    platform = SimulatedPlatform()
    async with serving(tmp_path, platform, agent=agent_that(answer)) as gateway:
        platform.write("hi")
        await replies(platform, SEEN)
        assert [entry.text for entry in await entries(gateway, TurnFinished)] == [CLEAN]


async def test_b14_growing_answer_with_half_an_emoji_is_shown_clean(tmp_path: Path) -> None:
    async def answer(context: TurnContext) -> Reply:
        context.show(f"so far {BAD}")
        await eventually("the preview is shown", lambda: bool(platform.drafts))
        return Reply("done")

    platform = SimulatedPlatform(capabilities=Capabilities(idempotent_send=True, keeps_missed=True, edit=True))
    async with serving(tmp_path, platform, agent=agent_that(answer)):
        platform.write("hi")
        await replies(platform, "done")
    assert [draft.startswith(f"so far {CLEAN}") for draft in platform.drafts] == [True]


async def test_b14_question_with_half_an_emoji_is_asked_clean(tmp_path: Path) -> None:
    async def ask(context: TurnContext) -> Reply:
        await context.ask("q1", f"which {BAD}?", (f"this {HALF}", "that"))

    platform = SimulatedPlatform()
    async with serving(tmp_path, platform, agent=agent_that(ask)):
        platform.write("hi")
        cleaned = "this \N{REPLACEMENT CHARACTER}"
        await replies(platform, texts.chat_commands.background_question(None, f"which {SEEN}?", [cleaned, "that"]))


class Scripted:
    """A model that uses a tool once, and then says what it read."""

    name = "scripted"
    window = 100_000

    def __init__(self) -> None:
        self.read: list[str] = []

    async def close(self) -> None: ...

    async def respond(self, request: ModelRequest, show_preview: PreviewCallback | None = None) -> ModelAnswered:
        if request.step == 1:
            return ModelAnswered(1, "", (ToolCall("c1", "look", {"at": BAD}),), "tool_calls")
        self.read.append(str(request.messages[-1]))
        return ModelAnswered(2, "done", (), "stop")


@pytest.mark.parametrize("fails", [False, True], ids=["a result", "a failure"])
async def test_b14_tool_with_half_an_emoji_is_read_and_stored_alike(tmp_path: Path, fails: bool) -> None:
    seen: list[str] = []

    async def run(use: Use) -> str:
        seen.append(use.arguments["at"])
        if fails:
            raise ToolFailed(f"no such file: {BAD}")
        return BAD

    model, platform = Scripted(), SimulatedPlatform()
    agent = BuiltinAgent(model, [Tool("look", "looks", run, Effect.PURE, {"type": "object"})])
    async with serving(tmp_path, platform, agent=agent) as gateway:
        platform.write("hi")
        await replies(platform, "done")
        [ended] = await entries(gateway, ToolEnded)
    assert CLEAN in ended.text
    assert CLEAN in model.read[0]
    assert seen == [CLEAN]


async def test_b14_message_is_cleaned_with_the_names_of_its_sender_and_files(tmp_path: Path) -> None:
    platform, heard = SimulatedPlatform(), list[tuple[str, str, list[str]]]()

    async def answer(context: TurnContext) -> Reply:
        [cause] = context.view.causes
        heard.append((cause.text, cause.sender.name, [file.name for file in cause.attachments]))
        return Reply(f"you said {cause.text}")

    async with gateways.serving(tmp_path, [DirtyAdapter(platform)], agent=agent_that(answer)):
        platform.write("hi", files=["note.txt"])
        await replies(platform, f"you said {CLEAN}")
    assert [(text, name) for text, name, _ in heard] == [(CLEAN, CLEAN)]
    assert HALF not in heard[0][2][0]


class DirtyAdapter(SimulatedAdapter):
    """Hands over what a careless adapter would: half characters in every text."""

    def _event(self, inbound: Inbound) -> Event:
        event = super()._event(inbound)
        said = event.inbound
        assert said is not None
        files = tuple(Attachment(f"{BAD}.txt", file.reference) for file in said.attachments)
        dirty = replace(said, text=BAD, sender=Sender(said.sender.id, BAD), attachments=files)
        return replace(event, raw=BAD, inbound=dirty)


async def test_b14_rejected_event_with_half_an_emoji_is_kept(tmp_path: Path) -> None:
    platform = SimulatedPlatform()
    async with serving(tmp_path, platform) as gateway:
        platform.garble(BAD)
        await eventually("it is acknowledged", lambda: not platform.garbled_events())
        kept = await gateway.store.database.read(lambda tx: tx.all("SELECT state, raw FROM inbox"))
    assert kept == [("rejected", CLEAN)]


class Refusing(SimulatedAdapter):
    """Fails with words that no database takes."""

    problem: type[Exception] = SendRefused

    async def send(self, outbound: Outbound) -> Receipt:
        if outbound.address.chat == "1":
            raise self.problem(f"it said {BAD}")
        return await super().send(outbound)


class Failing(Refusing):
    problem = RuntimeError


@pytest.mark.parametrize("adapter", [Refusing, Failing], ids=["a refusal", "a defect"])
async def test_b14_platforms_error_with_half_an_emoji_is_on_record(
    tmp_path: Path, adapter: type[SimulatedAdapter], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "perdure.delivery")  # its traceback has words that no report can carry
    platform = SimulatedPlatform()
    async with gateways.serving(tmp_path, [adapter(platform)]) as gateway:
        platform.write("say: hi")
        await eventually("the problem is on record", lambda: has_problem(gateway, f"it said {CLEAN}"))
        await neighbour_is_served(platform)


async def has_problem(gateway: Gateway, problem: str) -> bool:
    sql = "SELECT 1 FROM outbox WHERE problem = :problem"
    return await gateway.store.database.read(lambda tx: tx.one(sql, problem=problem)) is not None


class Unreachable(SimulatedAdapter):
    async def receive(self) -> AsyncGenerator[Event]:
        raise NotConnected(f"it said {BAD}")
        yield


async def test_b14_reason_of_a_lost_connection_with_half_an_emoji_can_be_told(tmp_path: Path) -> None:
    platform, other = SimulatedPlatform(), SimulatedPlatform("other")
    adapters = [Unreachable(platform), other.adapter()]
    async with gateways.serving(tmp_path, adapters) as gateway:
        await eventually("it says why", lambda: gateway.problems() == [f"simulated: it said {CLEAN}"])
        other.write("/status")
        await eventually("its chat is told", lambda: any(f"it said {CLEAN}" in text for text in other.replies()))


async def test_b14_step_of_an_own_agent_with_half_an_emoji_is_on_record(tmp_path: Path) -> None:
    def careless(words: str) -> str:
        return f"{words}{BAD}"

    async def answer(context: StepContext) -> str:
        return str(await context.step("careless", careless, BAD))

    platform = SimulatedPlatform()
    async with serving(tmp_path, platform, agent=FunctionAgent(answer)):
        platform.write("hi")
        await replies(platform, CLEAN + CLEAN)


async def test_b14_operators_verb_with_half_an_emoji_finds_nothing_and_harms_nothing(tmp_path: Path) -> None:
    platform = SimulatedPlatform()
    async with serving(tmp_path, platform) as gateway:
        assert await gateway.store.sessions.find_by_name(BAD) == []
        assert await gateway.store.outbox.get(BAD) is None
        platform.write("say: hi")
        await replies(platform, "hi")


async def entries(gateway: Gateway, kind: type[E]) -> list[E]:
    found = []
    for session in await gateway.store.sessions.page():
        for turn in await gateway.store.turns.of_session(session.id):
            view = fold(await gateway.store.journal.of_turn(turn.session, turn.id))
            found += [record.entry for record in view.records if isinstance(record.entry, kind)]
    return found

"""Conversations with models that read little: a real gateway, and a provider whose window is small.

Drives `agents/compaction` and `core/context_window`.

Drives agents/loop, agents/summaries, agents/windows, core/compaction and core/windows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import get_args

import pytest

from perdure.core import texts
from perdure.runtime.gateway import Gateway
from perdure.testing import SimulatedPlatform
from perdure.testing.providers import Answer, Asked, Fails, LocalProvider, Says, Window
from perdure.testing.providers.context_window import ServerKind
from support.gateway import Person, gateway
from support.inprocess import crashing_at_the_end, serving
from support.waiting import eventually

pytestmark = pytest.mark.anyio

SERVERS = get_args(ServerKind)
every_server = pytest.mark.parametrize("server", SERVERS)
LONG = "a long answer" + " and more" * 300
FAILED = "I could not finish this: "


@pytest.fixture
def provider() -> Iterator[LocalProvider]:
    with LocalProvider(chatting) as provider:
        yield provider
        assert provider.refusals == [], "B64: every request was as its provider wants it"


def settings(provider: LocalProvider) -> dict[str, str]:
    return {
        "MODEL__NAME": "openai:local",
        "MODEL__BASE_URL": provider.openai_url,
        "MODEL__API_KEY": provider.key,
        "AGENT__TOOLS": "clarify",
    }


def served(
    tmp_path: Path, provider: LocalProvider, platform: SimulatedPlatform, **more: str
) -> AbstractAsyncContextManager[Gateway]:
    return serving(tmp_path, platform, **settings(provider) | more)


def is_summary(asked: Asked) -> bool:
    return "Sum up the conversation below" in asked.text


def chatting(asked: Asked) -> Answer:
    """A summary is short; a message is answered by its number and some words."""
    return Says("IN SHORT: small talk") if is_summary(asked) else Says(answer(int(asked.text.split()[1])))


def answer(number: int) -> str:
    return f"answer {number}" + " and so on" * 8


def message(number: int) -> str:
    return f"message {number} " + "please tell me something more about it " * 3


async def conversation(platform: SimulatedPlatform, first: int, last: int) -> None:
    """Small messages, one after the other, each of which has its answer before the next is written."""
    for number in range(first, last + 1):
        platform.write(message(number))
        await sees(platform, *map(answer, range(1, number + 1)))


async def sees(platform: SimulatedPlatform, *texts: str) -> None:
    await eventually(f"the chat sees {texts[-1]!r}", lambda: platform.replies() == list(texts))


async def the_reply(platform: SimulatedPlatform, number: int) -> str:
    await eventually(f"there are {number} replies", lambda: len(platform.replies()) == number)
    return platform.replies()[number - 1]


def outcomes(provider: LocalProvider) -> list[str]:
    return [asked.outcome for asked in provider.requests]


# ── long conversations of small messages ────────────────────────────────────────────────────────────────────


@every_server
@pytest.mark.parametrize("tells", [True, False], ids=["told", "untold"])
async def test_b87_each_of_thirty_messages_is_answered_in_a_small_window(
    tmp_path: Path, provider: LocalProvider, server: ServerKind, tells: bool
) -> None:
    provider.window = Window(1024, server, tells)
    platform = SimulatedPlatform()
    async with served(tmp_path, provider, platform):
        await conversation(platform, 1, 30)
    assert "IN SHORT: small talk" in json.dumps(provider.requests[-1].messages)
    assert outcomes(provider).count("too long") <= 3, "the window is learnt once, not with every message"


def test_b87_each_of_thirty_streamed_messages_is_answered_over_a_kill(
    tmp_path: Path, provider: LocalProvider
) -> None:
    """Also when the gateway is killed in between, and has to learn the window again."""
    provider.window = Window(1024)
    with gateway(tmp_path / "home", **settings(provider)) as process:
        person = Person(process)
        for number in range(1, 31):
            if number == 16:
                process.kill()
                process.start()
            person.say(message(number))
            assert person.wait_for_replies(number)[number - 1] == answer(number)
    assert any(map(is_summary, provider.requests))


async def test_b87_window_that_was_configured_too_large_is_corrected(
    tmp_path: Path, provider: LocalProvider
) -> None:
    provider.window = Window(1024, tells=False)
    platform = SimulatedPlatform()
    async with served(tmp_path, provider, platform, MODEL__CONTEXT="200000"):
        await conversation(platform, 1, 15)
    assert any(map(is_summary, provider.requests))
    assert outcomes(provider).count("too long") <= 3


async def test_b87_conversation_fits_when_its_letters_are_many_tokens_each(
    tmp_path: Path, provider: LocalProvider
) -> None:
    provider.script = lambda asked: Says("简而言之" if is_summary(asked) else "好的")
    provider.window = Window(1024)
    platform = SimulatedPlatform()
    async with served(tmp_path, provider, platform):
        for number in range(1, 13):
            platform.write("请再给我讲讲这件事情好不好" * 8)
            await sees(platform, *["好的"] * number)


async def test_b87_conversation_from_a_larger_model_is_summed_up_in_parts(
    tmp_path: Path, provider: LocalProvider
) -> None:
    """It is longer than the small model could read for a summary of all of it."""
    platform = SimulatedPlatform()
    async with served(tmp_path, provider, platform):
        await conversation(platform, 1, 30)
    assert not any(map(is_summary, provider.requests))
    provider.window = Window(1024)
    provider.requests.clear()
    async with served(tmp_path, provider, platform):
        await conversation(platform, 31, 31)
    summaries = [asked for asked in provider.requests if is_summary(asked)]
    assert len(summaries) > 1
    assert "message 1 " in summaries[0].text
    assert "message 1 " not in summaries[-1].text


# ── answers that are cut off ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("tells", [True, False], ids=["told", "untold"])
async def test_b87_conversation_is_shortened_and_asked_again_when_its_answer_found_no_room(
    tmp_path: Path, provider: LocalProvider, tells: bool
) -> None:
    provider.window = Window(1024, tells=tells)
    platform = SimulatedPlatform()
    async with served(tmp_path, provider, platform):
        await conversation(platform, 1, 6)
        provider.script = lambda asked: Says("IN SHORT: small talk" if is_summary(asked) else LONG)
        platform.write("message 7, for which there is no room")
        assert await the_reply(platform, 7) == LONG
    assert any(map(is_summary, provider.requests))


async def test_b87_shortening_is_made_up_for_after_a_crash(tmp_path: Path, provider: LocalProvider) -> None:
    """The answer that was cut off is on record, and the gateway dies before the summary is made."""
    provider.window = Window(1024)
    platform = SimulatedPlatform()
    async with served(tmp_path, provider, platform):
        await conversation(platform, 1, 6)
    provider.script = lambda asked: Fails(503) if is_summary(asked) else Says(LONG)
    async with crashing_at_the_end(tmp_path, platform, **settings(provider)):
        platform.write("message 7, for which there is no room")
        await eventually("a summary is asked for", lambda: any(map(is_summary, provider.requests)))
    provider.script = lambda asked: Says("IN SHORT: small talk" if is_summary(asked) else LONG)
    async with served(tmp_path, provider, platform):
        await eventually("it is answered once", lambda: platform.replies()[6:] == [LONG])


async def test_b87_limit_of_the_answers_is_not_taken_for_a_window(tmp_path: Path, provider: LocalProvider) -> None:
    """A service that cuts every answer at 40 tokens, whatever was asked: its window is as large as before."""
    provider.window = Window(100_000, tells=False)
    platform = SimulatedPlatform()
    async with served(tmp_path, provider, platform):
        await conversation(platform, 1, 5)
        cut = Says("word " * 40, finish="length")
        provider.script = lambda asked: Says("IN SHORT: small talk") if is_summary(asked) else cut
        platform.write("message 6")
        assert await the_reply(platform, 6) == texts.turns.model_reply(cut.text, cut=True)
        provider.script = chatting
        provider.requests.clear()
        for number in range(7, 20):
            platform.write(message(number))
            assert await the_reply(platform, number) == answer(number)
    assert not any(map(is_summary, provider.requests))


# ── what no shortening helps with ───────────────────────────────────────────────────────────────────────────


async def test_b69_b87_answer_that_never_fits_is_told_as_cut(tmp_path: Path, provider: LocalProvider) -> None:
    """There is no earlier conversation to leave out for its sake, so it is not asked for again."""
    provider.window = Window(1024)
    provider.script = lambda asked: Says("IN SHORT: small talk" if is_summary(asked) else "on and " * 2000)
    platform = SimulatedPlatform()
    async with served(tmp_path, provider, platform):
        platform.write("tell me everything")
        told = await the_reply(platform, 1)
    assert told.startswith("on and on and")
    assert told.endswith(texts.turns.ANSWER_TRUNCATED)
    assert len(provider.requests) == 1


@every_server
async def test_b87_message_that_alone_does_not_fit_is_told_and_the_next_is_answered(
    tmp_path: Path, provider: LocalProvider, server: ServerKind
) -> None:
    provider.window = Window(1024, server)
    platform = SimulatedPlatform()
    async with served(tmp_path, provider, platform):
        platform.write("message 1 " + "which is far too long " * 400)
        told = await the_reply(platform, 1)
        assert told.startswith(f"{FAILED}this message is too long for the model: it has about 2")
        assert told.endswith("Send it again in shorter parts.")
        assert len(provider.requests) <= 2
        platform.write(message(2))
        assert await the_reply(platform, 2) == answer(2)


@every_server
@pytest.mark.parametrize("tells", [True, False], ids=["told", "untold"])
async def test_b87_instructions_that_alone_do_not_fit_are_told_with_their_sizes(
    tmp_path: Path, provider: LocalProvider, server: ServerKind, tells: bool
) -> None:
    """Nothing is asked again and again: there is nothing to leave out."""
    provider.window = Window(1024, server, tells)
    platform = SimulatedPlatform()
    async with served(tmp_path, provider, platform, AGENT__TOOLS="*", AGENT__SYSTEM_PROMPT="Be kind. " * 100):
        platform.write("hello")
        told = await the_reply(platform, 1)
    sized = re.search(
        r"what it must read before any message does not fit: the system prompt has about (\d+), ", told
    )
    assert sized is not None and int(sized[1]) > 225, "the operator's words, and what is said of the sandbox"
    assert "fewer tools (`agent.tools`)" in told
    assert len(provider.requests) <= 1


async def test_b87_summary_that_fails_says_that_it_was_the_summary(
    tmp_path: Path, provider: LocalProvider
) -> None:
    provider.window = Window(1024)
    platform = SimulatedPlatform()
    async with served(tmp_path, provider, platform):
        await conversation(platform, 1, 7)
        provider.script = lambda asked: Fails(400, message="No.") if is_summary(asked) else chatting(asked)
        platform.write(message(8) * 14)
        told = await the_reply(platform, 8)
    assert told.startswith(FAILED + texts.agents.compaction_failed(texts.agents.provider_refused("No.")))

"""Words of somebody who may less become a turn of their own, and never join a turn of somebody who may more.

Drives `store/authorisation`, `store/claims`, `store/queue`, `store/answers` and `core/roles`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.core import texts
from perdure.core.journal import TurnView
from perdure.core.states import TurnState
from perdure.runtime.gateway import Gateway
from support.pairing import PairingScenario, change_people
from support.recovery import last_turn, turn_views
from support.waiting import eventually

pytestmark = pytest.mark.anyio

SCRIPT = "step a\nstep b\nsay: done"
ROOM, GROUP = "agent:main:web:dm:room", "agent:main:web:group:g"
TOOLS = '{"guest": ["step"], "member": ["step", "shell", "clarify"]}'  # everybody in here has less than an owner

# Who begins a turn, who writes to it, and the chat that both are in. In a group, a guest has another conversation.
pairs = pytest.mark.parametrize(
    ("begins", "writes", "chat"),
    [
        pytest.param("ann", "gus", "room", id="a guest to an owner"),
        pytest.param("bob", "gus", "room", id="a guest to a member"),
        pytest.param("ann", "bob", "g", id="a member with fewer tools to an owner"),
    ],
)


def house_of_rights(tmp_path: Path, *stuck: str, **settings: str) -> PairingScenario:
    return PairingScenario(tmp_path, *stuck, **{"TOOLS__BY_ROLE": TOOLS, "QUEUE__QUIET": "0", **settings})


def key_of(chat: str) -> str:
    return GROUP if chat == "g" else ROOM


async def people(gateway: Gateway) -> None:
    """Beside ann, who owns the gateway, bob is a member and gus is a guest."""
    await change_people(gateway, "add", who="web:bob")
    await change_people(gateway, "add", who="web:gus", role="guest")


def causes(views: list[TurnView]) -> list[list[tuple[str, str]]]:
    return [[(cause.sender.id, cause.text) for cause in view.causes] for view in views]


# ── a turn that runs ────────────────────────────────────────────────────────────────────────────────────────


@pairs
@pytest.mark.parametrize("mode", ["queue", "steer", "collect"])
async def test_b105_words_of_somebody_who_may_less_join_no_running_turn(
    tmp_path: Path, begins: str, writes: str, chat: str, mode: str
) -> None:
    house = house_of_rights(tmp_path, "b", QUEUE__MODE=mode)
    async with house.serving() as here:
        await people(here)
        house.platform.write(SCRIPT, chat=chat, sender=begins)
        await house.agent_harness.wait_until_hanging()
        house.platform.write("say: mine", chat=chat, sender=writes)
        await house.wait_until_acknowledged()
        house.agent_harness.release()
        await house.wait_for_replies("done", "mine", chat=chat)
        found = causes(await turn_views(here.store, key_of(chat)))
    assert found == [[(begins, SCRIPT)], [(writes, "say: mine")]]


@pairs
async def test_b105_steer_by_command_joins_no_turn_of_somebody_who_may_more(
    tmp_path: Path, begins: str, writes: str, chat: str
) -> None:
    house = house_of_rights(tmp_path, "b")
    async with house.serving() as here:
        await people(here)
        house.platform.write(SCRIPT, chat=chat, sender=begins)
        await house.agent_harness.wait_until_hanging()
        house.platform.write("/steer say: mine", chat=chat, sender=writes)
        refused = writes == "gus"  # a guest may not give that command at all
        await eventually("it is answered", lambda: len(house.platform.replies(chat)) == 1)
        house.agent_harness.release()
        await eventually("all is answered", lambda: len(house.platform.replies(chat)) == (2 if refused else 3))
        found = causes(await turn_views(here.store, key_of(chat)))
    assert found == [[(begins, SCRIPT)], *([] if refused else [[(writes, "say: mine")]])]


async def test_b105_collected_messages_share_a_turn_only_up_to_the_first_of_somebody_who_may_less(
    tmp_path: Path,
) -> None:
    house = house_of_rights(tmp_path, "b", QUEUE__MODE="collect")
    async with house.serving() as here:
        await people(here)
        house.platform.write(SCRIPT, chat="room", sender="ann")
        await house.agent_harness.wait_until_hanging()
        for who, text in (("ann", "say: one"), ("ann", "say: two"), ("gus", "say: mine"), ("ann", "say: three")):
            house.platform.write(text, chat="room", sender=who)
            await house.wait_until_acknowledged()
        house.agent_harness.release()
        await eventually("all is answered", lambda: len(house.platform.replies("room")) == 3)
        found = causes(await turn_views(here.store, ROOM))
        rights = [
            await here.loops.access.tool_rights(turn)
            for turn in await here.store.turns.of_session((await here.store.sessions.of_key(ROOM))[0].id)
        ]
    assert found[1:] == [[("ann", "say: one"), ("ann", "say: two")], [("gus", "say: mine"), ("ann", "say: three")]]
    assert [each.role for each in rights] == ["owner", "owner", "guest"], "more rights do not come with words"


async def test_b105_words_of_somebody_who_may_more_join_and_the_turn_keeps_its_right(tmp_path: Path) -> None:
    house = house_of_rights(tmp_path, "b", QUEUE__MODE="steer")
    async with house.serving() as here:
        await people(here)
        house.platform.write(SCRIPT, chat="g", sender="bob")
        await house.agent_harness.wait_until_hanging()
        house.platform.write("once c 0s\nsay: and that", chat="g", sender="ann")
        await house.wait_until_acknowledged()
        house.agent_harness.release()
        await house.wait_for_replies("done\nand that", chat="g")
        view = await last_turn(here.store, GROUP)
    assert causes([view]) == [[("bob", SCRIPT), ("ann", "once c 0s\nsay: and that")]]
    refusals = [call.ended.text for call in view.calls.values() if call.ended and call.request.tool == "once"]
    assert refusals == [texts.tool_calls.not_permitted("once", "member")]
    assert house.agent_harness.run_counts["c"] == 0


async def test_b105_members_with_the_tools_of_owners_join_as_ever(tmp_path: Path) -> None:
    house = PairingScenario(tmp_path, "b", QUEUE__MODE="steer")
    async with house.serving() as here:
        await people(here)
        house.platform.write(SCRIPT, chat="g", sender="ann")
        await house.agent_harness.wait_until_hanging()
        house.platform.write("say: and that", chat="g", sender="bob")
        await house.wait_until_acknowledged()
        house.agent_harness.release()
        await house.wait_for_replies("done\nand that", chat="g")


# ── a turn that was cut off ─────────────────────────────────────────────────────────────────────────────────


@pairs
async def test_b105_words_of_somebody_who_may_less_join_no_turn_that_was_cut_off(
    tmp_path: Path, begins: str, writes: str, chat: str
) -> None:
    house = house_of_rights(tmp_path, "b", RECOVERY__POLICY="ask")
    async with house.crashing() as here:
        await people(here)
        house.platform.write(SCRIPT, chat=chat, sender=begins)
        await house.agent_harness.wait_until_hanging()
    house.agent_harness.release()
    house.platform.write("say: mine", chat=chat, sender=writes)
    async with house.serving() as here:
        await eventually("it is asked whether to go on", lambda: house.platform.replies(chat))
        await house.wait_until_acknowledged()
        assert (await last_turn(here.store, key_of(chat))).state is TurnState.INTERRUPTED
        house.platform.write("say: and that", chat=chat, sender=begins)
        await house.wait_for_replies("done\nand that", "mine", chat=chat)
        found = causes(await turn_views(here.store, key_of(chat)))
    assert found == [[(begins, SCRIPT), (begins, "say: and that")], [(writes, "say: mine")]]


@pairs
async def test_b105_words_of_somebody_who_may_less_wait_behind_a_turn_that_goes_on_by_itself(
    tmp_path: Path, begins: str, writes: str, chat: str
) -> None:
    house = house_of_rights(tmp_path, "b", QUEUE__MODE="steer")
    async with house.crashing() as here:
        await people(here)
        house.platform.write(SCRIPT, chat=chat, sender=begins)
        await house.agent_harness.wait_until_hanging()
    house.agent_harness.release()
    house.platform.write("say: mine", chat=chat, sender=writes)
    async with house.serving() as here:
        await house.wait_for_replies("done", "mine", chat=chat)
        found = causes(await turn_views(here.store, key_of(chat)))
    assert found == [[(begins, SCRIPT)], [(writes, "say: mine")]]


# ── a turn that asks ────────────────────────────────────────────────────────────────────────────────────────


@pairs
async def test_b105_somebody_who_may_less_answers_no_question_by_words_or_buttons(
    tmp_path: Path, begins: str, writes: str, chat: str
) -> None:
    house = house_of_rights(tmp_path)
    async with house.serving(agent=None) as here:
        await people(here)
        house.platform.write("ask: Which way? | Left | Right\nsay: gone", chat=chat, sender=begins)
        await eventually("it is asked", lambda: house.platform.replies(chat))
        house.platform.press("Left", chat=chat, sender=writes)
        house.platform.write("Left", chat=chat, sender=writes)
        await house.wait_until_acknowledged()
        view = await last_turn(here.store, key_of(chat))
        assert (view.state, view.answer) == (TurnState.WAITING, None)
        house.platform.write("Right", chat=chat, sender=begins)
        await eventually("both have their answer", lambda: len(house.platform.replies(chat)) == 3)
        first, second = await turn_views(here.store, key_of(chat))
    assert first.answer is not None
    assert (first.answer.by.id, first.answer.text) == (begins, "Right")
    assert causes([second]) == [[(writes, "Left")]]


async def test_b105_somebody_who_may_less_answers_no_question_of_a_background_session(tmp_path: Path) -> None:
    house = house_of_rights(tmp_path)
    async with house.serving(agent=None) as here:
        await people(here)
        house.platform.write("/background ask: Which way? | Left | Right\nsay: gone", chat="g", sender="ann")
        await eventually("it is asked", lambda: len(house.platform.replies("g")) == 2)
        house.platform.write("/background answer 1 Left", chat="g", sender="bob")
        await house.wait_for_replies(texts.people.NOT_ALLOWED, chat="g")
        assert (await last_turn(here.store, "agent:main~1:web:group:g")).state is TurnState.WAITING
        house.platform.write("/background answer 1 Right", chat="g", sender="ann")
        await eventually("it goes on", lambda: any("gone" in text for text in house.platform.replies("g")))


# ── asked again ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_b105_retry_is_refused_to_whoever_may_less_and_keeps_the_first_right_for_others(
    tmp_path: Path,
) -> None:
    house = house_of_rights(tmp_path)
    async with house.serving() as here:
        await people(here)
        house.platform.write("once c 0s\nsay: done", chat="g", sender="ann")
        await house.wait_for_replies("done", chat="g")
        house.platform.write("/retry", chat="g", sender="bob")
        await house.wait_for_replies(texts.chat_commands.UNDO_REFUSALS["unrightful"], chat="g")
        house.platform.write("step a\nsay: bob's", chat="g", sender="bob")
        await house.wait_for_replies("bob's", chat="g")
        house.platform.write("/retry", chat="g", sender="ann")
        await eventually("it is asked again", lambda: house.platform.replies("g").count("bob's") == 2)
        found = causes(await turn_views(here.store, GROUP))
    assert found[-1] == [("bob", "step a\nsay: bob's")]
    assert house.agent_harness.run_counts == {"c": 1, "a": 2}

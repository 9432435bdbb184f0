"""No verb without its right at the conversation's own address: nobody reaches a conversation of another chat.

Drives `runtime/commands/registry`, `runtime/access`, `store/authorisation` and `store/session_verbs`.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from perdure.core import texts
from perdure.core.messages import Inbound, Sender
from perdure.core.states import TurnState
from perdure.runtime.gateway import Gateway
from perdure.store.sessions import Session
from perdure.store.transitions import Turn
from support.chat_folders import find_files
from support.pairing import PairingScenario, change_people
from support.waiting import eventually

pytestmark = pytest.mark.anyio

ANN, BOB = "agent:main:web:dm:ann", "agent:main:web:dm:bob"
UNKNOWN = texts.chat_commands.RESUME_ANSWERS["unknown"]
SECRET = "the secret"  # noqa: S105 reason: a word that must not be seen elsewhere


async def people(gateway: Gateway) -> None:
    """Beside ann, who owns the gateway, bob and mia are members, olga owns chat `o`, and gus is a guest."""
    for who in ("bob", "mia"):
        await change_people(gateway, "add", who=f"web:{who}")
    await change_people(gateway, "add", who="web:olga", role="owner", chat="o")
    await change_people(gateway, "add", who="web:olga")
    await change_people(gateway, "add", who="web:gus", role="guest")


async def session_of(gateway: Gateway, key: str) -> Session:
    session = await gateway.store.sessions.current(key)
    assert session is not None
    return session


async def last_turn_of(gateway: Gateway, key: str) -> Turn:
    return (await gateway.store.turns.of_session((await session_of(gateway, key)).id))[-1]


async def everything_of(gateway: Gateway, key: str) -> Any:
    """All that is on record of a conversation."""
    session = await session_of(gateway, key)
    turns = await gateway.store.turns.of_session(session.id)
    return session, turns, [await gateway.store.journal.of_turn(session.id, turn.id) for turn in turns]


async def commands_answered(house: PairingScenario, chat: str, who: str, *commands: str) -> list[str]:
    """Let a person write commands one after the other; return all that they are told in their chat."""
    said: list[str] = []
    for command in commands:
        before = len(house.platform.replies(chat))
        house.platform.write(command, chat=chat, sender=who)
        said += await eventually(f"{command} is answered", partial(_replies_after, house, chat, before))
    return said


def _replies_after(house: PairingScenario, chat: str, count: int) -> list[str]:
    return house.platform.replies(chat)[count:]


# ── a conversation that rests ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("who", "chat"),
    [("bob", "bob"), ("gus", "gus"), ("olga", "o"), ("bob", "g")],
    ids=["a member", "a guest", "an owner of another chat", "a member in a group with the owner"],
)
async def test_b106_nobody_takes_a_private_conversation_into_another_chat(
    tmp_path: Path, who: str, chat: str
) -> None:
    house = PairingScenario(tmp_path)
    async with house.serving() as here:
        await people(here)
        house.say(f"say: {SECRET}", "ann")
        await house.wait_for_replies(SECRET, chat="ann")
        open_one = await session_of(here, ANN)
        house.say("/new", "ann")
        await eventually("it begins anew", lambda: len(house.platform.replies("ann")) == 2)
        house.say("say: newer", "ann")
        await house.wait_for_replies("newer", chat="ann")
        before = await everything_of(here, ANN)
        ids = [open_one.id, (await session_of(here, ANN)).id, ANN, "s_0"]
        said = await commands_answered(house, chat, who, *(f"/resume {name}" for name in ids))
        assert set(said) == ({texts.people.NOT_ALLOWED} if who == "gus" else {UNKNOWN})
        assert await everything_of(here, ANN) == before
        old = await here.store.sessions.get(open_one.id)
        assert old is not None
        assert old.key == ANN
    assert not any(SECRET in text for text in house.platform.replies(chat))


async def test_b106_owner_of_both_places_takes_a_conversation_along(tmp_path: Path) -> None:
    house = PairingScenario(tmp_path)
    async with house.serving() as here:
        await people(here)
        house.say("say: mine", "bob")
        await house.wait_for_replies("mine", chat="bob")
        session = await session_of(here, BOB)
        house.say("/new", "bob")
        await eventually("it begins anew", lambda: len(house.platform.replies("bob")) == 2)
        assert await commands_answered(house, "ann", "ann", f"/resume {session.id}") == [
            texts.chat_commands.RESUME_ANSWERS["session"]
        ]
        assert (await session_of(here, ANN)).id == session.id


async def test_b106_conversation_that_somebody_in_the_group_has_of_their_own_is_theirs(tmp_path: Path) -> None:
    house = PairingScenario(tmp_path, SESSION__GROUPS="person")
    async with house.serving() as here:
        await people(here)
        house.platform.write(f"say: {SECRET}", chat="g", sender="mia")
        await house.wait_for_replies(SECRET, chat="g")
        session = await session_of(here, "agent:main:web:group:g::mia")
        await commands_answered(house, "g", "mia", "/new")
        assert await commands_answered(house, "g", "bob", f"/resume {session.id}") == [UNKNOWN]
        assert await commands_answered(house, "g", "mia", f"/resume {session.id}") == [
            texts.chat_commands.RESUME_ANSWERS["session"]
        ]


async def test_b106_commands_that_show_tell_of_their_own_conversation_alone(tmp_path: Path) -> None:
    house = PairingScenario(tmp_path, "b")
    async with house.serving() as here:
        await people(here)
        house.say(f"step b\nsay: {SECRET}", "ann")
        house.say(f"/background step b\nsay: {SECRET}", "ann")
        house.say(f"/goal {SECRET}", "ann")
        await house.agent_harness.wait_until_hanging(2)
        shows = ("/sessions", "/why", "/status", "/background", "/goal", "/queue", "/background answer 1 x")
        before = await everything_of(here, ANN)
        said = await commands_answered(
            house, "bob", "bob", *shows, "/undo", "/retry", "/stop all", "/background stop 1"
        )
        names = [SECRET, before[0].id, before[1][0].id]
        assert not any(name in text for text in said for name in names), said
        assert await everything_of(here, ANN) == before
        assert len(here.loops.runner.running) == 2
        house.agent_harness.release()


# ── a turn that waits ───────────────────────────────────────────────────────────────────────────────────────


async def test_b106_nobody_approves_denies_or_answers_in_a_conversation_of_another_chat(tmp_path: Path) -> None:
    house = PairingScenario(tmp_path)
    async with house.serving(agent=None) as here:
        await people(here)
        house.say("danger: touch it-ran", "ann")
        house.platform.write("ask: Which? | Left | Right\nsay: gone", chat="o", sender="ann")
        await eventually("both ask", lambda: len([one for one in house.platform.posted if one.buttons]) == 2)
        asked = {one.address.chat: one for one in house.platform.posted if one.buttons}
        approve, deny = (button.command for button in asked["ann"].buttons)
        approval = approve.split()[1]
        left = asked["o"].buttons[0].pick
        keys = (ANN, "agent:main:web:dm:o")
        before = [await everything_of(here, key) for key in keys]
        commands = (approve, deny, f"/approve {approval}", "/approve", f"/background approve 1 {approval}")
        said = await commands_answered(house, "bob", "bob", *commands)
        nothing = texts.questions.DECISION_ANSWERS["nothing"]
        assert said == [*[nothing] * 4, texts.chat_commands.background_unknown(1)]
        address = house.platform._address("bob", None)
        pressed = Inbound(address, "pressed", Sender("bob"), "Left", kind="button", pick=left)
        house.platform.mailbox.add(pressed)
        await house.wait_until_acknowledged()
        assert [await everything_of(here, key) for key in keys] == before
        assert find_files(tmp_path, "it-ran") == []


@pytest.mark.parametrize("ended", [False, True], ids=["of a turn that was cut off", "of a turn that has ended"])
async def test_b106_id_of_a_turn_elsewhere_neither_resumes_drops_nor_tells_anything(
    tmp_path: Path, ended: bool
) -> None:
    house = PairingScenario(tmp_path, "b", RECOVERY__POLICY="off")
    async with house.crashing() as here:
        await people(here)
        house.say(f"step b\nsay: {SECRET}", "ann")
        await house.agent_harness.wait_until_hanging()
    house.agent_harness.release()
    async with house.serving() as here:
        await eventually("it is told", lambda: house.platform.replies("ann"))
        turn = await last_turn_of(here, ANN)
        if ended:
            await commands_answered(house, "ann", "ann", "/drop")
        before = await everything_of(here, ANN)
        said = await commands_answered(house, "bob", "bob", f"/resume {turn.id}", f"/drop {turn.id}")
        guess = await commands_answered(house, "bob", "bob", "/resume t_guess", "/drop t_guess")
        assert said == guess == [texts.chat_commands.RESUME_ANSWERS["nothing"], texts.chat_commands.dropped(False)]
        assert await everything_of(here, ANN) == before
        assert before[1][0].state is (TurnState.CANCELLED if ended else TurnState.INTERRUPTED)

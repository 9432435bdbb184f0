"""A chat that several people share: who may touch what, and whose conversation it is.

Drives `runtime/access` and `store/authorisation`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.core import texts
from perdure.core.journal import TurnCancelled, TurnView
from perdure.core.states import TurnState
from perdure.runtime.gateway import Gateway, StopKind
from support.pairing import PairingScenario, change_people
from support.recovery import last_turn, turn_views
from support.waiting import eventually

pytestmark = pytest.mark.anyio

SCRIPT = "step a\nstep b\nsay: done"
SHARED = "agent:main:web:group:g"

outsider = pytest.mark.parametrize("who", ["eve", "gus"], ids=["a stranger", "a guest"])


def own(person: str) -> str:
    return f"{SHARED}::{person}"


async def people(gateway: Gateway) -> None:
    """Beside ann, who owns the gateway, bob is a member and gus is a guest; nobody knows eve."""
    await change_people(gateway, "add", who="web:bob")
    await change_people(gateway, "add", who="web:gus", role="guest")


def message_texts(view: TurnView) -> list[str]:
    return [cause.text for cause in view.causes]


# ── people who may not ──────────────────────────────────────────────────────────────────────────────────────


@outsider
@pytest.mark.parametrize("mode", ["queue", "steer", "interrupt", "collect"])
async def test_b102_outsider_cannot_add_to_steer_or_stop_a_running_turn(
    tmp_path: Path, who: str, mode: str
) -> None:
    house = PairingScenario(tmp_path, "b", QUEUE__MODE=mode, QUEUE__QUIET="0")
    async with house.serving() as here:
        await people(here)
        written = house.platform.write(SCRIPT, chat="g")
        await house.agent_harness.wait_until_hanging()
        [turn] = list(here.loops.runner.running)
        house.platform.edit(written, "say: edited", chat="g", sender=who)
        house.platform.delete(written, chat="g", sender=who)
        for text in ("say: mine", "/stop", "/stop all", "/steer say: mine", "/new", f"/drop {turn}", "/undo"):
            house.platform.write(text, chat="g", sender=who)
        await house.wait_until_acknowledged()
        await eventually("what a guest asked for is answered", lambda: _answered(house, who))
        assert [*here.loops.runner.running] == [turn]
        house.agent_harness.release()
        await eventually("it goes on to its end", lambda: "done" in house.platform.replies("g"))
        [view] = await turn_views(here.store, SHARED)
        assert (view.state, message_texts(view)) == (TurnState.DONE, [SCRIPT])
    assert who == "gus" or house.platform.replies("g") == ["done"], "a stranger is told nothing"


def _answered(house: PairingScenario, who: str) -> bool:
    """Whether a guest has heard of the last of what they wrote; a stranger never does."""
    return who == "eve" or house.platform.replies("g").count(texts.people.NOT_ALLOWED) == 4


@outsider
async def test_b102_outsider_cannot_add_to_a_turn_that_was_cut_off(tmp_path: Path, who: str) -> None:
    house = PairingScenario(tmp_path, "b", RECOVERY__POLICY="ask")
    async with house.crashing() as here:
        await people(here)
        house.platform.write(SCRIPT, chat="g")
        await house.agent_harness.wait_until_hanging()
    house.agent_harness.release()
    async with house.serving() as here:
        await eventually("it is asked", lambda: house.platform.replies("g"))
        turn = (await here.store.turns.interrupted(here.operator_verbs.run))[0]
        for text in ("say: mine", "/resume", f"/resume {turn.id}", f"/drop {turn.id}"):
            house.platform.write(text, chat="g", sender=who)
        await house.wait_until_acknowledged()
        if who == "gus":
            wanted = {texts.people.NOT_ALLOWED, "mine"}
            await eventually("the guest is answered", lambda: wanted <= set(house.platform.replies("g")))
        assert (await last_turn(here.store, SHARED)).state is TurnState.INTERRUPTED
        house.platform.write("say: and that", chat="g", sender="bob")
        await house.wait_for_replies("done\nand that", chat="g")
        assert message_texts((await turn_views(here.store, SHARED))[0]) == [SCRIPT, "say: and that"]


@outsider
async def test_b102_outsider_cannot_answer_a_question(tmp_path: Path, who: str) -> None:
    house = PairingScenario(tmp_path)
    async with house.serving(agent=None) as here:
        await people(here)
        house.platform.write("ask: Which way? | Left | Right\nsay: gone", chat="g")
        await house.wait_for_replies("Which way?\n(Left / Right)", chat="g")
        house.platform.press("Left", chat="g", sender=who)
        house.platform.write("Left", chat="g", sender=who)
        await house.wait_until_acknowledged()
        if who == "gus":
            await eventually("the words are a turn of their own", lambda: len(house.platform.replies("g")) == 2)
        view = await last_turn(here.store, SHARED)
        assert (view.state, view.question is not None) == (TurnState.WAITING, True)
        house.platform.write("Right", chat="g", sender="bob")
        await house.wait_for_replies("gone", chat="g")
        [result] = [call.ended.text for call in (await last_turn(here.store, SHARED)).calls.values() if call.ended]
        assert "Right" in result


@outsider
async def test_b102_outsider_cannot_approve_or_deny(tmp_path: Path, who: str) -> None:
    house = PairingScenario(tmp_path)
    async with house.serving(agent=None) as here:
        await people(here)
        house.platform.write("danger: echo it ran\nsay: gone", chat="g")
        [asked] = await eventually("it is asked", lambda: house.platform.posted)
        approve, deny = asked.buttons
        for command in (approve.command, deny.command):
            house.platform.press(command, chat="g", sender=who)
        for text in ("/approve", "/deny", "yes"):
            house.platform.write(text, chat="g", sender=who)
        await house.wait_until_acknowledged()
        if who == "gus":
            refused = lambda: house.platform.replies("g").count(texts.people.NOT_ALLOWED) == 4  # noqa: E731
            await eventually("the guest is told", refused)
        assert (await last_turn(here.store, SHARED)).state is TurnState.WAITING
        house.platform.press(approve.command, chat="g", sender="bob")
        await eventually("it goes on", lambda: "gone" in house.platform.replies("g"))
        view = await last_turn(here.store, SHARED)
        assert [call.started.approved_by for call in view.calls.values() if call.started] == ["bob"]


async def test_b102_member_who_became_a_guest_meanwhile_cannot_touch_the_shared_conversation(
    tmp_path: Path,
) -> None:
    house = PairingScenario(tmp_path, "b")
    async with house.serving() as here:
        await people(here)
        house.platform.write(SCRIPT, chat="g")
        await house.agent_harness.wait_until_hanging()
        house.platform.write("say: bob's", chat="g", sender="bob")
        await house.wait_until_acknowledged()
        await change_people(here, "role", who="web:bob", role="guest")
        house.platform.write("/stop", chat="g", sender="bob")
        await house.wait_for_replies("Nothing was running.", chat="g")
        house.agent_harness.release()
        await house.wait_for_replies("done", chat="g")
        house.platform.write("say: next", chat="g")
        await house.wait_for_replies("done", "next", chat="g")


# ── whose conversation it is ────────────────────────────────────────────────────────────────────────────────


async def test_b102_guest_has_a_conversation_of_their_own_and_ends_only_that(tmp_path: Path) -> None:
    house = PairingScenario(tmp_path, "b", TOOLS__BY_ROLE='{"guest": ["step"]}')
    async with house.serving() as here:
        await people(here)
        for person in ("ann", "gus"):
            house.platform.write(SCRIPT, chat="g", sender=person)
        await house.agent_harness.wait_until_hanging(2)
        house.platform.write("/whoami", chat="g", sender="gus")
        await house.wait_for_replies(
            texts.people.who_you_are("gus", "", "guest", shared=False, alone=False), chat="g"
        )
        house.platform.write("/whoami", chat="g", sender="bob")
        await house.wait_for_replies(
            texts.people.who_you_are("bob", "", "member", shared=True, alone=False), chat="g"
        )
        house.platform.write("/stop", chat="g", sender="gus")
        await house.wait_for_replies("Stopped.", chat="g")
        house.agent_harness.release()
        await house.wait_for_replies("done", chat="g")
        assert (await last_turn(here.store, own("gus"))).ended == TurnCancelled("stopped")
        assert (await last_turn(here.store, SHARED)).state is TurnState.DONE


async def test_b102_members_share_one_conversation_by_default(tmp_path: Path) -> None:
    house = PairingScenario(tmp_path)
    async with house.serving() as here:
        await people(here)
        house.platform.write("say: one", chat="g", sender="ann")
        await house.wait_for_replies("one", chat="g")
        house.platform.write("say: two", chat="g", sender="bob")
        await house.wait_for_replies("two", chat="g")
        assert len(await turn_views(here.store, SHARED)) == 2
    assert house.agent_harness.request_texts()[-1] == ["say: one", "say: two"]


async def test_b102_each_person_has_a_conversation_by_configuration_also_after_a_crash(tmp_path: Path) -> None:
    house = PairingScenario(tmp_path, "b", SESSION__GROUPS="person")
    async with house.crashing() as here:
        await people(here)
        house.platform.write("step a\nstep b\nsay: ann's", chat="g")
        house.platform.write("step a\nstep b\nsay: bob's", chat="g", sender="bob")
        await house.agent_harness.wait_until_hanging(2)
        house.platform.write("/stop", chat="g", sender="bob")
        await house.wait_for_replies("Stopped.", chat="g")
    house.agent_harness.release()
    async with house.serving() as here:
        await house.wait_for_replies("ann's", chat="g")
        house.platform.write("/whoami", chat="g", sender="bob")
        await house.wait_for_replies(
            texts.people.who_you_are("bob", "", "member", shared=False, alone=False), chat="g"
        )
        assert [view.state for view in await turn_views(here.store, own("ann"))] == [TurnState.DONE]
        assert [view.ended for view in await turn_views(here.store, own("bob"))] == [TurnCancelled("stopped")]
        assert await turn_views(here.store, SHARED) == []
    assert "bob's" not in house.platform.replies("g")


async def test_b102_background_work_of_a_persons_own_conversation_answers_in_the_chat(tmp_path: Path) -> None:
    house = PairingScenario(tmp_path, SESSION__GROUPS="person")
    async with house.serving() as here:
        await people(here)
        house.platform.write("/background say: behind", chat="g", sender="bob")
        await eventually("it is done", lambda: any("behind" in text for text in house.platform.replies("g")[1:]))
        assert len(await turn_views(here.store, "agent:main~1:web:group:g::bob")) == 1


# ── roles ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_owner_by_name_may_restart_and_a_member_may_not(tmp_path: Path) -> None:
    house = PairingScenario(tmp_path)
    async with house.serving() as here:
        await people(here)
        await change_people(here, "add", who="web:olga", role="owner")
        house.say("/restart", "bob")
        await house.wait_for_replies(texts.people.NOT_ALLOWED, chat="bob")
        assert here.stopping is None
        house.say("/restart", "olga")
        await eventually("it restarts", lambda: here.phase == "stopped")
        assert here._stop_kind is StopKind.RESTART
    assert house.platform.replies("olga") == [texts.recovery.RESTARTING]


async def test_list_of_a_chat_lets_in_there_and_nowhere_else(tmp_path: Path) -> None:
    house = PairingScenario(tmp_path, PLATFORMS__WEB__ALLOW_CHATS='{"g": ["eve"]}')
    async with house.serving():
        house.platform.write("say: here", chat="g", sender="eve")
        await house.wait_for_replies("here", chat="g")
        house.say("say: there")
        assert await house.wait_for_code()

"""Approvals: a guarded call waits for a person's word, which fits that call only and is spent with its intent.

Drives `runtime/attempt` and `store/answers`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.core import texts
from perdure.core.journal import QuestionAnswered, ToolStarted
from perdure.platforms.api import Capabilities
from perdure.testing import SimulatedPlatform
from support.approvals import DONE, GUARDED, QUESTION, ApprovalScenario
from support.shell_commands import HELD_COMMAND, HELD_RESULT, home_without_commands
from support.waiting import eventually

pytestmark = pytest.mark.anyio

DAY = 86400
OTHERWISE = "not run: the user neither approved nor denied it, but wrote something else."
NOTHING = "Nothing waits for your approval here."


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield from home_without_commands(tmp_path)


# ── a person's word ─────────────────────────────────────────────────────────────────────────────────────────


async def test_b66_dangerous_command_waits_and_is_asked_for_once_with_buttons(home: Path) -> None:
    scene = ApprovalScenario(home)
    async with scene.serving():
        approve, deny = await scene.ask()
        view = await scene.last_turn_view()
        turn = (await scene.gateway.store.turns.of_session((await scene.gateway.store.sessions.page())[0].id))[0]
        assert (approve.label, approve.command) == ("Approve", f"/approve {turn.id}.c1.1")
        assert (deny.label, deny.command) == ("Deny", f"/deny {turn.id}.c1.1")
        assert view.state == "waiting"
        assert view.calls["c1.1"].started is None, "nothing is begun before the word"
    assert scene.platform.replies() == [QUESTION]
    assert scene.runs() == 0


@pytest.mark.parametrize("way", ["word", "word with the id", "button"])
async def test_b66_approved_command_runs_once_and_the_journal_says_who_approved_it(home: Path, way: str) -> None:
    scene = ApprovalScenario(home)
    async with scene.serving():
        approve, _ = await scene.ask()
        if way == "button":
            scene.platform.press(approve.command, sender="bob")
        else:
            scene.platform.write("/approve" if way == "word" else approve.command, sender="bob")
        await scene.wait_for_replies("Approved.", DONE)
        assert (await scene.started_entry()).approved_by == "bob"
    assert scene.runs() == 1


@pytest.mark.parametrize("way", ["word", "button"])
async def test_b66_denied_command_is_not_run_and_the_model_hears_why(home: Path, way: str) -> None:
    scene = ApprovalScenario(home)
    async with scene.serving():
        _, deny = await scene.ask()
        if way == "button":
            scene.platform.press(deny.command)
        else:
            scene.platform.write("/deny")
        result = await scene.wait_for_result()
        await eventually("the turn ends", lambda: len(scene.platform.replies()) == 3)
    assert (result.outcome, result.text.partition(".")[0]) == ("error", "not run: the user denied it")
    assert "Denied; it is not run." in scene.platform.replies()
    assert scene.runs() == 0


@pytest.mark.parametrize(
    "words",
    ["yes", "Approve", "approve", "approved", "APPROVED", "ok, /approve it", "say: hello", "late", "denied"],
)
async def test_b66_plain_words_approve_nothing(home: Path, words: str) -> None:
    scene = ApprovalScenario(home)
    async with scene.serving():
        await scene.ask()
        scene.platform.write(words)
        result = await scene.wait_for_result()
        await eventually("the turn ends", lambda: len(scene.platform.replies()) == 2)
        assert (await scene.started_entry()).approved_by == ""
        assert len(await scene.turns()) == 1, "the words joined the turn"
    assert (result.outcome, result.text) == ("error", OTHERWISE)
    assert scene.runs() == 0


async def test_b66_wrong_id_and_other_chats_approve_nothing(home: Path) -> None:
    scene = ApprovalScenario(home)
    async with scene.serving():
        approve, _ = await scene.ask()
        turn = approve.command.split()[1].split(".")[0]
        for name in ("x", turn, f"{turn}.c1.2", f"{turn}.c1.1x", "t_unknown.c1.1"):
            scene.platform.write(f"/approve {name}")
        scene.platform.press(approve.command, chat="2")
        scene.platform.write("/approve", chat="2")
        await scene.wait_for_replies(
            texts.chat_commands.usage("/approve [ID]", "x"), NOTHING, NOTHING, NOTHING, NOTHING
        )
        await scene.wait_for_replies(NOTHING, NOTHING, chat="2")
        assert (await scene.last_turn_view()).state == "waiting"
        assert scene.runs() == 0
        scene.platform.press(approve.command)
        await scene.wait_for_replies("Approved.", DONE)
    assert scene.runs() == 1


@pytest.mark.parametrize("word", ["/approve", "/deny"])
async def test_b66_approval_that_comes_too_late_is_refused_and_told(home: Path, word: str) -> None:
    scene = ApprovalScenario(home)
    async with scene.crashing():
        await scene.ask()
    scene.clock.move(DAY + 60)
    async with scene.serving():
        scene.platform.write(word)
        result = await scene.wait_for_result()
        await eventually("it is told", lambda: "That comes too late: it is not run." in scene.platform.replies())
    assert result.outcome == "error"
    assert "came too late" in result.text
    assert scene.runs() == 0


async def test_b66_time_for_an_approval_is_as_set(home: Path) -> None:
    scene = ApprovalScenario(home, TOOLS__APPROVAL_EXPIRES="10m")
    async with scene.serving():
        approve, _ = await scene.ask()
        scene.clock.move(540)
        scene.platform.press(approve.command)
        await scene.wait_for_replies("Approved.", DONE)
        scene.platform.write(GUARDED)
        await scene.wait_for_question(2)
        scene.clock.move(660)
        scene.platform.write("/approve")
        await eventually("it is told", lambda: "That comes too late: it is not run." in scene.platform.replies())
    assert scene.runs() == 1


async def test_b66_approval_is_spent_once_when_pressed_twice(home: Path) -> None:
    scene = ApprovalScenario(home)
    async with scene.serving():
        approve, _ = await scene.ask()
        for _ in range(2):
            scene.platform.press(approve.command)
        scene.platform.write("/approve")
        await eventually(
            "all is answered",
            lambda: sorted(scene.platform.replies()) == sorted([QUESTION, "Approved.", NOTHING, NOTHING, DONE]),
        )
    assert scene.runs() == 1


async def test_b66_approval_of_an_earlier_call_does_not_fit_the_same_call_again(home: Path) -> None:
    scene = ApprovalScenario(home)
    async with scene.serving():
        first, _ = await scene.ask()
        scene.platform.press(first.command)
        await scene.wait_for_replies("Approved.", DONE)
        scene.platform.write(GUARDED)
        second, _ = await scene.wait_for_question(2)
        assert first != second
        scene.platform.press(first.command)
        await scene.wait_for_replies(NOTHING)
        assert (await scene.last_turn_view()).state == "waiting"
    assert scene.runs() == 1


@pytest.mark.parametrize("word", ["/stop", "/new"])
async def test_b13_b66_approval_pressed_after_the_turn_was_ended_runs_nothing(home: Path, word: str) -> None:
    scene = ApprovalScenario(home)
    async with scene.serving():
        approve, _ = await scene.ask()
        scene.platform.write(word)
        await eventually("it is ended", lambda: len(scene.platform.replies()) == 2)
        scene.platform.press(approve.command)
        await scene.wait_for_replies(NOTHING)
    assert scene.runs() == 0


async def test_b66_person_who_may_not_talk_cannot_approve(home: Path) -> None:
    scene = ApprovalScenario(home, SimulatedPlatform("web"), PLATFORMS__WEB__ALLOW="ann", ACCESS__UNKNOWN="ignore")
    async with scene.serving():
        approve, _ = await scene.ask()
        scene.platform.press(approve.command, sender="eve")
        scene.platform.write("/approve", sender="eve")
        await eventually("both are taken off the line", lambda: not scene.platform.pending())
        assert (await scene.last_turn_view()).state == "waiting"
        assert scene.platform.replies() == [QUESTION], "a stranger is told nothing"
        scene.platform.press(approve.command)
        await scene.wait_for_replies("Approved.", DONE)
        assert (await scene.started_entry()).approved_by == "ann"
    assert scene.runs() == 1


async def test_b66_whole_call_is_shown_in_parts_if_need_be_with_the_buttons_under_the_last(home: Path) -> None:
    """Nobody can approve what they do not see, and a long command is easily hidden in."""
    can = Capabilities(idempotent_send=True, keeps_missed=True, max_length=400)
    scene = ApprovalScenario(home, SimulatedPlatform(capabilities=can))
    command = f"echo {'a' * 500}; echo ran >> runs; echo {'b' * 500}"
    async with scene.serving():
        scene.platform.write(f"danger: {command}")
        await eventually("all is shown", lambda: any(posted.buttons for posted in scene.platform.posted))
        shown = scene.platform.posted
        assert all(len(posted.text) <= 400 for posted in shown)
        assert command.replace(" ", "") in "".join(posted.text for posted in shown).replace(" ", "")
        assert [len(posted.buttons) for posted in shown] == [0] * (len(shown) - 1) + [2]


# ── crashes ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_b66_question_stays_and_its_buttons_work_after_crashes(home: Path) -> None:
    scene = ApprovalScenario(home)
    async with scene.crashing():
        approve, _ = await scene.ask()
    for _ in range(2):
        scene.clock.move(600)
        async with scene.crashing():
            await eventually("its platform is connected", lambda: not scene.gateway.problems())
            assert (await scene.last_turn_view()).state == "waiting"
    async with scene.serving():
        assert scene.platform.replies() == [QUESTION], "it is asked once"
        scene.platform.press(approve.command)
        await scene.wait_for_replies("Approved.", DONE)
    assert scene.runs() == 1


async def test_b66_approval_counts_when_killed_between_the_word_and_the_start(home: Path) -> None:
    scene = ApprovalScenario(home)
    async with scene.crashing_at_fact("SELECT 1 FROM journal WHERE kind = 'answered'"):
        approve, _ = await scene.ask()
        scene.platform.press(approve.command)
    assert scene.runs() == 0
    async with scene.serving():
        await eventually("it has run", lambda: DONE in scene.platform.replies())
        assert (await scene.started_entry()).approved_by == "ann"
    assert scene.platform.replies().count(QUESTION) == 1
    assert scene.runs() == 1


async def test_b66_intent_and_the_spent_approval_are_one_when_killed_at_it(home: Path) -> None:
    scene = ApprovalScenario(home)
    async with scene.crashing_at_fact("SELECT 1 FROM journal WHERE kind = 'tool_started'"):
        approve, _ = await scene.ask()
        scene.platform.press(approve.command)
    async with scene.serving():
        await eventually("it has run", lambda: DONE in scene.platform.replies())
        view = (await scene.turns())[0]
        started = [record.entry for record in view.records if isinstance(record.entry, ToolStarted)]
        assert [each.approved_by for each in started] == ["ann"]
        assert len([record for record in view.records if isinstance(record.entry, QuestionAnswered)]) == 1
    assert scene.platform.replies().count(QUESTION) == 1
    assert scene.runs() == 1


async def test_b66_approved_command_goes_on_when_killed_in_its_middle(home: Path) -> None:
    scene = ApprovalScenario(home)
    async with scene.crashing():
        approve, _ = await scene.ask(f"danger: {HELD_COMMAND}")
        scene.platform.press(approve.command)
        await eventually("the command runs", scene.commands.has_output)
    async with scene.serving():
        scene.commands.release()
        await scene.wait_for_replies(HELD_RESULT)
    assert [text for text in scene.platform.replies() if text.startswith("May I")] == [scene.platform.replies()[0]]
    assert scene.runs() == 1

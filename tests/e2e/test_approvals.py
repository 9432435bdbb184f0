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
    scenario = ApprovalScenario(home)
    async with scenario.serving():
        approve, deny = await scenario.ask()
        view = await scenario.last_turn_view()
        turn = (
            await scenario.gateway.store.turns.of_session((await scenario.gateway.store.sessions.page())[0].id)
        )[0]
        assert (approve.label, approve.command) == ("Approve", f"/approve {turn.id}.c1.1")
        assert (deny.label, deny.command) == ("Deny", f"/deny {turn.id}.c1.1")
        assert view.state == "waiting"
        assert view.calls["c1.1"].started is None, "nothing is begun before the word"
    assert scenario.platform.replies() == [QUESTION]
    assert scenario.runs() == 0


@pytest.mark.parametrize("way", ["word", "word with the id", "button"])
async def test_b66_approved_command_runs_once_and_the_journal_says_who_approved_it(home: Path, way: str) -> None:
    scenario = ApprovalScenario(home)
    async with scenario.serving():
        approve, _ = await scenario.ask()
        if way == "button":
            scenario.platform.press(approve.command, sender="bob")
        else:
            scenario.platform.write("/approve" if way == "word" else approve.command, sender="bob")
        await scenario.wait_for_replies("Approved.", DONE)
        assert (await scenario.started_entry()).approved_by == "bob"
    assert scenario.runs() == 1


@pytest.mark.parametrize("way", ["word", "button"])
async def test_b66_denied_command_is_not_run_and_the_model_hears_why(home: Path, way: str) -> None:
    scenario = ApprovalScenario(home)
    async with scenario.serving():
        _, deny = await scenario.ask()
        if way == "button":
            scenario.platform.press(deny.command)
        else:
            scenario.platform.write("/deny")
        result = await scenario.wait_for_result()
        await eventually("the turn ends", lambda: len(scenario.platform.replies()) == 3)
    assert (result.outcome, result.text.partition(".")[0]) == ("error", "not run: the user denied it")
    assert "Denied; it is not run." in scenario.platform.replies()
    assert scenario.runs() == 0


@pytest.mark.parametrize(
    "words",
    ["yes", "Approve", "approve", "approved", "APPROVED", "ok, /approve it", "say: hello", "late", "denied"],
)
async def test_b66_plain_words_approve_nothing(home: Path, words: str) -> None:
    scenario = ApprovalScenario(home)
    async with scenario.serving():
        await scenario.ask()
        scenario.platform.write(words)
        result = await scenario.wait_for_result()
        await eventually("the turn ends", lambda: len(scenario.platform.replies()) == 2)
        assert (await scenario.started_entry()).approved_by == ""
        assert len(await scenario.turns()) == 1, "the words joined the turn"
    assert (result.outcome, result.text) == ("error", OTHERWISE)
    assert scenario.runs() == 0


async def test_b66_wrong_id_and_other_chats_approve_nothing(home: Path) -> None:
    scenario = ApprovalScenario(home)
    async with scenario.serving():
        approve, _ = await scenario.ask()
        turn = approve.command.split()[1].split(".")[0]
        for name in ("x", turn, f"{turn}.c1.2", f"{turn}.c1.1x", "t_unknown.c1.1"):
            scenario.platform.write(f"/approve {name}")
        scenario.platform.press(approve.command, chat="2")
        scenario.platform.write("/approve", chat="2")
        await scenario.wait_for_replies(
            texts.chat_commands.usage("/approve [ID]", "x"), NOTHING, NOTHING, NOTHING, NOTHING
        )
        await scenario.wait_for_replies(NOTHING, NOTHING, chat="2")
        assert (await scenario.last_turn_view()).state == "waiting"
        assert scenario.runs() == 0
        scenario.platform.press(approve.command)
        await scenario.wait_for_replies("Approved.", DONE)
    assert scenario.runs() == 1


@pytest.mark.parametrize("word", ["/approve", "/deny"])
async def test_b66_approval_that_comes_too_late_is_refused_and_told(home: Path, word: str) -> None:
    scenario = ApprovalScenario(home)
    async with scenario.crashing():
        await scenario.ask()
    scenario.clock.move(DAY + 60)
    async with scenario.serving():
        scenario.platform.write(word)
        result = await scenario.wait_for_result()
        await eventually(
            "it is told", lambda: "That comes too late: it is not run." in scenario.platform.replies()
        )
    assert result.outcome == "error"
    assert "came too late" in result.text
    assert scenario.runs() == 0


async def test_b66_time_for_an_approval_is_as_set(home: Path) -> None:
    scenario = ApprovalScenario(home, TOOLS__APPROVAL_EXPIRES="10m")
    async with scenario.serving():
        approve, _ = await scenario.ask()
        scenario.clock.move(540)
        scenario.platform.press(approve.command)
        await scenario.wait_for_replies("Approved.", DONE)
        scenario.platform.write(GUARDED)
        await scenario.wait_for_question(2)
        scenario.clock.move(660)
        scenario.platform.write("/approve")
        await eventually(
            "it is told", lambda: "That comes too late: it is not run." in scenario.platform.replies()
        )
    assert scenario.runs() == 1


async def test_b66_approval_is_spent_once_when_pressed_twice(home: Path) -> None:
    scenario = ApprovalScenario(home)
    async with scenario.serving():
        approve, _ = await scenario.ask()
        for _ in range(2):
            scenario.platform.press(approve.command)
        scenario.platform.write("/approve")
        await eventually(
            "all is answered",
            lambda: sorted(scenario.platform.replies()) == sorted([QUESTION, "Approved.", NOTHING, NOTHING, DONE]),
        )
    assert scenario.runs() == 1


async def test_b66_approval_of_an_earlier_call_does_not_fit_the_same_call_again(home: Path) -> None:
    scenario = ApprovalScenario(home)
    async with scenario.serving():
        first, _ = await scenario.ask()
        scenario.platform.press(first.command)
        await scenario.wait_for_replies("Approved.", DONE)
        scenario.platform.write(GUARDED)
        second, _ = await scenario.wait_for_question(2)
        assert first != second
        scenario.platform.press(first.command)
        await scenario.wait_for_replies(NOTHING)
        assert (await scenario.last_turn_view()).state == "waiting"
    assert scenario.runs() == 1


@pytest.mark.parametrize("word", ["/stop", "/new"])
async def test_b13_b66_approval_pressed_after_the_turn_was_ended_runs_nothing(home: Path, word: str) -> None:
    scenario = ApprovalScenario(home)
    async with scenario.serving():
        approve, _ = await scenario.ask()
        scenario.platform.write(word)
        await eventually("it is ended", lambda: len(scenario.platform.replies()) == 2)
        scenario.platform.press(approve.command)
        await scenario.wait_for_replies(NOTHING)
    assert scenario.runs() == 0


async def test_b66_person_who_may_not_talk_cannot_approve(home: Path) -> None:
    scenario = ApprovalScenario(
        home, SimulatedPlatform("web"), PLATFORMS__WEB__ALLOW="ann", ACCESS__UNKNOWN="ignore"
    )
    async with scenario.serving():
        approve, _ = await scenario.ask()
        scenario.platform.press(approve.command, sender="eve")
        scenario.platform.write("/approve", sender="eve")
        await eventually("both are taken off the line", lambda: not scenario.platform.pending())
        assert (await scenario.last_turn_view()).state == "waiting"
        assert scenario.platform.replies() == [QUESTION], "a stranger is told nothing"
        scenario.platform.press(approve.command)
        await scenario.wait_for_replies("Approved.", DONE)
        assert (await scenario.started_entry()).approved_by == "ann"
    assert scenario.runs() == 1


async def test_b66_whole_call_is_shown_in_parts_if_need_be_with_the_buttons_under_the_last(home: Path) -> None:
    """Nobody can approve what they do not see, and a long command is easily hidden in."""
    can = Capabilities(idempotent_send=True, keeps_missed=True, max_length=400)
    scenario = ApprovalScenario(home, SimulatedPlatform(capabilities=can))
    command = f"echo {'a' * 500}; echo ran >> runs; echo {'b' * 500}"
    async with scenario.serving():
        scenario.platform.write(f"danger: {command}")
        await eventually("all is shown", lambda: any(posted.buttons for posted in scenario.platform.posted))
        shown = scenario.platform.posted
        assert all(len(posted.text) <= 400 for posted in shown)
        assert command.replace(" ", "") in "".join(posted.text for posted in shown).replace(" ", "")
        assert [len(posted.buttons) for posted in shown] == [0] * (len(shown) - 1) + [2]


# ── crashes ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_b66_question_stays_and_its_buttons_work_after_crashes(home: Path) -> None:
    scenario = ApprovalScenario(home)
    async with scenario.crashing():
        approve, _ = await scenario.ask()
    for _ in range(2):
        scenario.clock.move(600)
        async with scenario.crashing():
            await eventually("its platform is connected", lambda: not scenario.gateway.problems())
            assert (await scenario.last_turn_view()).state == "waiting"
    async with scenario.serving():
        assert scenario.platform.replies() == [QUESTION], "it is asked once"
        scenario.platform.press(approve.command)
        await scenario.wait_for_replies("Approved.", DONE)
    assert scenario.runs() == 1


async def test_b66_approval_counts_when_killed_between_the_word_and_the_start(home: Path) -> None:
    scenario = ApprovalScenario(home)
    async with scenario.crashing_at_fact("SELECT 1 FROM journal WHERE kind = 'answered'"):
        approve, _ = await scenario.ask()
        scenario.platform.press(approve.command)
    assert scenario.runs() == 0
    async with scenario.serving():
        await eventually("it has run", lambda: DONE in scenario.platform.replies())
        assert (await scenario.started_entry()).approved_by == "ann"
    assert scenario.platform.replies().count(QUESTION) == 1
    assert scenario.runs() == 1


async def test_b66_intent_and_the_spent_approval_are_one_when_killed_at_it(home: Path) -> None:
    scenario = ApprovalScenario(home)
    async with scenario.crashing_at_fact("SELECT 1 FROM journal WHERE kind = 'tool_started'"):
        approve, _ = await scenario.ask()
        scenario.platform.press(approve.command)
    async with scenario.serving():
        await eventually("it has run", lambda: DONE in scenario.platform.replies())
        view = (await scenario.turns())[0]
        started = [record.entry for record in view.records if isinstance(record.entry, ToolStarted)]
        assert [each.approved_by for each in started] == ["ann"]
        assert len([record for record in view.records if isinstance(record.entry, QuestionAnswered)]) == 1
    assert scenario.platform.replies().count(QUESTION) == 1
    assert scenario.runs() == 1


async def test_b66_approved_command_goes_on_when_killed_in_its_middle(home: Path) -> None:
    scenario = ApprovalScenario(home)
    async with scenario.crashing():
        approve, _ = await scenario.ask(f"danger: {HELD_COMMAND}")
        scenario.platform.press(approve.command)
        await eventually("the command runs", scenario.commands.has_output)
    async with scenario.serving():
        scenario.commands.release()
        await scenario.wait_for_replies(HELD_RESULT)
    assert [text for text in scenario.platform.replies() if text.startswith("May I")] == [
        scenario.platform.replies()[0]
    ]
    assert scenario.runs() == 1

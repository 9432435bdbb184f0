"""What the model is told after an interruption, and what becomes of messages that come in between.

Drives `core/recovery/note` and `runtime/attempt`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.core import texts
from perdure.core.conversation import AssistantMessage, NoteMessage, ToolMessage, UserMessage
from perdure.core.journal import TurnCancelled
from perdure.core.states import TurnState
from perdure.runtime.gateway import StopKind
from support.recovery import HangingAgent, decided_rules, interruption_reasons, was_interrupted_in_step
from support.recovery_scenario import (
    SCRIPT,
    RecoveryScenario,
    scenario_crashed_in_step,
    scenario_crashed_three_times,
    web_platform,
)
from support.waiting import eventually

pytestmark = pytest.mark.anyio

B_AGAIN = "step(name='b', seconds=0.0) was cut off and is run again."
CUT = texts.recovery.note_resumed("restart_interrupted", [B_AGAIN], finished=True)


# ── one note, naming the cause ──────────────────────────────────────────────────────────────────────────────


async def test_b47_model_gets_one_note_before_its_next_answer_and_none_later(tmp_path: Path) -> None:
    scenario = await scenario_crashed_in_step(tmp_path, "step a\nstep b\nstep c\nsay: done")
    async with scenario.serving_released():
        await scenario.wait_for_replies("done")
        assert was_interrupted_in_step(await scenario.turn())
        scenario.platform.write("say: next")
        await scenario.wait_for_replies("done", "next")
    # Asked for a, for b, cut off, for c, for the end; then in the next turn.
    assert scenario.agent_harness.request_notes() == [[], [], [CUT], [CUT], []]
    assert "a gateway interruption" in CUT
    *_, result, note = scenario.agent_harness.requests[2].messages
    assert (type(result), type(note)) == (ToolMessage, NoteMessage)
    assert scenario.agent_harness.request_texts()[2] == ["step a\nstep b\nstep c\nsay: done"], (
        "the note is nobody's words"
    )


@pytest.mark.parametrize(
    ("ending", "cause", "reason"),
    [
        pytest.param(StopKind.STOP, "a gateway shutdown", "shutdown_timeout", id="a stop"),
        pytest.param(StopKind.RESTART, "a gateway restart", "restart_timeout", id="a restart"),
    ],
)
async def test_b47_note_names_the_drain_that_ran_into_its_deadline(
    tmp_path: Path, ending: StopKind, cause: str, reason: str
) -> None:
    scenario = RecoveryScenario(tmp_path, "b")
    scenario.platform.write(SCRIPT)
    await scenario.run_into_the_deadline(ending)
    async with scenario.serving_released():
        await scenario.wait_for_last_reply("done")
        view = await scenario.turn()
    assert (was_interrupted_in_step(view), interruption_reasons(view)) == (True, [reason])
    assert scenario.agent_harness.request_notes() == [
        [],
        [],
        [texts.recovery.note_resumed(reason, [B_AGAIN], finished=True)],
    ]
    assert cause in scenario.agent_harness.request_notes()[-1][0]


async def test_b47_only_the_newest_interruption_is_told(tmp_path: Path) -> None:
    """A crash, then a shutdown before the model was asked again, then another crash after it was."""
    scenario = await scenario_crashed_in_step(tmp_path, "step a\nstep b\nstep c\nsay: done")
    await scenario.run_into_the_deadline()
    scenario.agent_harness.stuck = {"c"}
    await scenario.crash_in_step()
    async with scenario.serving_released():
        await scenario.wait_for_last_reply("done")
    stopped = texts.recovery.note_resumed("shutdown_timeout", [B_AGAIN], finished=True)
    crashed = texts.recovery.note_resumed("restart_interrupted", [B_AGAIN.replace("'b'", "'c'")], finished=True)
    assert scenario.agent_harness.request_notes() == [[], [], [stopped], [crashed]]


async def test_b47_note_tells_what_is_known_of_an_effect_that_must_not_repeat(tmp_path: Path) -> None:
    scenario = await scenario_crashed_in_step(tmp_path, "once pay\nsay: done", stuck="pay")
    async with scenario.serving_released():
        await scenario.wait_for_replies("done")
        assert was_interrupted_in_step(await scenario.turn())
    [note] = scenario.agent_harness.request_notes()[-1]
    assert texts.recovery.call_in_doubt("once(name='pay', seconds=0.0)") in note
    [result] = [
        message for message in scenario.agent_harness.requests[-1].messages if isinstance(message, ToolMessage)
    ]
    assert (result.outcome, result.text) == ("unknown", texts.tool_calls.OUTCOME_UNKNOWN)
    assert scenario.agent_harness.run_counts["pay"] == 1


# ── only what is so ─────────────────────────────────────────────────────────────────────────────────────────


async def test_b46_b47_note_speaks_of_no_steps_when_the_model_was_not_asked_yet(tmp_path: Path) -> None:
    """The turn was claimed, and the gateway was killed before the agent asked its model."""
    scenario = RecoveryScenario(tmp_path)
    await scenario.crash_when_hanging(HangingAgent(), "say: done")
    async with scenario.serving():
        await scenario.wait_for_replies("done")
    assert scenario.agent_harness.request_notes() == [[texts.recovery.note_resumed("restart_interrupted")]]
    [[note]] = scenario.agent_harness.request_notes()
    assert "Steps that have a result" not in note
    assert "accomplished" not in note
    assert "do not merely announce that you are back" in note


async def test_b46_b47_note_speaks_of_no_finished_step_when_the_first_one_was_cut_off(tmp_path: Path) -> None:
    scenario = await scenario_crashed_in_step(tmp_path, "once pay\nsay: done", stuck="pay")
    async with scenario.serving_released():
        await scenario.wait_for_replies("done")
        assert was_interrupted_in_step(await scenario.turn())
    [note] = scenario.agent_harness.request_notes()[-1]
    assert "Steps that have a result" not in note


async def test_b46_b47_model_is_asked_to_begin_with_what_was_accomplished_when_a_step_had_finished(
    tmp_path: Path,
) -> None:
    """B48 too: in the one note, which still says not to announce the return only."""
    scenario = await scenario_crashed_in_step(tmp_path)
    async with scenario.serving_released():
        await scenario.wait_for_replies("done")
        assert was_interrupted_in_step(await scenario.turn())
    [note] = scenario.agent_harness.request_notes()[-1]
    assert texts.recovery.NOTE_FINISHED_STEPS in note
    assert texts.recovery.NOTE_FIRST_LINE in note
    assert "do not merely announce that you are back" in note


# ── the note about tool results ─────────────────────────────────────────────────────────────────────────────


async def test_b47_results_that_nobody_answered_are_told_when_nothing_was_cut_off(tmp_path: Path) -> None:
    scenario = RecoveryScenario(tmp_path)
    async with scenario.serving():
        for text in ("step a\nfail: no credit", "say: two", "say: three"):
            scenario.platform.write(text)
        await scenario.wait_for_replies(texts.turns.failed("no credit"), "two", "three")
    assert scenario.agent_harness.request_notes() == [[], [], [texts.recovery.UNANSWERED_RESULTS], []]


@pytest.mark.parametrize(
    ("seconds", "settings", "told"),
    [
        pytest.param(3500, {}, True, id="within the hour"),
        pytest.param(3700, {}, False, id="later"),
        pytest.param(7000, {"RECOVERY__FRESHNESS": "2h"}, True, id="within the configured window"),
        pytest.param(30 * 86400, {"RECOVERY__FRESHNESS": "0"}, True, id="a month later, without a limit"),
        pytest.param(-7200, {}, True, id="the clock went backwards"),
    ],
)
async def test_b43_b47_results_are_told_only_as_long_as_a_turn_is_fresh(
    tmp_path: Path, seconds: int, settings: dict[str, str], told: bool
) -> None:
    """The gateway lives on meanwhile: its heartbeats are no sign of life of a turn that has ended."""
    scenario = RecoveryScenario(tmp_path)
    async with scenario.serving(**settings):
        scenario.platform.write("step a\nfail: no credit")
        await scenario.wait_for_replies(texts.turns.failed("no credit"))
        scenario.clock.move(seconds)
        scenario.platform.write("say: two")
        await scenario.wait_for_replies(texts.turns.failed("no credit"), "two")
    assert scenario.agent_harness.request_notes() == [
        [],
        [],
        [texts.recovery.UNANSWERED_RESULTS] if told else [],
    ]


async def test_b47_b54_results_that_we_wrote_because_of_stop_are_not_told(tmp_path: Path) -> None:
    scenario = RecoveryScenario(tmp_path, "b")
    async with scenario.serving():
        scenario.platform.write(SCRIPT)
        await scenario.agent_harness.wait_until_hanging()
        scenario.platform.write("/stop")
        await scenario.wait_for_replies("Stopped.")
        scenario.platform.write("say: next")
        await scenario.wait_for_replies("Stopped.", "next")
        stopped, _ = await scenario.turns()
    assert [call.ended.outcome for call in stopped.calls.values() if call.ended] == ["ok", "cancelled"]
    assert scenario.agent_harness.request_notes() == [[], [], []]


async def test_b47_results_that_we_wrote_because_of_drop_are_not_told(tmp_path: Path) -> None:
    scenario = await scenario_crashed_in_step(tmp_path)
    async with scenario.serving(RECOVERY__POLICY="off"):
        assert was_interrupted_in_step(await scenario.wait_for_rule("off"))
        scenario.platform.write("/drop")
        await scenario.wait_for_last_reply(texts.chat_commands.dropped(True))
        scenario.platform.write("say: next")
        await scenario.wait_for_last_reply("next")
    assert scenario.agent_harness.request_notes() == [[], [], []]


async def test_b47_recovery_note_takes_the_place_of_the_one_about_results(tmp_path: Path) -> None:
    scenario = await scenario_crashed_in_step(tmp_path, "step x\nfail: no credit", SCRIPT)
    async with scenario.serving_released():
        await scenario.wait_for_replies(texts.turns.failed("no credit"), "done")
        assert was_interrupted_in_step(await scenario.turn())
    unanswered = [texts.recovery.UNANSWERED_RESULTS]
    assert scenario.agent_harness.request_notes() == [[], [], unanswered, unanswered, [CUT]]


async def test_b47_failed_recovery_keeps_its_note_for_the_next_message(tmp_path: Path) -> None:
    """B11 too: it is never run again by itself."""
    scenario = await scenario_crashed_in_step(tmp_path, "step a\nstep b\nfail: no credit")
    async with scenario.serving_released():
        await scenario.wait_for_replies(texts.turns.failed("no credit"))
        assert was_interrupted_in_step(await scenario.turn())
    async with scenario.serving():
        scenario.platform.write("say: two")
        scenario.platform.write("say: three")
        await scenario.wait_for_replies(texts.turns.failed("no credit"), "two", "three")
    assert scenario.agent_harness.request_notes() == [
        [],
        [],
        [CUT],
        [texts.recovery.note_failed("restart_interrupted", finished=True)],
        [],
    ]
    assert "a gateway interruption" in scenario.agent_harness.request_notes()[3][0]


async def test_b47_message_is_untouched_when_nothing_was_cut_off_and_nothing_unanswered(tmp_path: Path) -> None:
    scenario = RecoveryScenario(tmp_path)
    async with scenario.serving():
        scenario.platform.write("say: one")
        scenario.platform.write("say: two")
        await scenario.wait_for_replies("one", "two")
    assert list(scenario.agent_harness.requests[0].messages) == [UserMessage("say: one")]
    assert list(scenario.agent_harness.requests[1].messages) == [
        UserMessage("say: one"),
        AssistantMessage("one"),
        UserMessage("say: two"),
    ]


# ── never blank ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_b48_model_never_gets_a_blank_message(tmp_path: Path) -> None:
    """Not when a message has no words, not when one joins, and not when somebody only wants the work to go on."""
    scenario = await scenario_crashed_in_step(tmp_path, "  \n ", SCRIPT)
    async with scenario.serving_released(RECOVERY__POLICY="off") as gateway:
        assert was_interrupted_in_step(await scenario.wait_for_rule("off"))
        scenario.platform.write("")
        await scenario.wait_for_last_reply(f"done\n{texts.agents.OFFLINE_GREETING}")  # it joins
        scenario.agent_harness.stuck.add("b")
        scenario.platform.write(SCRIPT, chat="2")
        await scenario.agent_harness.wait_until_hanging(2)  # in the other chat
        session = await gateway.store.sessions.current(scenario.key("2"))
        assert session is not None
        assert await gateway.operator_verbs.suspend(session)
        scenario.agent_harness.release()
        scenario.platform.write("/resume", chat="2")
        await scenario.wait_for_replies(texts.chat_commands.RESUME_ANSWERS["session"], "done", chat="2")
    words = [text for request in scenario.agent_harness.request_texts() for text in request]
    assert [text for text in words if not text.strip()] == []
    assert words.count(texts.files.message_without_text()) > 1


# ── messages to an interrupted turn ─────────────────────────────────────────────────────────────────────────

JOINED = texts.recovery.note_resumed("restart_interrupted", [B_AGAIN], finished=True, joined=True)


@pytest.mark.parametrize("policy", ["off", "ask"])
async def test_b49_message_joins_the_turn_where_it_does_not_go_on_by_itself(tmp_path: Path, policy: str) -> None:
    scenario = await scenario_crashed_in_step(tmp_path)
    async with scenario.serving_released(RECOVERY__POLICY=policy):
        assert was_interrupted_in_step(await scenario.wait_for_rule(policy))
        await joins(scenario, policy)


async def test_b49_message_joins_the_turn_during_a_pause(tmp_path: Path) -> None:
    scenario = await scenario_crashed_three_times(tmp_path)
    async with scenario.serving_released():
        assert was_interrupted_in_step(await scenario.wait_for_rule("paused"))
        await joins(scenario, "paused")


async def joins(scenario: RecoveryScenario, rule: str) -> None:
    """B79 too: one turn, one note, unfinished work first, then the message; the reply is attached to that."""
    message = scenario.platform.write("step new\nsay: and that")
    await scenario.wait_for_last_reply("done\nand that")
    [view] = await scenario.turns()
    assert decided_rules(view)[-2:] == [rule, "message"]
    assert scenario.agent_harness.request_notes()[-2:] == [[JOINED], [JOINED]]
    assert scenario.agent_harness.request_texts()[-1] == [SCRIPT, "step new\nsay: and that"]
    assert list(scenario.agent_harness.run_counts) == ["a", "b", "new"]
    assert scenario.platform.posted[-1].reply_to == message


async def test_b49_message_joins_the_turn_that_is_about_to_go_on_by_itself(tmp_path: Path) -> None:
    """And what was stored before the interruption keeps its own turn."""
    scenario = RecoveryScenario(tmp_path, "b", RECOVERY__CONCURRENCY="1")
    await scenario.crash_in_every_chat("12", "say: before")
    async with scenario.serving():
        await scenario.agent_harness.wait_until_hanging(3)  # in one chat, which has the only place
        [other] = [chat for chat in "12" if (await scenario.turn(chat)).state is TurnState.INTERRUPTED]
        scenario.platform.write("say: and that", chat=other)
        await eventually("it is stored", lambda: not scenario.platform.pending())
        scenario.agent_harness.release()
        await scenario.wait_for_replies("done\nand that", "before", chat=other)
        joined, own = await scenario.turns(other)
    assert was_interrupted_in_step(joined)
    assert [cause.text for cause in joined.causes] == [SCRIPT, "say: and that"]
    assert [cause.text for cause in own.causes] == ["say: before"]
    seen = zip(scenario.agent_harness.request_notes(), scenario.agent_harness.request_texts(), strict=True)
    assert [told for told, words in seen if "say: and that" in words] == [[JOINED], []]


@pytest.mark.parametrize(
    ("rule", "settings"),
    [
        ("stale", {}),
        ("tokens", {"RECOVERY__MAX_TOKENS": "1"}),
        ("unauthorised", {"PLATFORMS__WEB__ALLOW": "bob"}),
    ],
)
async def test_b49_message_supersedes_work_that_may_not_go_on(
    tmp_path: Path, rule: str, settings: dict[str, str]
) -> None:
    scenario = await scenario_crashed_in_step(
        tmp_path, "step a\nonce pay\nsay: done", stuck="pay", platform=web_platform()
    )
    scenario.clock.move(3605 if rule == "stale" else 1)
    async with scenario.serving(**settings):
        assert was_interrupted_in_step(await scenario.wait_for_rule(rule))
        message = scenario.platform.write("say: new", sender="bob")
        await scenario.wait_for_last_reply("new")
        scenario.platform.write("say: next", sender="bob")
        await scenario.wait_for_last_reply("next")
        old, *_ = views = await scenario.turns()
    assert (old.ended, [view.state for view in views[1:]]) == (TurnCancelled("superseded"), [TurnState.DONE] * 2)
    left = texts.recovery.note_superseded([texts.recovery.call_in_doubt("once(name='pay', seconds=0.0)")])
    assert scenario.agent_harness.request_notes()[-2:] == [[left], []]
    assert "left unfinished" in left
    assert scenario.platform.posted[-2].reply_to == message
    assert scenario.agent_harness.run_counts["pay"] == 1

"""What the model is told after an interruption, and what becomes of messages that come in between."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from perdure.core import notes
from perdure.core.conversation import AssistantMessage, NoteMessage, ToolMessage, UserMessage
from perdure.core.journal import Cancelled
from perdure.core.turn import State
from perdure.runtime.gateway import Ending, Gateway
from perdure.testing import SettableClock, SimulatedPlatform
from support.inprocess import crashing_at_the_end, serving
from support.recovering import (
    Bench,
    crash_in_a_step,
    decided,
    key_of,
    last_turn,
    reasons,
    replies,
    rules,
    turns_in,
    was_cut_in_a_step,
)
from support.waiting import eventually

pytestmark = pytest.mark.anyio

SCRIPT = "step a\nstep b\nsay: done"
B_AGAIN = "step(name='b', seconds=0.0) was cut off and is run again."
CUT = notes.recovery_note("restart_interrupted", [B_AGAIN])


# ── one note, naming the cause ──────────────────────────────────────────────────────────────────────────────


async def test_b47_model_gets_one_note_before_its_next_answer_and_none_later(tmp_path: Path) -> None:
    platform, bench = SimulatedPlatform(), Bench("b")
    await crash_in_a_step(tmp_path, platform, bench, "step a\nstep b\nstep c\nsay: done")
    bench.release()
    async with serving(tmp_path, platform, agent=bench.agent) as gateway:
        await replies(platform, "done")
        assert was_cut_in_a_step(await last_turn(gateway.store, key_of(platform)))
        platform.write("say: next")
        await replies(platform, "done", "next")
    # Asked for a, for b, cut off, for c, for the end; then in the next turn.
    assert bench.notes() == [[], [], [CUT], [CUT], []]
    assert "a gateway interruption" in CUT
    *_, result, note = bench.requests[2].messages
    assert (type(result), type(note)) == (ToolMessage, NoteMessage)
    assert bench.words()[2] == ["step a\nstep b\nstep c\nsay: done"], "the note is nobody's words"


@pytest.mark.parametrize(
    ("ending", "cause", "reason"),
    [
        pytest.param(Ending.STOP, "a gateway shutdown", "shutdown_timeout", id="a stop"),
        pytest.param(Ending.RESTART, "a gateway restart", "restart_timeout", id="a restart"),
    ],
)
async def test_b47_note_names_the_drain_that_ran_into_its_deadline(
    tmp_path: Path, ending: Ending, cause: str, reason: str
) -> None:
    platform, bench = SimulatedPlatform(), Bench("b")
    async with serving(tmp_path, platform, agent=bench.agent, DRAIN__DEADLINE="0") as gateway:
        platform.write(SCRIPT)
        await eventually("the step hangs", lambda: bench.hanging)
        gateway.stop(ending)
        await eventually("the gateway has stopped", lambda: gateway.phase == "stopped")
    bench.release()
    async with serving(tmp_path, platform, agent=bench.agent) as gateway:
        await eventually("it is done", lambda: platform.replies()[-1:] == ["done"])
        view = await last_turn(gateway.store, key_of(platform))
    assert (was_cut_in_a_step(view), reasons(view)) == (True, [reason])
    assert bench.notes() == [[], [], [notes.recovery_note(reason, [B_AGAIN])]]
    assert cause in bench.notes()[-1][0]


async def test_b47_only_the_newest_interruption_is_told(tmp_path: Path) -> None:
    """A crash, then a shutdown before the model was asked again, then another crash after it was."""
    platform, bench, clock = SimulatedPlatform(), Bench("b"), SettableClock()
    await crash_in_a_step(tmp_path, platform, bench, "step a\nstep b\nstep c\nsay: done", clock=clock)
    async with serving(tmp_path, platform, agent=bench.agent, clock=clock, DRAIN__DEADLINE="0"):
        await eventually("b hangs again", lambda: len(bench.hanging) == 2)
    bench.stuck = {"c"}
    await crash_in_a_step(tmp_path, platform, bench, clock=clock)
    bench.release()
    async with serving(tmp_path, platform, agent=bench.agent, clock=clock):
        await eventually("it is done", lambda: platform.replies()[-1:] == ["done"])
    stopped = notes.recovery_note("shutdown_timeout", [B_AGAIN])
    crashed = notes.recovery_note("restart_interrupted", [B_AGAIN.replace("'b'", "'c'")])
    assert bench.notes() == [[], [], [stopped], [crashed]]


async def test_b47_note_tells_what_is_known_of_an_effect_that_must_not_repeat(tmp_path: Path) -> None:
    platform, bench = SimulatedPlatform(), Bench("pay")
    await crash_in_a_step(tmp_path, platform, bench, "once pay\nsay: done")
    bench.release()
    async with serving(tmp_path, platform, agent=bench.agent) as gateway:
        await replies(platform, "done")
        assert was_cut_in_a_step(await last_turn(gateway.store, key_of(platform)))
    [note] = bench.notes()[-1]
    assert notes.in_doubt("once(name='pay', seconds=0.0)") in note
    [result] = [message for message in bench.requests[-1].messages if isinstance(message, ToolMessage)]
    assert (result.outcome, result.text) == ("unknown", notes.OUTCOME_UNKNOWN)
    assert bench.ran["pay"] == 1


# ── the note about tool results ─────────────────────────────────────────────────────────────────────────────


async def test_b47_results_that_nobody_answered_are_told_when_nothing_was_cut_off(tmp_path: Path) -> None:
    platform, bench = SimulatedPlatform(), Bench()
    async with serving(tmp_path, platform, agent=bench.agent):
        for text in ("step a\nfail: no credit", "say: two", "say: three"):
            platform.write(text)
        await replies(platform, notes.turn_failed("no credit"), "two", "three")
    assert bench.notes() == [[], [], [notes.UNANSWERED_RESULTS], []]


async def test_b47_recovery_note_takes_the_place_of_the_one_about_results(tmp_path: Path) -> None:
    platform, bench = SimulatedPlatform(), Bench("b")
    async with crashing_at_the_end(tmp_path, platform, agent=bench.agent):
        platform.write("step x\nfail: no credit")
        platform.write(SCRIPT)
        await eventually("the step hangs", lambda: bench.hanging)
    bench.release()
    async with serving(tmp_path, platform, agent=bench.agent) as gateway:
        await replies(platform, notes.turn_failed("no credit"), "done")
        assert was_cut_in_a_step(await last_turn(gateway.store, key_of(platform)))
    unanswered = [notes.UNANSWERED_RESULTS]
    assert bench.notes() == [[], [], unanswered, unanswered, [CUT]]


async def test_b47_failed_recovery_keeps_its_note_for_the_next_message(tmp_path: Path) -> None:
    """B11 too: it is never run again by itself."""
    platform, bench = SimulatedPlatform(), Bench("b")
    await crash_in_a_step(tmp_path, platform, bench, "step a\nstep b\nfail: no credit")
    bench.release()
    async with serving(tmp_path, platform, agent=bench.agent) as gateway:
        await replies(platform, notes.turn_failed("no credit"))
        assert was_cut_in_a_step(await last_turn(gateway.store, key_of(platform)))
    async with serving(tmp_path, platform, agent=bench.agent):
        platform.write("say: two")
        platform.write("say: three")
        await replies(platform, notes.turn_failed("no credit"), "two", "three")
    assert bench.notes() == [[], [], [CUT], [notes.failed_note("restart_interrupted")], []]
    assert "a gateway interruption" in bench.notes()[3][0]


async def test_b47_message_is_untouched_when_nothing_was_cut_off_and_nothing_unanswered(tmp_path: Path) -> None:
    platform, bench = SimulatedPlatform(), Bench()
    async with serving(tmp_path, platform, agent=bench.agent):
        platform.write("say: one")
        platform.write("say: two")
        await replies(platform, "one", "two")
    assert list(bench.requests[0].messages) == [UserMessage("say: one")]
    assert list(bench.requests[1].messages) == [
        UserMessage("say: one"),
        AssistantMessage("one"),
        UserMessage("say: two"),
    ]


# ── never blank ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_b48_model_never_gets_a_blank_message(tmp_path: Path) -> None:
    """Not when a message has no words, not when one joins, and not when somebody only wants the work to go on."""
    platform, bench, off = SimulatedPlatform(), Bench("b"), {"RECOVERY__POLICY": "off"}
    async with crashing_at_the_end(tmp_path, platform, agent=bench.agent):
        platform.write("  \n ")
        platform.write(SCRIPT)
        await eventually("the step hangs", lambda: bench.hanging)
    bench.release()
    async with serving(tmp_path, platform, agent=bench.agent, **off) as gateway:
        assert was_cut_in_a_step(await decided(gateway.store, key_of(platform), "off"))
        platform.write("")
        await eventually("it joins", lambda: platform.replies()[-1:] == [f"done\n{notes.OFFLINE_GREETING}"])
        bench.stuck.add("b")
        platform.write(SCRIPT, chat="2")
        await eventually("the step hangs in the other chat", lambda: len(bench.hanging) == 2)
        session = await gateway.store.sessions.current(key_of(platform, "2"))
        assert session is not None
        assert await gateway.operators.suspend(session)
        bench.release()
        platform.write("/resume", chat="2")
        await replies(platform, notes.RESUMED["session"], "done", chat="2")
    words = [text for request in bench.words() for text in request]
    assert [text for text in words if not text.strip()] == []
    assert words.count(notes.wordless()) > 1


# ── messages to an interrupted turn ─────────────────────────────────────────────────────────────────────────

JOINED = notes.recovery_note("restart_interrupted", [B_AGAIN], joined=True)


@pytest.mark.parametrize("policy", ["off", "ask"])
async def test_b49_message_joins_the_turn_where_it_does_not_go_on_by_itself(tmp_path: Path, policy: str) -> None:
    platform, bench = SimulatedPlatform(), Bench("b")
    await crash_in_a_step(tmp_path, platform, bench, SCRIPT)
    bench.release()
    async with serving(tmp_path, platform, agent=bench.agent, RECOVERY__POLICY=policy) as gateway:
        assert was_cut_in_a_step(await decided(gateway.store, key_of(platform), policy))
        await joins(gateway, platform, bench, policy)


async def test_b49_message_joins_the_turn_during_a_pause(tmp_path: Path) -> None:
    platform, bench = SimulatedPlatform(), Bench("b")
    await crash_in_a_step(tmp_path, platform, bench, SCRIPT)
    for _ in range(2):
        await crash_in_a_step(tmp_path, platform, bench)
    bench.release()
    patient = {"RECOVERY__MAX_WITHOUT_PROGRESS": "9"}  # so that the session is not set aside first
    async with serving(tmp_path, platform, agent=bench.agent, **patient) as gateway:
        assert was_cut_in_a_step(await decided(gateway.store, key_of(platform), "paused"))
        await joins(gateway, platform, bench, "paused")


async def joins(gateway: Gateway, platform: SimulatedPlatform, bench: Bench, rule: str) -> None:
    """B79 too: one turn, one note, unfinished work first, then the message; the reply is attached to that."""
    message = platform.write("step new\nsay: and that")
    await eventually("it is answered", lambda: platform.replies()[-1:] == ["done\nand that"])
    [view] = await turns_in(gateway.store, key_of(platform))
    assert rules(view)[-2:] == [rule, "message"]
    assert bench.notes()[-2:] == [[JOINED], [JOINED]]
    assert bench.words()[-1] == [SCRIPT, "step new\nsay: and that"]
    assert list(bench.ran) == ["a", "b", "new"]
    assert platform.posted[-1].reply_to == message


async def test_b49_message_joins_the_turn_that_is_about_to_go_on_by_itself(tmp_path: Path) -> None:
    """And what was stored before the interruption keeps its own turn."""
    platform, bench, one = SimulatedPlatform(), Bench("b"), {"RECOVERY__CONCURRENCY": "1"}
    async with crashing_at_the_end(tmp_path, platform, agent=bench.agent):
        for chat in "12":
            platform.write(SCRIPT, chat=chat)
            platform.write("say: before", chat=chat)
        await eventually("both hang", lambda: len(bench.hanging) == 2 and not platform.pending())
    async with serving(tmp_path, platform, agent=bench.agent, **one) as gateway:
        await eventually("one has the only place", lambda: len(bench.hanging) == 3)
        turns = {chat: await last_turn(gateway.store, key_of(platform, chat)) for chat in "12"}
        [other] = [chat for chat, turn in turns.items() if turn.state is State.INTERRUPTED]
        platform.write("say: and that", chat=other)
        await eventually("it is stored", lambda: not platform.pending())
        bench.release()
        await replies(platform, "done\nand that", "before", chat=other)
        joined, own = await turns_in(gateway.store, key_of(platform, other))
    assert was_cut_in_a_step(joined)
    assert [cause.text for cause in joined.causes] == [SCRIPT, "say: and that"]
    assert [cause.text for cause in own.causes] == ["say: before"]
    seen = zip(bench.notes(), bench.words(), strict=True)
    assert [told for told, words in seen if "say: and that" in words] == [[JOINED], []]


@asynccontextmanager
async def held_back(home: Path, platform: SimulatedPlatform, rule: str) -> AsyncIterator[tuple[Gateway, Bench]]:
    """A gateway with a turn that does not go on any more, by this rule."""
    bench, clock = Bench("pay"), SettableClock()
    settings = {
        "stale": {},
        "tokens": {"RECOVERY__MAX_TOKENS": "1"},
        "unauthorised": {"PLATFORMS__WEB__ALLOW": "bob"},
    }[rule]
    async with crashing_at_the_end(home, platform, agent=bench.agent, clock=clock):
        platform.write("step a\nonce pay\nsay: done")
        await eventually("the step hangs", lambda: bench.hanging)
    clock.move(3605 if rule == "stale" else 1)
    async with serving(home, platform, agent=bench.agent, clock=clock, **settings) as gateway:
        assert was_cut_in_a_step(await decided(gateway.store, key_of(platform), rule))
        yield gateway, bench


@pytest.mark.parametrize("rule", ["stale", "tokens", "unauthorised"])
async def test_b49_message_supersedes_work_that_may_not_go_on(tmp_path: Path, rule: str) -> None:
    platform = SimulatedPlatform("web")
    async with held_back(tmp_path, platform, rule) as (gateway, bench):
        message = platform.write("say: new", sender="bob")
        await eventually("the message is answered", lambda: platform.replies()[-1:] == ["new"])
        platform.write("say: next", sender="bob")
        await eventually("the next one too", lambda: platform.replies()[-1:] == ["next"])
        old, *_ = views = await turns_in(gateway.store, key_of(platform))
    assert (old.ended, [view.state for view in views[1:]]) == (Cancelled("superseded"), [State.DONE] * 2)
    left = notes.superseded_note([notes.in_doubt("once(name='pay', seconds=0.0)")])
    assert bench.notes()[-2:] == [[left], []]
    assert "left unfinished" in left
    assert platform.posted[-2].reply_to == message
    assert bench.ran["pay"] == 1

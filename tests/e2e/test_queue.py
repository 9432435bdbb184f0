"""Messages to a busy conversation, through a platform: they wait, steer, interrupt or are collected.

Drives `store/queue` and `store/busy_modes`.
"""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from perdure.agents.api import Reply, TurnContext
from perdure.core import texts
from perdure.core.journal import MessagesJoined, TurnCancelled
from perdure.core.queue import QUEUE_MODE_NAMES, QueueMode
from perdure.core.states import CancelReason
from perdure.testing import SettableClock, SimulatedPlatform
from support.inprocess import crashing_at_the_end, serving
from support.recovery import AgentHarness, key_of, turn_views, wait_for_replies
from support.waiting import eventually

pytestmark = pytest.mark.anyio

QUICK = {"QUEUE__QUIET": "50ms"}
WORK = "step a 0s\nsay: one"

# What people write while the turn of "one" is in its step, and what they see then.
WRITTEN = {mode: ["two", "three"] for mode in QUEUE_MODE_NAMES} | {"interrupt": ["three"]}
SEEN = {
    "queue": ["one", "two", "three"],
    "steer": ["one\ntwo\nthree"],
    "interrupt": ["three"],
    "collect": ["one", "two\nthree"],
}
TURNS = {"queue": 3, "steer": 1, "interrupt": 2, "collect": 2}


async def taken(platform: SimulatedPlatform) -> None:
    await eventually("everything is stored", lambda: not platform.pending())


@pytest.mark.parametrize("mode", QUEUE_MODE_NAMES)
async def test_b80_messages_that_come_while_a_turn_runs(mode: QueueMode, tmp_path: Path) -> None:
    platform, harness = SimulatedPlatform("web"), AgentHarness("a")
    async with serving(tmp_path, platform, agent=harness.agent, QUEUE__MODE=mode, **QUICK) as gateway:
        platform.write(WORK)
        await harness.wait_until_hanging()
        platform.redeliver = 2
        last = [platform.write(f"say: {text}") for text in WRITTEN[mode]][-1]
        if mode == "interrupt":
            await wait_for_replies(platform, *SEEN[mode])
        await taken(platform)
        harness.release()
        await wait_for_replies(platform, *SEEN[mode])
        assert platform.posted[-1].reply_to == last, "B79: attached to the newest message"
        turns = await turn_views(gateway.store, key_of(platform))
    assert len(turns) == TURNS[mode]
    assert harness.run_counts["a"] == 1
    if mode == "interrupt":
        assert turns[0].ended == TurnCancelled(CancelReason.REPLACED)


@pytest.mark.parametrize("mode", QUEUE_MODE_NAMES)
async def test_b80_waiting_messages_survive_a_crash_in_every_mode(mode: QueueMode, tmp_path: Path) -> None:
    """The turn was cut off in the middle, and the mode was switched to another one by the configuration."""
    platform, harness, clock = SimulatedPlatform("web"), AgentHarness("a"), SettableClock()
    options = {"agent": harness.agent, "clock": clock, **QUICK}
    async with crashing_at_the_end(tmp_path, platform, QUEUE__MODE=mode, **options):
        platform.write(WORK)
        await harness.wait_until_hanging()
        for text in WRITTEN[mode]:
            platform.write(f"say: {text}")
        if mode == "interrupt":
            await wait_for_replies(platform, *SEEN[mode])
        await taken(platform)
    harness.release()
    async with serving(tmp_path, platform, QUEUE__MODE="queue", **options) as gateway:
        await wait_for_replies(platform, *SEEN[mode])
        turns = await turn_views(gateway.store, key_of(platform))
    assert len(turns) == TURNS[mode]


async def test_b80_message_that_steers_is_heard_after_the_running_step_and_before_the_next(tmp_path: Path) -> None:
    platform, harness = SimulatedPlatform("web"), AgentHarness("a", "b")
    async with serving(tmp_path, platform, agent=harness.agent, QUEUE__MODE="steer") as gateway:
        platform.write("step a 0s\nstep b 0s\nsay: done")
        await harness.wait_until_hanging()
        platform.write("say: and this")
        await taken(platform)
        harness.release()
        await wait_for_replies(platform, "done\nand this")
        (turn,) = await turn_views(gateway.store, key_of(platform))
    kinds = [record.entry.kind for record in turn.records]
    assert kinds.index("joined") == kinds.index("tool_ended") + 1
    assert harness.request_texts()[:2] == [
        ["step a 0s\nstep b 0s\nsay: done"],
        ["step a 0s\nstep b 0s\nsay: done", "say: and this"],
    ]
    assert harness.run_counts == {"a": 1, "b": 1}


async def test_b80_model_is_told_that_interrupted_work_was_left(tmp_path: Path) -> None:
    platform, harness = SimulatedPlatform("web"), AgentHarness("a")
    async with serving(tmp_path, platform, agent=harness.agent, QUEUE__MODE="interrupt") as gateway:
        platform.write("once a 0s\nsay: one")
        await harness.wait_until_hanging()
        platform.write("say: two")
        await wait_for_replies(platform, "two")
        platform.write("/why")
        await eventually("it is explained", lambda: len(platform.replies()) == 2)
        turns = await turn_views(gateway.store, key_of(platform))
    assert any("left unfinished" in note for notes_of in harness.request_notes() for note in notes_of)
    assert [turn.state for turn in turns] == ["cancelled", "done"]
    assert all(call.ended is not None for call in turns[0].calls.values()), "B64"


async def test_b80_turn_that_was_interrupted_for_good_never_comes_back(tmp_path: Path) -> None:
    platform, harness, clock = SimulatedPlatform("web"), AgentHarness("a", "b"), SettableClock()
    options = {"agent": harness.agent, "clock": clock, "QUEUE__MODE": "interrupt"}
    async with crashing_at_the_end(tmp_path, platform, **options):
        platform.write(WORK)
        await harness.wait_until_hanging()
        platform.write("step b 0s\nsay: two")
        await harness.wait_until_hanging(2)
    harness.release()
    async with serving(tmp_path, platform, **options) as gateway:
        await wait_for_replies(platform, "two")
        turns = await turn_views(gateway.store, key_of(platform))
    assert [turn.state for turn in turns] == ["cancelled", "done"]
    assert harness.run_counts["a"] == 1


async def test_b28_message_that_interrupts_during_a_drain_is_answered_after_the_restart(tmp_path: Path) -> None:
    platform, harness = SimulatedPlatform("web"), AgentHarness("a")
    async with serving(
        tmp_path, platform, agent=harness.agent, QUEUE__MODE="interrupt", DRAIN__DEADLINE="20s"
    ) as gateway:
        platform.write(WORK)
        await harness.wait_until_hanging()
        gateway.stop()
        await eventually("it drains", lambda: gateway.phase != "ready")
        platform.write("say: two")
    harness.release()
    async with serving(tmp_path, platform, agent=harness.agent):
        await eventually("it is answered", lambda: platform.replies()[-1:] == ["two"])
    assert "one" not in platform.replies()


# ── commands ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_b81_queue_shows_and_switches_the_mode_of_one_chat(tmp_path: Path) -> None:
    platform = SimulatedPlatform("web")
    async with serving(tmp_path, platform):
        platform.write("/queue")
        platform.write("/queue Collect")
        platform.write("/queue")
        said = [
            texts.turns.queue_status("queue", 0),
            texts.turns.queue_mode_changed("collect"),
            texts.turns.queue_status("collect", 0),
        ]
        await wait_for_replies(platform, *said)
    async with serving(tmp_path, platform) as gateway:
        assert await gateway.store.queue.mode(key_of(platform), "queue") == "collect"
        platform.write("/status")
        platform.write("/queue", chat="2")
        await eventually("both are answered", lambda: platform.replies("2") and len(platform.replies()) == 4)
        assert texts.turns.queue_mode_line("collect") in platform.replies()[-1]
        assert platform.replies("2") == [texts.turns.queue_status("queue", 0)]


async def test_b81_steer_and_queue_put_words_in_a_manner_of_their_own(tmp_path: Path) -> None:
    platform, harness = SimulatedPlatform("web"), AgentHarness("a")
    async with serving(tmp_path, platform, agent=harness.agent, QUEUE__MODE="interrupt") as gateway:
        platform.write(WORK)
        await harness.wait_until_hanging()
        platform.redeliver = 2
        platform.write("/queue say: later")
        platform.write("/steer say: also")
        platform.write("/status")
        await eventually("they are answered", lambda: len(platform.replies()) == 3)
        assert platform.replies()[:2] == [
            texts.turns.message_queued(busy=True, before=0),
            texts.turns.message_steered(busy=True),
        ]
        assert "2 messages are waiting for their turn." in platform.replies()[2]
        harness.release()
        await eventually("all is answered", lambda: platform.replies()[3:] == ["one\nalso", "later"])
        assert len(await turn_views(gateway.store, key_of(platform))) == 2


async def test_b81_steer_begins_a_turn_when_none_runs_and_wants_words(tmp_path: Path) -> None:
    platform = SimulatedPlatform("web")
    async with serving(tmp_path, platform):
        platform.write("/steer")
        platform.write("/steer say: hello")
        await wait_for_replies(platform, texts.turns.STEER_TEXT_MISSING, "hello")


async def test_b80_switching_does_not_change_what_already_waits(tmp_path: Path) -> None:
    platform, harness = SimulatedPlatform("web"), AgentHarness("a")
    async with serving(tmp_path, platform, agent=harness.agent, **QUICK):
        platform.write(WORK)
        await harness.wait_until_hanging()
        platform.write("say: two")
        platform.write("/queue collect")
        platform.write("say: three")
        platform.write("say: four")
        await taken(platform)
        harness.release()
        await wait_for_replies(platform, texts.turns.queue_mode_changed("collect"), "one", "two", "three\nfour")


# ── the cap ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_b80_flood_is_told_once_that_no_more_is_taken(tmp_path: Path) -> None:
    platform, harness = SimulatedPlatform("web"), AgentHarness("a")
    async with serving(tmp_path, platform, agent=harness.agent, QUEUE__CAP="3"):
        platform.write(WORK)
        await harness.wait_until_hanging()
        for number in range(30):
            platform.write(f"say: {number}")
        await taken(platform)
        harness.release()
        await wait_for_replies(platform, texts.turns.queue_full(3), "one", "0", "1", "2")
        platform.write("say: again")
        await wait_for_replies(platform, texts.turns.queue_full(3), "one", "0", "1", "2", "again")


# ── albums, edits, age ──────────────────────────────────────────────────────────────────────────────────────


async def test_album_is_one_turn(tmp_path: Path) -> None:
    platform = SimulatedPlatform("web")
    async with serving(tmp_path, platform, **QUICK) as gateway:
        for text in ("say: one", "say: two", "say: three"):
            platform.write(text, album="x")
        await wait_for_replies(platform, "one\ntwo\nthree")
        assert len(await turn_views(gateway.store, key_of(platform))) == 1


async def test_b85_message_that_waits_is_edited_or_deleted_by_its_sender(tmp_path: Path) -> None:
    platform, harness = SimulatedPlatform("web"), AgentHarness("a")
    async with serving(tmp_path, platform, agent=harness.agent):
        work = platform.write(WORK)
        await harness.wait_until_hanging()
        two, three, four = (platform.write(f"say: {text}") for text in ("two", "three", "four"))
        platform.redeliver = 2
        platform.edit(two, "say: TWO")
        platform.delete(three)
        platform.edit(four, "say: nonsense", sender="eve")
        platform.delete(four, sender="eve")
        platform.edit(work, "say: too late")
        platform.delete(work)
        await taken(platform)
        harness.release()
        await wait_for_replies(platform, "one", "TWO", "four")
        platform.delete(two)
        await taken(platform)
    assert platform.replies() == ["one", "TWO", "four"]


async def test_b85_edit_that_makes_a_command_is_carried_out(tmp_path: Path) -> None:
    platform, harness = SimulatedPlatform("web"), AgentHarness("a")
    async with serving(tmp_path, platform, agent=harness.agent) as gateway:
        platform.write(WORK)
        await harness.wait_until_hanging()
        word = platform.write("stop")
        await taken(platform)
        platform.edit(word, "/stop")
        await wait_for_replies(platform, texts.chat_commands.stopped("turn", 0, 0, 0))
        (turn,) = await turn_views(gateway.store, key_of(platform))
    assert turn.ended == TurnCancelled(CancelReason.STOPPED)


async def test_b72_messages_from_long_ago_are_reported_once(tmp_path: Path) -> None:
    platform, clock = SimulatedPlatform("web"), SettableClock()
    for number in range(40):
        platform.write(f"say: {number}", sent_at=clock() - 25 * 3_600_000)
    platform.write("/restart", sent_at=clock() - 25 * 3_600_000)
    platform.write("say: yesterday", sent_at=clock() - 23 * 3_600_000)
    async with serving(tmp_path, platform, clock=clock, QUEUE__QUIET="500ms") as gateway:
        await eventually("both are told", lambda: len(platform.replies()) == 2)
        assert sorted(platform.replies()) == sorted(["yesterday", texts.turns.messages_expired(41)])
        assert gateway.phase == "ready"
    async with serving(tmp_path, platform, clock=clock):
        platform.write("say: done")
        await eventually("the next is answered", lambda: len(platform.replies()) == 3)


async def test_b72_messages_that_waited_too_long_are_reported_and_not_answered(tmp_path: Path) -> None:
    """Over a restart, with a command among them, and in a conversation whose turn does not go on."""
    platform, harness, clock = SimulatedPlatform("web"), AgentHarness("a"), SettableClock()
    options = {"agent": harness.agent, "clock": clock, "INBOX__MAX_AGE": "2h", "RECOVERY__POLICY": "off"}
    async with crashing_at_the_end(tmp_path, platform, **options):
        platform.write(WORK)
        await harness.wait_until_hanging()
        platform.write("say: two")
        platform.write("say: three")
        await taken(platform)
    clock.move(3 * 3600)
    harness.release()
    async with serving(tmp_path, platform, **options):
        await eventually("it is told", lambda: texts.turns.messages_expired(2) in platform.replies())
        platform.write("say: four")
        await eventually("the next is answered", lambda: "four" in "".join(platform.replies()[-1:]))
    assert not {"two", "three"} & set(platform.replies())


async def test_b80_messages_that_interrupt_one_after_the_other_end_with_the_last(tmp_path: Path) -> None:
    """Each either ended the one before, or was heard together with it, as it came about."""
    platform, harness = SimulatedPlatform("web"), AgentHarness("a")
    async with serving(tmp_path, platform, agent=harness.agent, QUEUE__MODE="interrupt") as gateway:
        platform.write(WORK)
        await harness.wait_until_hanging()
        for number in range(20):
            platform.write(f"say: {number}")
        await eventually("the last is answered", lambda: "".join(platform.replies()[-1:]).endswith("19"))
        turns = await turn_views(gateway.store, key_of(platform))
        assert await gateway.store.inbox.count_waiting(key_of(platform)) == 0
    heard = [cause.text for turn in turns for cause in turn.causes]
    assert heard == [WORK, *(f"say: {number}" for number in range(20))]


async def test_b78_hundreds_of_waiting_messages_grow_no_stack(tmp_path: Path) -> None:
    platform, depths = SimulatedPlatform("web"), list[int]()

    class Deep:
        async def run(self, context: TurnContext) -> Reply:
            depths.append(len(inspect.stack(0)))
            return Reply(context.view.causes[-1].text)

    for number in range(300):
        platform.write(str(number))
    async with serving(tmp_path, platform, agent=Deep(), QUEUE__CAP="1000"):
        await wait_for_replies(platform, *map(str, range(300)))
    assert len(depths) == 300
    assert len(set(depths)) == 1


async def test_b80_thousand_messages_join_one_turn(tmp_path: Path) -> None:
    platform, harness = SimulatedPlatform("web"), AgentHarness("a")
    async with serving(tmp_path, platform, agent=harness.agent, QUEUE__MODE="steer", QUEUE__CAP="1000") as gateway:
        platform.write(WORK)
        await harness.wait_until_hanging()
        for number in range(1000):
            platform.write(f"say: {number}")
        await taken(platform)
        harness.release()
        await wait_for_replies(platform, "\n".join(["one", *map(str, range(1000))]))
        (turn,) = await turn_views(gateway.store, key_of(platform))
    assert sum(isinstance(record.entry, MessagesJoined) for record in turn.records) == 1

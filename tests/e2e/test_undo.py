"""`/undo` and `/retry`, through a platform and across kills: a turn is taken back once, and asked again once.

Drives `runtime/commands/session` and `store/undo`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.agents.api import Reply, TurnContext
from perdure.core import texts
from perdure.core.messages import Outbound, Receipt
from perdure.errors import NotConnected
from perdure.operations.inspect import explain_session, trace_message
from perdure.store.ids import wall_clock
from perdure.testing import SettableClock, SimulatedPlatform
from perdure.testing.simulated_platform import SimulatedAdapter
from support.gateway import Person, gateway
from support.inprocess import crashing_at_the_end, serving
from support.recovery import AgentHarness, key_of, turn_views, wait_for_replies
from support.shutdown import HeldAgent
from support.waiting import eventually

pytestmark = pytest.mark.anyio


def taken_back(words: str, *, acted: bool = False, goal: bool = False, lives: bool = False) -> str:
    return texts.chat_commands.undone(words, acted=acted, still_running=lives, goal=goal)


def again(words: str, *, acted: bool = False) -> str:
    return texts.chat_commands.retried(words, acted=acted, still_running=False)


# ── undo ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_b81_model_does_not_see_what_was_taken_back(tmp_path: Path) -> None:
    platform, bench = SimulatedPlatform(), AgentHarness()
    async with serving(tmp_path, platform, agent=bench.agent):
        platform.write("say: one")
        platform.write("once b 0s\nsay: two")
        await wait_for_replies(platform, "one", "two")
        platform.write("/undo")
        undone = taken_back("once b 0s\nsay: two", acted=True)
        await wait_for_replies(platform, "one", "two", undone)
        platform.write("say: three")
        await wait_for_replies(platform, "one", "two", undone, "three")
    assert bench.request_texts()[-1] == ["say: one", "say: three"]
    assert undone == (
        "Taken back: “once b 0s say: two”. I do not see it any more, nor my answer. What its tools did stays done."
    )


async def test_b81_two_quick_undos_go_two_turns_back_and_one_delivered_twice_goes_one(tmp_path: Path) -> None:
    platform, bench = SimulatedPlatform(), AgentHarness()
    async with serving(tmp_path, platform, agent=bench.agent):
        for number in range(4):
            platform.write(f"say: {number}")
        await wait_for_replies(platform, "0", "1", "2", "3")
        platform.write("/undo")
        platform.write("/undo")
        await eventually("both are answered", lambda: len(platform.replies()) == 6)
        platform.redeliver = 1
        platform.write("/undo")
        platform.write("say: end")
        await eventually("all is answered", lambda: platform.replies()[-1:] == ["end"])
    assert platform.replies()[4:] == [taken_back(f"say: {number}") for number in (3, 2, 1)] + ["end"]
    assert bench.request_texts()[-1] == ["say: 0", "say: end"]


async def test_b81_turn_that_runs_is_not_taken_back_and_the_answer_says_what_to_do(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), HeldAgent()
    agent.release("after")
    async with serving(tmp_path, platform, agent=agent):
        platform.write("work")
        await agent.wait_until_started("work")
        platform.write("/undo")
        platform.write("/retry")
        refused = [
            texts.chat_commands.UNDO_REFUSALS["running"].format(command=command) for command in ("undo", "retry")
        ]
        await wait_for_replies(platform, *refused)
        platform.write("/stop")
        platform.write("/undo")
        platform.write("after")
        await wait_for_replies(platform, *refused, "Stopped.", taken_back("work"), "after: done")
    assert agent.seen_texts[-1] == ["after"]


async def test_b81_undo_survives_a_kill_right_behind_it(tmp_path: Path) -> None:
    platform, bench, clock = SimulatedPlatform(), AgentHarness(), SettableClock()
    async with crashing_at_the_end(tmp_path, platform, agent=bench.agent, clock=clock):
        platform.write("say: one")
        await wait_for_replies(platform, "one")
        platform.write("/undo")
        await eventually("it is stored", lambda: not platform.pending())
    clock.move(600)
    async with serving(tmp_path, platform, agent=bench.agent, clock=clock):
        await wait_for_replies(platform, "one", taken_back("say: one"))
        platform.write("say: two")
        await wait_for_replies(platform, "one", taken_back("say: one"), "two")
    assert bench.request_texts()[-1] == ["say: two"]


class Silent(SimulatedPlatform):
    """A platform that takes messages, and at first sends none."""

    sends = False

    def adapter(self) -> SimulatedAdapter:
        return _SilentAdapter(self)


class _SilentAdapter(SimulatedAdapter):
    def __init__(self, platform: Silent) -> None:
        super().__init__(platform)
        self._silent = platform

    async def send(self, outbound: Outbound) -> Receipt:
        if not self._silent.sends:
            raise NotConnected("nothing goes out")
        return await super().send(outbound)


async def test_b81_answer_that_was_not_sent_yet_is_taken_back_with_its_turn(tmp_path: Path) -> None:
    platform = Silent()
    async with serving(tmp_path, platform) as running:
        platform.write("say: never seen")
        await eventually("it is owed", running.store.outbox.open_deliveries)
        platform.write("/undo")

        async def undone() -> bool:
            [view] = await turn_views(running.store, key_of(platform))
            return view.undone

        await eventually("it is taken back", undone)
    platform.sends = True
    async with serving(tmp_path, platform):
        await wait_for_replies(platform, taken_back("say: never seen"))


async def test_b81_explanations_and_traces_know_what_was_taken_back(tmp_path: Path) -> None:
    platform = SimulatedPlatform()
    async with serving(tmp_path, platform) as running:
        message = platform.write("say: one")
        await wait_for_replies(platform, "one")
        platform.write("/undo")
        await wait_for_replies(platform, "one", taken_back("say: one"))
        lines = await explain_session(running.store, key_of(platform), wall_clock)
        facts = await trace_message(running.store, message)
    assert "It was taken back since: the model does not see it any more." in lines
    assert [fact.detail for fact in facts if fact.what == "undone"] == ["by ann"]


async def test_b81_goal_waits_after_undo_and_retry_does_not_ask_it_again(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), HeldAgent()
    agent.release("go on")
    async with serving(tmp_path, platform, agent=agent, GOAL__MAX_TURNS="3"):
        platform.write("/goal tidy up")
        await eventually("it is set", platform.replies)
        await eventually("its turn runs", lambda: agent.started_texts)
        platform.write("/stop")
        platform.write("/retry")
        platform.write("/undo")
        answers = ["Stopped.", texts.chat_commands.UNDO_REFUSALS["unasked"], taken_back("tidy up", goal=True)]
        await eventually("all is answered", lambda: platform.replies()[1:] == answers)
        assert len(agent.started_texts) == 1, "the goal went on by itself"


async def test_b81_undo_reaches_the_session_that_was_brought_back_and_no_other(tmp_path: Path) -> None:
    platform, bench = SimulatedPlatform(), AgentHarness()
    async with serving(tmp_path, platform, agent=bench.agent) as running:
        platform.write("say: old", chat="2")
        await wait_for_replies(platform, "old", chat="2")
        [old] = await running.store.sessions.of_key(key_of(platform, "2"))
        platform.write("say: new")
        await wait_for_replies(platform, "new")
        platform.write(f"/resume {old.id}")
        platform.write("/undo")
        platform.write("/undo")
        answers = [
            texts.chat_commands.RESUME_ANSWERS["session"],
            taken_back("say: old"),
            texts.chat_commands.UNDO_REFUSALS["nothing"],
        ]
        await wait_for_replies(platform, "new", *answers)


async def test_b81_process_lives_on_when_its_turn_is_taken_back(tmp_path: Path) -> None:
    platform = SimulatedPlatform()
    async with serving(tmp_path, platform) as running:
        script = "background: cat\nsay: begun"
        platform.write(script)
        await wait_for_replies(platform, "begun")
        platform.write("/undo")
        await wait_for_replies(platform, "begun", taken_back(script, acted=True, lives=True))
        [process] = await running.store.processes.live()
        await running.operator_verbs.erase(process.session)
        assert await running.store.processes.live() == []


# ── retry ───────────────────────────────────────────────────────────────────────────────────────────────────


class Moody:
    """An agent that fails until it is in a good mood."""

    good = False

    async def run(self, context: TurnContext) -> Reply:
        if not self.good:
            raise RuntimeError("in a bad mood")
        return Reply(f"{len(context.history)} before {context.view.causes[-1].text}")


async def test_b81_failed_turn_is_asked_again_and_answered_in_the_place_of_the_first(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), Moody()
    async with serving(tmp_path, platform, agent=agent):
        message = platform.write("work")
        failed = texts.turns.failed(texts.turns.AGENT_CRASHED)
        await wait_for_replies(platform, failed)
        agent.good = True
        platform.redeliver = 1
        platform.write("/retry")
        await wait_for_replies(platform, failed, again("work"), "0 before work")
    assert platform.posted[-1].reply_to == message


async def test_b81_retry_survives_a_kill_in_the_middle_of_the_second_try(tmp_path: Path) -> None:
    platform, bench, clock = SimulatedPlatform(), AgentHarness(), SettableClock()
    async with crashing_at_the_end(tmp_path, platform, agent=bench.agent, clock=clock):
        platform.write("step a 0s\nsay: done")
        await wait_for_replies(platform, "done")
        bench.stuck.add("a")
        platform.write("/retry")
        await bench.wait_until_hanging()
    clock.move(600)
    bench.release()
    async with serving(tmp_path, platform, agent=bench.agent, clock=clock) as running:
        await wait_for_replies(platform, "done", again("step a 0s\nsay: done"), "done")
        views = await turn_views(running.store, key_of(platform))
    assert [view.undone for view in views] == [True, False]


async def test_b86_work_in_the_background_is_asked_again_by_its_number(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), Moody()
    async with serving(tmp_path, platform, agent=agent):
        platform.write("/background count")
        await eventually("it has failed", lambda: len(platform.replies()) == 2)
        agent.good = True
        platform.write("/background retry 1")
        await eventually("it is answered", lambda: len(platform.replies()) == 4)
    assert platform.replies()[2] == again("count")
    assert "0 before count" in platform.replies()[3]


def test_b81_undo_and_retry_over_http_across_a_kill(tmp_path: Path) -> None:
    with gateway(tmp_path / "home") as process:
        ann = Person(process)
        ann.say("say: one")
        ann.wait_for_replies(1)
        ann.say("say: two")
        ann.wait_for_replies(2)
        ann.say("/retry", "r1")
        ann.wait_for_replies(4)
        process.kill()
        process.start()
        assert ann.say("/retry", "r1").status_code == 200
        ann.say("/undo", "u1")
        ann.wait_for_replies(5)
        process.kill()
        process.start()
        assert ann.say("/undo", "u1").status_code == 200
        assert ann.replies() == ["one", "two", again("say: two"), "two", taken_back("say: two")]
        texts = [message["text"] for message in ann.messages() if message["author"] == "user"]
        assert texts == ["say: one", "say: two", "/retry", "/undo"]

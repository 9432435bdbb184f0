"""Work in the background: a session of its own, with all promises; the chat goes on, and gets the answer.

Drives `runtime/commands/background` and `store/background_sessions`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.agents.api import Reply, TurnContext
from perdure.agents.builtin_agent import BuiltinAgent
from perdure.agents.offline_model import OfflineModel
from perdure.core import texts
from perdure.core.address import Address, background_session_key, session_key
from perdure.core.effects import Effect
from perdure.core.states import TurnState
from perdure.core.tools import Tool, Use
from perdure.platforms.api import Capabilities
from perdure.runtime.gateway import Gateway
from perdure.testing import SettableClock, SimulatedPlatform
from support.inprocess import crashing_at_the_end, serving
from support.recovery import key_of, run_perdure, turn_views
from support.shutdown import HeldAgent
from support.store_call_sweep import StoreCallSweep
from support.waiting import eventually

pytestmark = pytest.mark.anyio

BEGUN = [texts.chat_commands.background_started(number) for number in range(4)]


async def sees(platform: SimulatedPlatform, *texts: str) -> None:
    await eventually(f"the chat sees {texts}", lambda: platform.replies() == list(texts))


def work_key(platform: SimulatedPlatform, number: int = 1) -> str:
    return background_session_key(key_of(platform), number)


async def states(gateway: Gateway, key: str) -> list[TurnState]:
    return [turn.state for turn in await turn_views(gateway.store, key)]


# ── beside the chat ─────────────────────────────────────────────────────────────────────────────────────────


async def test_b86_work_goes_on_beside_the_chat_and_its_answer_comes_back_marked(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), HeldAgent()
    async with serving(tmp_path, platform, agent=agent) as gateway:
        asked = platform.write("/background research")
        await sees(platform, BEGUN[1])
        await agent.wait_until_started("research")
        agent.release("hello", "research")
        platform.write("hello")
        await eventually("both are answered", lambda: len(platform.replies()) == 3)
        assert set(platform.replies()[1:]) == {"hello: done", "[background 1] research: done"}
        [answer] = [posted for posted in platform.posted if posted.text.startswith("[background 1]")]
        assert answer.reply_to == asked, "the answer is attached to the message that asked"
        assert await states(gateway, work_key(platform)) == [TurnState.DONE]
        assert [
            cause.text for view in await turn_views(gateway.store, key_of(platform)) for cause in view.causes
        ] == ["hello"]


async def test_b86_answer_goes_to_the_thread_that_asked(tmp_path: Path) -> None:
    platform = SimulatedPlatform()
    async with serving(tmp_path, platform):
        platform.write("/background say: found", thread="7")
        await sees(platform, BEGUN[1], "[background 1] found")
    assert {posted.address for posted in platform.posted} == {Address(platform.name, "dm", "1", "7")}


async def test_b86_every_work_has_a_number_of_its_own(tmp_path: Path) -> None:
    platform = SimulatedPlatform()
    async with serving(tmp_path, platform) as gateway:
        for number in range(1, 6):
            platform.write(f"/background say: answer {number}")
        await eventually("all are answered", lambda: len(platform.replies()) == 10)
        platform.write("/background say: elsewhere", chat="2")
        await eventually("it is answered", lambda: "[background 1] elsewhere" in platform.replies("2"))
        sessions = [session.key for session in await gateway.store.sessions.page()]
    answers = {f"[background {number}] answer {number}" for number in range(1, 6)}
    assert answers <= set(platform.replies())
    assert {work_key(platform, number) for number in range(1, 6)} <= set(sessions)


async def test_b86_failure_comes_back_marked(tmp_path: Path) -> None:
    platform = SimulatedPlatform()
    async with serving(tmp_path, platform):
        platform.write("/background fail: no credit")
        await sees(platform, BEGUN[1], "[background 1] I could not finish this: no credit")


async def test_b86_work_that_says_nothing_is_told_to_be_done(tmp_path: Path) -> None:
    class Mute:
        async def run(self, context: TurnContext) -> Reply:
            return Reply("")

    platform = SimulatedPlatform()
    async with serving(tmp_path, platform, agent=Mute()):
        platform.write("/background think")
        await sees(platform, BEGUN[1], "[background 1] Done.")


async def test_b86_nothing_is_shown_of_an_answer_that_still_grows(tmp_path: Path) -> None:
    class Speaker:
        async def run(self, context: TurnContext) -> Reply:
            context.show("so far")
            return Reply(f"shows {context.shows}")

    can = Capabilities(idempotent_send=True, keeps_missed=True, edit=True)
    platform = SimulatedPlatform(capabilities=can)
    async with serving(tmp_path, platform, agent=Speaker()):
        platform.write("/background speak")
        await sees(platform, BEGUN[1], "[background 1] shows False")
    assert platform.drafts == []


async def test_b86_work_is_listed_while_it_goes_on(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), HeldAgent()
    line = "Background 1 is running: research"
    async with serving(tmp_path, platform, agent=agent):
        platform.write("/background")
        await sees(platform, texts.chat_commands.NO_BACKGROUND_SESSION)
        platform.write("/background research")
        await agent.wait_until_started("research")
        platform.write("/background")
        await sees(platform, texts.chat_commands.NO_BACKGROUND_SESSION, BEGUN[1], line)
        platform.write("/status")
        await eventually("it is told", lambda: len(platform.replies()) == 4)
        assert line in platform.replies()[-1]
        platform.write("/background", chat="2")
        await eventually(
            "it is answered", lambda: platform.replies("2") == [texts.chat_commands.NO_BACKGROUND_SESSION]
        )
        agent.release("research")
        await eventually("it is done", lambda: "[background 1] research: done" in platform.replies())
        platform.write("/background")
        await eventually(
            "nothing goes on", lambda: platform.replies()[-1:] == [texts.chat_commands.NO_BACKGROUND_SESSION]
        )


# ── stopping ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_b86_stop_in_the_chat_does_not_end_it_and_its_own_stop_does(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), HeldAgent()
    async with serving(tmp_path, platform, agent=agent) as gateway:
        platform.write("/background one")
        platform.write("/background two")
        platform.write("hello")
        await agent.wait_until_started("one", "two", "hello")
        platform.write("/stop all")
        await sees(platform, BEGUN[1], BEGUN[2], "Stopped.")
        platform.write("/background stop 1")
        await sees(platform, BEGUN[1], BEGUN[2], "Stopped.", "Stopped.")
        agent.release("two")
        await sees(platform, BEGUN[1], BEGUN[2], "Stopped.", "Stopped.", "[background 2] two: done")
        assert await states(gateway, work_key(platform, 1)) == [TurnState.CANCELLED]
        assert await states(gateway, work_key(platform, 2)) == [TurnState.DONE]


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("/background stop 7", texts.chat_commands.background_unknown(7)),
        ("/background stop", texts.chat_commands.usage("/background [TEXT | stop N]", "stop")),
        ("/background answer 7 yes", texts.chat_commands.background_unknown(7)),
    ],
)
async def test_b86_command_for_no_work_says_so(tmp_path: Path, command: str, answer: str) -> None:
    platform = SimulatedPlatform()
    async with serving(tmp_path, platform):
        platform.write(command)
        await sees(platform, answer)


async def test_b86_words_that_only_begin_like_a_command_are_work(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), HeldAgent()
    async with serving(tmp_path, platform, agent=agent):
        agent.release("stop the music", "resume 3 reports")
        platform.write("/background stop the music")
        await sees(platform, BEGUN[1], "[background 1] stop the music: done")
        platform.write("/background resume 3 reports")
        await sees(
            platform,
            BEGUN[1],
            "[background 1] stop the music: done",
            BEGUN[2],
            "[background 2] resume 3 reports: done",
        )


# ── questions and approvals ─────────────────────────────────────────────────────────────────────────────────

QUESTION = "[background 1] Which way?\n(Left / Right)\nSay /background answer 1 … to answer."


@pytest.mark.parametrize("pressed", [True, False], ids=["by its button", "in words"])
async def test_b86_question_of_a_work_is_answered_by_its_number(tmp_path: Path, pressed: bool) -> None:
    platform = SimulatedPlatform()
    async with serving(tmp_path, platform):
        platform.write("/background ask: Which way? | Left | Right")
        await sees(platform, BEGUN[1], QUESTION)
        shown = [(button.label, button.command) for button in platform.posted[1].buttons]
        assert shown == [("Left", "/background answer 1 Left"), ("Right", "/background answer 1 Right")]
        platform.write("say: the chat goes on")
        await sees(platform, BEGUN[1], QUESTION, "the chat goes on")
        (platform.press if pressed else platform.write)("/background answer 1 Right")
        told = [] if pressed else ["Passed on."]
        await sees(platform, BEGUN[1], QUESTION, "the chat goes on", *told, "[background 1] Right")


class Guarded:
    """The offline model with a tool that a person must approve."""

    def __init__(self) -> None:
        self.ran = 0
        guarded = Tool("step", "", self._run, Effect.ONCE, guard=lambda *_: "it says /stop and is dangerous")
        self.agent = BuiltinAgent(OfflineModel(), [guarded])

    async def _run(self, use: Use) -> str:
        self.ran += 1
        return "ran"


@pytest.mark.parametrize(("verb", "ran"), [("approve", 1), ("deny", 0)])
async def test_b86_call_of_a_work_is_approved_by_its_number(tmp_path: Path, verb: str, ran: int) -> None:
    platform, guarded = SimulatedPlatform(), Guarded()
    async with serving(tmp_path, platform, agent=guarded.agent):
        platform.write("/background step /stop 0s\nsay: over")
        await eventually("it asks", lambda: len(platform.replies()) == 2)
        asked = platform.posted[1]
        assert "name='/stop'" in asked.text, "what is to be approved stays as it is"
        assert asked.text.endswith("Say /background approve 1 or /background deny 1; nothing else counts.")
        platform.write("/approve")  # of the chat, where nothing waits
        await eventually(
            "it is answered", lambda: platform.replies()[-1:] == [texts.questions.DECISION_ANSWERS["nothing"]]
        )
        [button] = [each for each in asked.buttons if each.command.startswith(f"/background {verb} 1 t_")]
        platform.press(button.command)
        await eventually("it is over", lambda: platform.replies()[-1:] == ["[background 1] over"])
    assert guarded.ran == ran


# ── crashes ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_b86_work_goes_on_after_a_crash(tmp_path: Path) -> None:
    platform, agent, clock = SimulatedPlatform(), HeldAgent(), SettableClock()
    async with crashing_at_the_end(tmp_path, platform, agent=agent, clock=clock):
        platform.write("/background research")
        platform.write("hello")
        await agent.wait_until_started("research", "hello")
        await sees(platform, BEGUN[1])
    agent.release("research", "hello")
    async with serving(tmp_path, platform, agent=agent, clock=clock) as gateway:
        await eventually("both are answered", lambda: len(platform.replies()) == 3)
        assert set(platform.replies()[1:]) == {"hello: done", "[background 1] research: done"}
        assert await states(gateway, work_key(platform)) == [TurnState.DONE]


async def test_b86_work_that_does_not_go_on_by_itself_is_reached_by_its_number(tmp_path: Path) -> None:
    platform, agent, clock = SimulatedPlatform("web"), HeldAgent(), SettableClock()
    async with crashing_at_the_end(tmp_path, platform, agent=agent, clock=clock):
        platform.write("/background research")
        await agent.wait_until_started("research")
        await sees(platform, BEGUN[1])
    held = texts.chat_commands.background_notice(
        1, texts.recovery.not_resumed("automatic resume is switched off here")
    )
    assert "Say /background resume 1 to continue, or /background drop 1 to give it up." in held
    async with serving(tmp_path, platform, agent=agent, clock=clock, RECOVERY__POLICY="off"):
        await sees(platform, BEGUN[1], held)
        agent.release("research")
        platform.write("/resume")
        await sees(platform, BEGUN[1], held, texts.chat_commands.RESUME_ANSWERS["nothing"])
        platform.write("/background resume 1")
        told = [texts.chat_commands.RESUME_ANSWERS["nothing"], "Going on.", "[background 1] research: done"]
        await sees(platform, BEGUN[1], held, *told)


async def test_b86_chat_is_asked_about_a_work_with_buttons_that_reach_it(tmp_path: Path) -> None:
    platform, agent, clock = SimulatedPlatform("web"), HeldAgent(), SettableClock()
    async with crashing_at_the_end(tmp_path, platform, agent=agent, clock=clock):
        platform.write("/background research")
        await agent.wait_until_started("research")
        await sees(platform, BEGUN[1])
    async with serving(tmp_path, platform, agent=agent, clock=clock, RECOVERY__POLICY="ask") as gateway:
        await sees(
            platform,
            BEGUN[1],
            texts.chat_commands.background_notice(1, texts.recovery.ask_to_resume("restart_interrupted")),
        )
        platform.press(platform.posted[1].buttons[1].command)
        await eventually("it is given up", lambda: platform.replies()[-1:] == ["Given up."])
        assert await states(gateway, work_key(platform)) == [TurnState.CANCELLED]


async def test_b86_work_that_was_set_aside_is_brought_back_by_its_number(tmp_path: Path) -> None:
    platform, agent, clock = SimulatedPlatform("web"), HeldAgent(), SettableClock()
    platform.write("/background research")
    for attempts in (["research"], ["research"] * 2, ["research"] * 3):
        clock.move(600)
        async with crashing_at_the_end(tmp_path, platform, agent=agent, clock=clock):
            await eventually(f"{attempts} have begun", lambda wanted=attempts: agent.started_texts == wanted)  # type: ignore[misc]
            await sees(platform, BEGUN[1])
    clock.move(600)
    aside = texts.chat_commands.background_suspended(1, "it was interrupted 3 times in a row without progress")
    agent.release("research", "")
    async with serving(tmp_path, platform, agent=agent, clock=clock) as gateway:
        await sees(platform, BEGUN[1], aside)
        platform.write("/background resume 1")
        await eventually("it goes on", lambda: len(platform.replies()) == 4)
        assert platform.replies()[2] == texts.chat_commands.RESUME_ANSWERS["session"]
        assert platform.replies()[3].startswith("[background 1] ")
        assert await states(gateway, work_key(platform)) == [TurnState.CANCELLED, TurnState.DONE]


async def test_b86_work_is_neither_lost_nor_doubled_when_killed_at_any_store_call(tmp_path: Path) -> None:
    seen = {BEGUN[1], BEGUN[2], "[background 1] one", "[background 2] two", "three"}

    async def check(gateway: Gateway, platform: SimulatedPlatform) -> None:
        for key in (work_key(platform, 1), work_key(platform, 2), key_of(platform)):
            assert await states(gateway, key) == [TurnState.DONE]
        assert len(platform.replies()) == len(seen)

    killing = StoreCallSweep(
        "/background once a 0s\nsay: one",
        "/background once b 0s\nsay: two",
        "once c 0s\nsay: three",
        settled=lambda platform: set(platform.replies()) == seen,
        check=check,
    )
    points = await killing.run(tmp_path)
    assert points > 50, "the sweep no longer reaches what it did"


async def test_b86_work_is_exported_and_imported_with_its_chat(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    platform = SimulatedPlatform("web")
    async with serving(home, platform):
        platform.write("say: hello")
        platform.write("/background say: one")
        await eventually("all is answered", lambda: len(platform.replies()) == 3)
    elsewhere.mkdir()
    (elsewhere / "sessions.json").write_text(await run_perdure(home, "export"))
    assert "2 sessions were" in await run_perdure(elsewhere, "import", str(elsewhere / "sessions.json"))
    async with serving(elsewhere, platform):
        platform.write("/background say: two")
        await eventually("it has the next number", lambda: platform.replies()[-1:] == ["[background 2] two"])


async def test_b82_b86_notice_of_a_work_names_it(tmp_path: Path) -> None:
    platform, agent, clock = SimulatedPlatform(), HeldAgent(), SettableClock()
    async with serving(tmp_path, platform, agent=agent, clock=clock, steady=clock):
        platform.write("/background research")
        await agent.wait_until_started("research")
        await sees(platform, BEGUN[1])
        clock.move(180)
        await sees(
            platform, BEGUN[1], "[background 1] I am still working on it: the model is thinking, for 3 min."
        )
        agent.release("research")
        await eventually("it is done", lambda: platform.replies()[-1:] == ["[background 1] research: done"])


def test_key_of_a_work_is_at_the_address_of_its_chat() -> None:
    home = session_key("main", Address("web", "dm", "a~1", "t"))
    assert background_session_key(home, 12) == "agent:main~12:web:dm:a~1:t"


# ── how many, and with what ─────────────────────────────────────────────────────────────────────────────────


async def test_b86_work_beyond_the_most_is_refused_with_words_until_one_has_ended(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), HeldAgent()
    async with serving(tmp_path, platform, agent=agent, BACKGROUND__AT_ONCE="1"):
        platform.write("/background one")
        await agent.wait_until_started("one")
        platform.write("/background two")
        await sees(platform, BEGUN[1], texts.chat_commands.background_too_many(1))
        agent.release("one", "three")
        await sees(platform, BEGUN[1], texts.chat_commands.background_too_many(1), "[background 1] one: done")
        platform.write("/background three")
        said = [BEGUN[1], texts.chat_commands.background_too_many(1), "[background 1] one: done", BEGUN[2]]
        await sees(platform, *said, "[background 2] three: done")


async def test_b70_files_that_came_with_the_command_go_to_the_work(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), HeldAgent()
    async with serving(tmp_path, platform, agent=agent) as gateway:
        agent.release("look")
        platform.write("/background look", files=["a.png", "b.pdf"])
        await sees(platform, BEGUN[1], "[background 1] look: done")
        [turn] = await turn_views(gateway.store, work_key(platform))
        assert [file.name for file in turn.causes[0].attachments] == ["a.png", "b.pdf"]
        sql = (
            "SELECT a.name FROM attachments a JOIN inbox i ON i.id = a.inbox WHERE i.key = :key ORDER BY a.ordinal"
        )
        found = await gateway.store.database.read(lambda tx: tx.all(sql, key=work_key(platform)))
        assert found == [("a.png",), ("b.pdf",)]

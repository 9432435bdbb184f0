"""The built-in agent: what its journal calls for next, and in which order things reach the disk and the world.

Drives `agents/builtin_agent` and `agents/tool_calls`.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import NoReturn

import msgspec
import pytest

from perdure.agents.api import Model, ModelRequest, PreviewCallback, Reply, TurnContext
from perdure.agents.builtin_agent import AgentAction, AskModel, Bounds, BuiltinAgent, Finish, RunCalls, next_action
from perdure.agents.offline_model import OfflineModel
from perdure.core import texts
from perdure.core.conversation import AssistantMessage, NoteMessage, ToolMessage, UserMessage, build_conversation
from perdure.core.effects import Effect
from perdure.core.journal import (
    Entry,
    JournalRecord,
    ModelAnswered,
    ModelAsked,
    QuestionAnswered,
    QuestionAsked,
    RecoveryNoted,
    ToolEnded,
    ToolStarted,
    TurnFinished,
    TurnView,
)
from perdure.core.messages import Attachment
from perdure.core.roles import ToolRights
from perdure.core.tools import Tool, Use
from perdure.errors import ModelError, StoreBroken, TurnMoved, TurnWaits
from support.journals import (
    ADA,
    TICK_MS,
    answer_with_calls,
    answer_with_text,
    began,
    claimed,
    ended,
    interruption,
    joined,
    requeue_and_claim,
    started,
    turn_view_of,
)

pytestmark = pytest.mark.anyio
GO = (began("go"), claimed())


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


# ── a turn in memory, and a world to watch ──────────────────────────────────────────────────────────────────


class Crash(Exception):
    """The turn is not ours any more: nothing can be saved from here on."""


class Notebook:
    """A turn kept in memory. What happens to it is in the diary, in order, with what tools and models do."""

    def __init__(
        self,
        *entries: Entry,
        history: Sequence[TurnView] = (),
        diary: list[str] | None = None,
        dies: Callable[[Entry], bool] = lambda _: False,
        dies_after: bool = False,
    ) -> None:
        self.turn, self.key = "t1", "agent:main:test:dm:ann"
        self.shows = False
        self.rights = ToolRights("owner", ("*",), "ann")
        self.view = turn_view_of(*entries)
        self.history = history
        self.diary = [] if diary is None else diary
        self._dies = dies
        self._dies_after = dies_after

    @property
    def entries(self) -> list[Entry]:
        return [record.entry for record in self.view.records]

    async def tool_rights(self) -> ToolRights:
        return self.rights

    async def append(self, *entries: Entry) -> None:
        dies = any(map(self._dies, entries))
        if dies and not self._dies_after:
            raise Crash
        for entry in entries:
            seq = len(self.view.records) + 1
            self.view.apply(JournalRecord(seq, seq * TICK_MS, entry))
            self.diary.append(f"saved {entry.kind}{_of(entry)}")
        if dies:
            raise Crash

    async def listen(self) -> None:
        """Nobody writes."""

    def show(self, text: str) -> None:
        self.diary.append(f"shown {text}")

    def alive(self) -> None: ...

    def find(self, file: Attachment) -> str | None:
        return file.path

    async def ask(
        self, question: str, text: str, options: Sequence[str] = (), *also: Entry, approves: str = ""
    ) -> NoReturn:
        await self.append(*also, QuestionAsked(question, text, tuple(options), approves=approves))
        raise TurnWaits("asked")


def _of(entry: Entry) -> str:
    return f" {entry.call}" if isinstance(entry, ToolStarted | ToolEnded) else ""


class Scripted:
    """A model that gives these answers, one per step."""

    name = "scripted"
    window = 1_000_000

    def __init__(self, diary: list[str], *answers: ModelAnswered) -> None:
        self._diary = diary
        self._answers = answers
        self.requests: list[ModelRequest] = []

    async def close(self) -> None: ...

    async def respond(self, request: ModelRequest, show_preview: PreviewCallback | None = None) -> ModelAnswered:
        self._diary.append(f"model asked {request.step}")
        self.requests.append(request)
        return self._answers[request.step - 1]


def tool(diary: list[str], name: str = "look", effect: Effect = Effect.PURE) -> Tool:
    """A tool that writes every run into the diary, with the call and the key."""

    async def run(use: Use) -> str:
        diary.append(f"ran {use.arguments['at']} {use.key}")
        return f"{use.arguments['at']}: seen"

    return Tool(name, "Looks.", run, effect)


def acting(run: Callable[[Use], Awaitable[str]], effect: Effect = Effect.PURE) -> Tool:
    return Tool("look", "Looks.", run, effect)


async def run(context: TurnContext, model: Model, *tools: Tool, max_steps: int = 90) -> Reply:
    return await BuiltinAgent(model, tools, system_prompt="Be kind.", bounds=Bounds(max_steps=max_steps)).run(
        context
    )


def ran(diary: list[str]) -> list[str]:
    """The calls that ran, in order."""
    return [line.split()[1] for line in diary if line.startswith("ran ")]


# ── what comes next ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("facts", "action"),
    [
        pytest.param([*GO], AskModel(1), id="a message"),
        pytest.param([*GO, ModelAsked(1, "m")], AskModel(1), id="a model call that was cut off"),
        pytest.param([*GO, answer_with_calls("a"), started("a"), ended("a")], AskModel(2), id="a result"),
        pytest.param(
            [*GO, answer_with_calls("a"), ended("a", "unknown")], AskModel(2), id="a result that nobody knows"
        ),
        pytest.param([*GO, answer_with_text(finish="length")], AskModel(2), id="a response cut off"),
        pytest.param([*GO, answer_with_text(finish=None)], AskModel(2), id="a response without finish"),
        pytest.param([*GO, answer_with_text("Bye.")], Finish("Bye."), id="the final answer"),
        pytest.param([*GO, answer_with_text(""), ModelAsked(2, "m")], Finish(""), id="a final answer of no words"),
        pytest.param(
            [*GO, answer_with_text("Bye."), interruption(), *requeue_and_claim()],
            Finish("Bye."),
            id="a final answer, then a crash",
        ),
        pytest.param(
            [*GO, answer_with_text("Bye."), joined("wait")], AskModel(2), id="a message that joined after it"
        ),
        pytest.param(
            [*GO, QuestionAsked("q", "Which?"), QuestionAnswered("q", "this", ADA), claimed(2)],
            AskModel(1),
            id="an answered question",
        ),
        pytest.param(
            [
                *GO,
                answer_with_calls("a"),
                ended("a"),
                interruption(),
                *requeue_and_claim(),
                RecoveryNoted("[note]"),
            ],
            AskModel(2),
            id="only our notes",
        ),
    ],
)
async def test_next_action_is_read_from_the_journal(facts: list[Entry], action: AgentAction) -> None:
    assert next_action(turn_view_of(*facts)) == action


@pytest.mark.parametrize(
    ("facts", "missing"),
    [
        pytest.param([*GO, answer_with_calls("a")], ["a"], id="not begun"),
        pytest.param([*GO, answer_with_calls("a"), started("a")], ["a"], id="begun"),
        pytest.param(
            [*GO, answer_with_calls("a", "b", "c"), started("b"), ended("b")], ["a", "c"], id="a set, partly done"
        ),
        pytest.param(
            [*GO, answer_with_calls("a"), ended("a"), answer_with_calls("b", step=2)], ["b"], id="a second set"
        ),
        pytest.param(
            [*GO, answer_with_calls("a", finish="stop")], ["a"], id="calls of a response that calls itself final"
        ),
        pytest.param([*GO, answer_with_calls("a"), joined("hurry")], ["a"], id="a message that joined"),
    ],
)
async def test_next_action_runs_only_the_calls_that_have_no_result(facts: list[Entry], missing: list[str]) -> None:
    """B60: of a partly finished set only the missing ones."""
    action = next_action(turn_view_of(*facts))
    assert isinstance(action, RunCalls)
    assert [call.request.id for call in action.calls] == missing


# ── the order of things ─────────────────────────────────────────────────────────────────────────────────────


async def test_intent_is_saved_before_the_tool_runs_and_its_result_before_the_model_sees_it() -> None:
    """B60: append before you act."""
    notebook = Notebook(*GO)
    model = Scripted(notebook.diary, answer_with_calls("a"), answer_with_text(step=2))
    await run(notebook, model, tool(notebook.diary))
    assert notebook.diary == [
        "saved model_asked",
        "model asked 1",
        "saved model_answered",
        "saved tool_started a",
        "ran a t1:a",
        "saved tool_ended a",
        "saved model_asked",
        "model asked 2",
    ]


async def test_final_answer_is_left_to_be_saved_with_the_end_of_the_turn() -> None:
    """B73: the answer and the end of the turn are one transaction, which is the gateway's."""
    notebook = Notebook(*GO)
    answer = answer_with_text("Bye.")
    assert await run(notebook, Scripted(notebook.diary, answer)) == Reply("Bye.", (answer,))
    assert notebook.diary == ["saved model_asked", "model asked 1"]


async def test_final_answer_in_the_journal_is_given_again_when_it_was_not_delivered() -> None:
    """B44: nothing is run again."""
    notebook = Notebook(*GO, answer_with_text("Bye."), interruption(), *requeue_and_claim())
    assert await run(notebook, Scripted(notebook.diary)) == Reply("Bye.")
    assert notebook.diary == []


async def test_model_is_given_the_conversation_the_prompt_and_the_tools() -> None:
    earlier = turn_view_of(began("hi"), claimed(), answer_with_text("Hello."), TurnFinished("Hello."))
    notebook = Notebook(*GO, history=[earlier])
    model = Scripted(notebook.diary, answer_with_calls("a"), answer_with_text(step=2))
    await run(notebook, model, tool(notebook.diary), tool(notebook.diary, "send"))
    first, second = model.requests
    assert (first.step, first.system_prompt) == (1, "Be kind.")
    assert [offered.name for offered in first.tools] == ["look", "send"]
    assert first.messages == [UserMessage("hi"), AssistantMessage("Hello."), UserMessage("go")]
    assert second.messages[-1] == ToolMessage("a", "look", "a: seen", "ok")


async def test_b69_text_that_ends_at_the_length_limit_is_the_answer_and_told_as_cut() -> None:
    notebook = Notebook(*GO)
    cut = answer_with_text("Once upon a", finish="length")
    reply = await run(notebook, Scripted(notebook.diary, cut))
    assert reply.text == f"Once upon a\n\n{texts.turns.ANSWER_TRUNCATED}"
    await notebook.append(*reply.closing, TurnFinished(reply.text))
    read = build_conversation([notebook.view], turn_view_of(*GO)).messages
    assert AssistantMessage("Once upon a") in read, "the model can go on where it was cut"


@pytest.mark.parametrize("finish", ["stop", "length"])
async def test_b69_empty_answer_is_told_in_words(finish: str) -> None:
    notebook = Notebook(*GO)
    reply = await run(notebook, Scripted(notebook.diary, answer_with_text(" \n", finish=finish)))
    assert reply.text == texts.turns.EMPTY_ANSWER


async def test_b69_summary_that_broke_off_is_none() -> None:
    notebook = Notebook(
        *GO, history=[turn_view_of(began("x" * 4000), claimed(), answer_with_text("y" * 4000), TurnFinished("y"))]
    )
    model = Scripted(notebook.diary, answer_with_text("In short", finish="error"))
    model.window = 1000
    with pytest.raises(ModelError, match="could not be summed up"):
        await run(notebook, model)


async def test_model_is_asked_again_when_its_response_was_cut_off() -> None:
    """B45: a cut-off response is journalled with its cost, and is no answer."""
    notebook = Notebook(*GO)
    model = Scripted(
        notebook.diary, answer_with_text("Once upon", finish="error"), answer_with_text("Once.", step=2)
    )
    assert (await run(notebook, model)).text == "Once."
    assert notebook.view.tokens == 15
    assert model.requests[1].messages == [UserMessage("go")]


async def test_turn_fails_when_it_takes_too_many_steps() -> None:
    notebook = Notebook(*GO)
    model = Scripted(
        notebook.diary, answer_with_calls("a"), answer_with_calls("b", step=2), answer_with_text(step=3)
    )
    with pytest.raises(ModelError) as caught:
        await run(notebook, model, tool(notebook.diary), max_steps=2)
    assert caught.value.message == texts.turns.too_many_steps(2)
    assert ran(notebook.diary) == ["a", "b"]
    assert len(model.requests) == 2


async def test_error_of_the_provider_ends_the_attempt() -> None:
    notebook = Notebook(began("fail: no credit"), claimed())
    with pytest.raises(ModelError, match="no credit"):
        await run(notebook, OfflineModel())
    assert notebook.diary == ["saved model_asked"]


# ── tools ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_calls_of_one_response_run_side_by_side() -> None:
    notebook = Notebook(*GO)
    together = asyncio.Barrier(3)

    async def meet(use: Use) -> str:
        await together.wait()  # nobody gets past before all three are here
        return str(use.arguments["at"])

    async with asyncio.timeout(30):
        await run(
            notebook,
            Scripted(notebook.diary, answer_with_calls("a", "b", "c"), answer_with_text(step=2)),
            acting(meet),
        )
    assert notebook.view.open_calls == []


async def test_model_is_told_when_a_tool_fails_and_may_correct_it() -> None:
    async def fail(_: Use) -> str:
        raise FileNotFoundError("no such file")

    notebook = Notebook(*GO)
    model = Scripted(notebook.diary, answer_with_calls("a"), answer_with_text("Sorry.", step=2))
    assert (await run(notebook, model, acting(fail))).text == "Sorry."
    error = "the tool failed: FileNotFoundError: no such file"
    assert model.requests[1].messages[-1] == ToolMessage("a", "look", error, "error")


async def test_model_is_told_when_a_tool_cancels_itself() -> None:
    notebook = Notebook(*GO)

    async def give_up(_: Use) -> str:
        notebook.diary.append("ran a")
        if len(ran(notebook.diary)) > 1:
            raise RuntimeError("a call that had ended was run again")
        raise asyncio.CancelledError

    model = Scripted(notebook.diary, answer_with_calls("a"), answer_with_text("Sorry.", step=2))
    assert (await run(notebook, model, acting(give_up))).text == "Sorry."
    error = "the tool failed: CancelledError: "
    assert model.requests[1].messages[-1] == ToolMessage("a", "look", error, "error")


async def test_model_is_told_which_tools_there_are_when_it_wishes_another() -> None:
    """B64: also a call of no tool has an intent and a result."""
    notebook = Notebook(*GO)
    model = Scripted(notebook.diary, answer_with_calls("a", tool="lok"), answer_with_text(step=2))
    await run(notebook, model, tool(notebook.diary), tool(notebook.diary, "about"))
    said = texts.tool_calls.unknown_tool("lok", ["about", "look"])
    assert model.requests[1].messages[-1] == ToolMessage("a", "lok", said, "error")
    assert ran(notebook.diary) == []
    assert notebook.diary[3:5] == ["saved tool_started a", "saved tool_ended a"]


@pytest.mark.parametrize("error", [TurnMoved("not ours"), StoreBroken("the disk failed")], ids=["moved", "broken"])
async def test_error_of_ours_inside_a_tool_ends_the_attempt(error: Exception) -> None:
    async def fail(_: Use) -> str:
        raise error

    notebook = Notebook(*GO)
    with pytest.raises(type(error)):
        await run(notebook, Scripted(notebook.diary, answer_with_calls("a")), acting(fail))
    assert notebook.diary[-1] == "saved tool_started a"


async def test_nothing_more_is_saved_when_the_attempt_is_cancelled() -> None:
    """B22: a turn that was marked and cancelled leaves its open intent as it is."""
    under_way = asyncio.Event()

    async def wait(_: Use) -> str:
        under_way.set()
        await asyncio.Event().wait()
        return "never"

    notebook = Notebook(*GO)
    attempt = asyncio.create_task(run(notebook, Scripted(notebook.diary, answer_with_calls("a")), acting(wait)))
    await under_way.wait()
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    assert notebook.diary[-1] == "saved tool_started a"
    assert [call.request.id for call in notebook.view.open_calls] == ["a"]


# ── a call that was cut off ─────────────────────────────────────────────────────────────────────────────────


def cut_off_call(effect: Effect, *, tool_name: str = "look") -> Notebook:
    """A turn whose call was begun and then cut off; its key is one that only the journal knows."""
    begun = started("a", effect, tool=tool_name, key="t1:a:of-old")
    return Notebook(*GO, answer_with_calls("a", tool=tool_name), begun, interruption(), *requeue_and_claim())


@pytest.mark.parametrize("effect", [Effect.PURE, Effect.KEYED, Effect.ATTACHED])
async def test_call_is_repeated_with_the_same_key_when_it_may_be(effect: Effect) -> None:
    """B61: `pure` and `keyed` are run again; an `attached` one finds by its key what runs already."""
    notebook = cut_off_call(effect)
    await run(
        notebook,
        Scripted(notebook.diary, answer_with_calls("a"), answer_with_text(step=2)),
        tool(notebook.diary, effect=effect),
    )
    assert notebook.diary[:2] == ["ran a t1:a:of-old", "saved tool_ended a"]


async def test_call_is_told_as_unknown_and_not_run_when_it_may_not_be_repeated() -> None:
    """B62: never run again by us."""
    notebook = cut_off_call(Effect.ONCE)
    model = Scripted(notebook.diary, answer_with_calls("a"), answer_with_text(step=2))
    await run(notebook, model, tool(notebook.diary, effect=Effect.ONCE))
    assert ran(notebook.diary) == []
    assert model.requests[0].messages[-1] == ToolMessage("a", "look", texts.tool_calls.OUTCOME_UNKNOWN, "unknown")


async def test_b63_call_that_was_begun_on_another_machine_is_told_as_unknown_and_not_run() -> None:
    begun = ToolStarted("a", "look", Effect.ATTACHED, "t1:a", where="there:/home")
    notebook = Notebook(*GO, answer_with_calls("a"), begun, interruption(), *requeue_and_claim())
    model = Scripted(notebook.diary, answer_with_calls("a"), answer_with_text(step=2))
    here = msgspec.structs.replace(tool(notebook.diary, effect=Effect.ATTACHED), where="here:/home")
    await run(notebook, model, here)
    assert ran(notebook.diary) == []
    assert model.requests[0].messages[-1] == ToolMessage(
        "a", "look", texts.tool_calls.STARTED_ELSEWHERE, "unknown"
    )


async def test_call_is_told_as_unknown_when_its_tool_declares_nothing() -> None:
    """B61: undeclared means `once`."""
    notebook = Notebook(*GO, dies=lambda entry: isinstance(entry, ToolEnded))
    undeclared = Tool("look", "Looks.", tool(notebook.diary).run)
    with pytest.raises(Crash):
        await run(notebook, Scripted(notebook.diary, answer_with_calls("a")), undeclared)
    after = Notebook(*notebook.entries, interruption(), *requeue_and_claim(), diary=notebook.diary)
    await run(after, Scripted(after.diary, answer_with_calls("a"), answer_with_text(step=2)), undeclared)
    assert ran(after.diary) == ["a"]
    assert after.view.calls["a"].ended == ToolEnded("a", "unknown", texts.tool_calls.OUTCOME_UNKNOWN)


async def test_journal_and_not_the_tool_says_what_repeating_means() -> None:
    """B65: the next version of a tool may declare another effect; the call was begun under the old one."""
    notebook = cut_off_call(Effect.ONCE)
    await run(
        notebook,
        Scripted(notebook.diary, answer_with_calls("a"), answer_with_text(step=2)),
        tool(notebook.diary, effect=Effect.PURE),
    )
    assert ran(notebook.diary) == []


@pytest.mark.parametrize("effect", Effect)
async def test_call_is_told_as_unknown_when_its_tool_is_gone(effect: Effect) -> None:
    """B65: it may have run, so it would be wrong to say that there is no such tool."""
    notebook = cut_off_call(effect, tool_name="removed")
    model = Scripted(notebook.diary, answer_with_calls("a"), answer_with_text(step=2))
    await run(notebook, model, tool(notebook.diary))
    assert model.requests[0].messages[-1] == ToolMessage(
        "a", "removed", texts.tool_calls.OUTCOME_UNKNOWN, "unknown"
    )


@pytest.mark.parametrize("effect", Effect)
async def test_call_runs_when_it_was_wished_but_never_begun(effect: Effect) -> None:
    """B60: no intent, so it cannot have run."""
    notebook = Notebook(*GO, answer_with_calls("a"), interruption(), *requeue_and_claim())
    await run(
        notebook,
        Scripted(notebook.diary, answer_with_calls("a"), answer_with_text(step=2)),
        tool(notebook.diary, effect=effect),
    )
    assert notebook.diary[:3] == ["saved tool_started a", "ran a t1:a", "saved tool_ended a"]


async def test_only_the_missing_calls_run_when_a_set_was_partly_finished() -> None:
    """B60 and B46: finished steps are not run again, their results are used as recorded."""
    facts = (
        *GO,
        answer_with_calls("a", "b", "c"),
        started("a"),
        started("b"),
        ended("a", text="of old"),
        interruption(),
        *requeue_and_claim(),
    )
    notebook = Notebook(*facts)
    model = Scripted(notebook.diary, answer_with_calls("a", "b", "c"), answer_with_text(step=2))
    await run(notebook, model, tool(notebook.diary))
    assert sorted(ran(notebook.diary)) == ["b", "c"]
    results = [message.text for message in model.requests[0].messages if isinstance(message, ToolMessage)]
    assert results == ["of old", "b: seen", "c: seen"]


# ── saving fails ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("kind", "last"),
    [
        pytest.param("model_asked", [], id="the intent of a model call"),
        pytest.param("model_answered", ["saved model_asked", "model asked 1"], id="the model's answer"),
        pytest.param("tool_started", ["saved model_answered"], id="the intent of a tool call"),
        pytest.param("tool_ended", ["saved tool_started a", "ran a t1:a"], id="the result of a tool call"),
    ],
)
async def test_nothing_further_runs_when_something_cannot_be_saved(kind: str, last: list[str]) -> None:
    """B60: if saving fails, nothing further runs."""
    notebook = Notebook(*GO, dies=lambda entry: entry.kind == kind)
    with pytest.raises(Crash):
        await run(
            notebook,
            Scripted(notebook.diary, answer_with_calls("a"), answer_with_text(step=2)),
            tool(notebook.diary),
        )
    assert notebook.diary[len(notebook.diary) - len(last) :] == last
    assert f"saved {kind}" not in " ".join(notebook.diary)


async def test_calls_beside_it_are_cut_short_when_one_result_cannot_be_saved() -> None:
    """B60: also what runs at the same time stops."""
    notebook = Notebook(*GO, dies=lambda entry: isinstance(entry, ToolEnded))
    slow_is_under_way = asyncio.Event()

    async def look(use: Use) -> str:
        if use.arguments["at"] == "quick":
            await slow_is_under_way.wait()
            return "seen"
        slow_is_under_way.set()
        try:
            await asyncio.Event().wait()
        finally:
            notebook.diary.append("cut short slow")
        return "never"

    async with asyncio.timeout(30):
        with pytest.raises(Crash):
            await run(notebook, Scripted(notebook.diary, answer_with_calls("quick", "slow")), acting(look))
    assert notebook.diary[-1] == "cut short slow"
    assert [call.request.id for call in notebook.view.open_calls] == ["quick", "slow"]


async def test_calls_beside_it_do_not_begin_when_one_intent_cannot_be_saved() -> None:
    notebook = Notebook(*GO, dies=lambda entry: isinstance(entry, ToolStarted))
    with pytest.raises(Crash):
        await run(notebook, Scripted(notebook.diary, answer_with_calls("a", "b", "c")), tool(notebook.diary))
    assert ran(notebook.diary) == []


# ── a crash at every point ──────────────────────────────────────────────────────────────────────────────────

ANSWERS = (
    ModelAnswered(
        1, "", (*answer_with_calls("a").calls, *answer_with_calls("b", tool="send").calls), "tool_calls"
    ),
    answer_with_calls("c", step=2, tool="send"),
    answer_with_calls("d", step=3),
    answer_with_text("All done.", step=4),
)


async def attempt(notebook: Notebook) -> tuple[Reply, Scripted]:
    model = Scripted(notebook.diary, *ANSWERS)
    looks, sends = tool(notebook.diary), tool(notebook.diary, "send", Effect.ONCE)
    return await run(notebook, model, looks, sends), model


def assert_transcript_is_whole(view: TurnView) -> None:
    """B64: every call has exactly one result."""
    messages = build_conversation([], view).messages
    wished = [call.id for message in messages if isinstance(message, AssistantMessage) for call in message.calls]
    results = [message.call for message in messages if isinstance(message, ToolMessage)]
    assert wished == results == ["a", "b", "c", "d"]


async def crash_at(point: int, *, dies_after: bool) -> bool:
    """Crash at one append and go on with another attempt; False if there is no such append."""
    appends = itertools.count(1)
    first = Notebook(*GO, dies=lambda _: next(appends) == point, dies_after=dies_after)
    try:
        await attempt(first)
    except Crash:
        done = {call.request.id for call in first.view.calls.values() if call.ended is not None}
        already = Counter(ran(first.diary))
        marks = (
            interruption(),
            *requeue_and_claim(),
            RecoveryNoted(texts.recovery.note_resumed("restart_interrupted")),
        )
        second = Notebook(*first.entries, *marks, diary=first.diary)
        reply, model = await attempt(second)
        total = Counter(ran(second.diary))
        assert reply.text == "All done."
        assert_transcript_is_whole(second.view)
        assert all(total[call] == already[call] for call in done), "a finished step was run again"
        assert total["b"] <= 1, "a step that must not be repeated was"
        assert total["c"] <= 1, "a step that must not be repeated was"
        assert all(sum(isinstance(m, NoteMessage) for m in request.messages) == 1 for request in model.requests)
        return True
    return False


@pytest.mark.parametrize("dies_after", [False, True], ids=["before it is saved", "after it is saved"])
async def test_turn_ends_well_when_it_crashes_at_any_append(dies_after: bool) -> None:
    """B46, B60, B62 and B64, at every point where the loop saves something."""
    survived_at = 1
    while await crash_at(survived_at, dies_after=dies_after):
        survived_at += 1
    assert survived_at == 16  # four model calls, three answers and four tool calls of two appends: fifteen points

"""An async function as an agent: what its steps give, what a crash makes of them, and what it may not do.

Drives `agents/custom/function` and `agents/custom/steps`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import date
from typing import Any

import pytest

from perdure.agents import FunctionAgent, Reply, StepContext
from perdure.agents.custom.steps import MAX_STEP_BYTES
from perdure.core.conversation import AssistantMessage, UserMessage, build_conversation
from perdure.core.effects import Effect
from perdure.core.journal import (
    Cause,
    Entry,
    ModelAnswered,
    ToolEnded,
    ToolStarted,
    TurnBegan,
    TurnCancelled,
    TurnView,
)
from perdure.core.messages import Sender
from perdure.core.recovery.decision import Tail, tail_of
from perdure.core.roles import ToolRights
from perdure.core.states import CancelReason
from perdure.errors import ConfigurationError, ModelError, OutcomeUnknown, StepFailed, StoreBroken, TurnWaits
from perdure.testing import Crash, RecordingTurn

pytestmark = pytest.mark.anyio

AgentFunction = Callable[[StepContext], Awaitable[str]]


class World:
    """Effects, each of which is remembered."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    async def note(self, what: Any) -> Any:
        self.seen.append(what)
        return what

    async def pay(self, amount: int, *, key: str) -> str:
        self.seen.append((amount, key))
        return key

    async def explode(self, why: str) -> None:
        self.seen.append(why)
        raise ValueError(why)


@pytest.fixture
def world() -> World:
    return World()


async def run(function: AgentFunction, turn: RecordingTurn) -> Reply:
    return await FunctionAgent(function).run(turn)


async def die(function: AgentFunction, turn: RecordingTurn) -> RecordingTurn:
    """Run until the crash; the turn as it goes on after the next start."""
    with pytest.raises(BaseException) as caught:
        await run(function, turn)
    assert isinstance(caught.value, Crash | BaseExceptionGroup)
    return turn.resumed()


def begins(entry: Entry) -> bool:
    return isinstance(entry, ToolStarted)


def ends(entry: Entry) -> bool:
    return isinstance(entry, ToolEnded)


# ── what a step gives ───────────────────────────────────────────────────────────────────────────────────────


async def test_step_is_on_record_with_its_arguments_effect_and_key(world: World) -> None:
    async def answer(context: StepContext) -> str:
        return str(await context.step("pay", world.pay, 5, effect="keyed", key_argument="key"))

    turn = RecordingTurn()
    reply = await run(answer, turn)
    started, ended = turn.entries[2:]
    assert started == ToolStarted("s1.pay", "pay", Effect.KEYED, "t1:s1.pay", {"amount": 5})
    assert ended == ToolEnded("s1.pay", "ok", '"t1:s1.pay"')
    assert world.seen == [(5, "t1:s1.pay")]
    assert reply == Reply("t1:s1.pay", (ModelAnswered(1, "t1:s1.pay", (), "stop"),))


@pytest.mark.parametrize(
    ("value", "given"),
    [
        pytest.param({"a": (1, 2.5, None)}, {"a": [1, 2.5, None]}, id="a tuple"),
        pytest.param(date(2026, 1, 2), "2026-01-02", id="a date"),
        pytest.param({"b", "a"}, ["a", "b"], id="a set"),
        pytest.param("é 🙂", "é 🙂", id="odd letters"),
        pytest.param("\x00 \ud800", "\N{REPLACEMENT CHARACTER} \N{REPLACEMENT CHARACTER}", id="half a letter"),
        pytest.param(None, None, id="nothing"),
        pytest.param(float("nan"), None, id="not a number"),
    ],
)
async def test_first_run_gives_the_same_value_as_the_record(world: World, value: Any, given: Any) -> None:
    """B46: the result is used as recorded. B14: text that no database takes is cleaned."""
    got: list[Any] = []

    async def make() -> Any:
        world.seen.append("made")
        return value

    async def answer(context: StepContext) -> str:
        got.append(await context.step("make", make))
        await context.step("then", world.note, "then")
        return "done"

    turn = await die(answer, RecordingTurn().crash(3))
    await run(answer, turn)
    assert got == [given, given]
    assert world.seen == ["made", "then"]


async def test_name_used_again_is_the_next_step_of_that_name(world: World) -> None:
    async def answer(context: StepContext) -> str:
        return ",".join([str(await context.step("note", world.note, n)) for n in range(3)])

    turn = await die(answer, RecordingTurn().crash(5))
    assert (await run(answer, turn)).text == "0,1,2"
    assert world.seen == [0, 1, 2]


async def test_plain_function_can_be_a_step() -> None:
    async def answer(context: StepContext) -> str:
        return str(await context.step("add", max, 1, 2))

    assert (await run(answer, RecordingTurn())).text == "2"


async def test_context_tells_the_message_what_was_said_before_and_the_note(world: World) -> None:
    """B47."""
    heard: list[Any] = []

    async def answer(context: StepContext) -> str:
        heard.append((context.message, context.history, context.note, context.attempt, context.turn))
        await context.step("note", world.note, 1)
        return f"re {context.message}"

    first = RecordingTurn("one")
    first.finish(await run(answer, first))
    second = await die(answer, first.followed_by("two").crash(1))
    await run(answer, second)
    before = [UserMessage("one"), AssistantMessage("re one")]
    assert heard[0] == ("one", [], None, 1, "t1")
    assert heard[1] == ("two", before, None, 1, "t1n")
    assert heard[2][:2] + heard[2][3:] == ("two", before, 2, "t1n")
    assert heard[2][2].startswith("[Gateway note: This turn was cut off by a gateway interruption")


async def test_people_see_what_the_function_says_meanwhile() -> None:
    async def answer(context: StepContext) -> str:
        context.say("Looking …")
        return "Found."

    turn = RecordingTurn(shows=True)
    await run(answer, turn)
    assert turn.shown == ["Looking …"]


async def test_answer_is_the_tail_of_a_turn_that_ended() -> None:
    """B44, B45."""

    async def answer(context: StepContext) -> str:
        return "Hello."

    turn = RecordingTurn()
    turn.finish(await run(answer, turn))
    assert tail_of(turn.view) is Tail.FINAL


# ── crashes ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_b62_function_may_catch_that_an_outcome_is_unknown(world: World) -> None:
    async def answer(context: StepContext) -> str:
        try:
            return str(await context.step("send", world.note, "mail"))
        except OutcomeUnknown as error:
            return error.message

    turn = await die(answer, RecordingTurn().crash(when=ends))
    reply = await run(answer, turn)
    assert reply.text.startswith("send(what='mail'): it was cut off, and nobody can tell whether it took effect.")
    assert world.seen == ["mail"]


async def test_b62_turn_fails_with_a_sentence_when_nobody_catches_it(world: World) -> None:
    async def answer(context: StepContext) -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(context.step("send", world.note, "mail"))
        return "sent"

    turn = await die(answer, RecordingTurn().crash(when=ends))
    with pytest.raises(ModelError, match=r"send.what='mail'.: it was cut off") as caught:
        await run(answer, turn)
    assert "Look whether it did, and then write again." in caught.value.message
    assert turn.view.calls["s1.send"].ended == ToolEnded("s1.send", "unknown", "it was cut off")


async def test_b61_step_is_repeated_only_if_the_code_of_then_and_of_now_say_so(world: World) -> None:
    """B65: a new version of the program may have changed its mind."""

    def answering(effect: str) -> AgentFunction:
        async def answer(context: StepContext) -> str:
            return str(await context.step("send", world.note, 1, effect=effect))

        return answer

    for then, now in (("pure", "once"), ("once", "pure")):
        turn = await die(answering(then), RecordingTurn().crash(when=ends))
        with pytest.raises(ModelError):
            await run(answering(now), turn)


async def test_function_itself_may_say_that_an_outcome_is_unknown(world: World) -> None:
    async def send() -> None:
        world.seen.append("sent")
        raise OutcomeUnknown("the bank gave no answer.")

    async def answer(context: StepContext) -> str:
        try:
            await context.step("send", send)
        except OutcomeUnknown as error:
            await context.step("then", world.note, "then")
            return error.message
        return "sent"

    turn = await die(answer, RecordingTurn().crash(3))
    assert (await run(answer, turn)).text.startswith("send(): the bank gave no answer, and nobody can tell")
    assert world.seen == ["sent", "then"]


async def test_failed_step_fails_alike_when_the_turn_is_gone_through_again(world: World) -> None:
    got: list[str] = []

    async def answer(context: StepContext) -> str:
        try:
            await context.step("explode", world.explode, "boom")
        except StepFailed as error:
            got.append(error.message)
            assert context.attempt > 1 or isinstance(error.__cause__, ValueError), (
                "the log shows where it came from"
            )
        await context.step("then", world.note, "then")
        return "done"

    turn = await die(answer, RecordingTurn().crash(3))
    await run(answer, turn)
    assert got == ["the step 'explode' failed: ValueError: boom"] * 2
    assert world.seen == ["boom", "then"]


@pytest.mark.parametrize("end", [SystemExit(3), asyncio.CancelledError()], ids=["exits", "cancels itself"])
async def test_step_fails_when_its_function(end: BaseException) -> None:
    async def give_up() -> None:
        raise end

    async def answer(context: StepContext) -> str:
        await context.step("give_up", give_up)
        return "never"

    with pytest.raises(StepFailed, match=type(end).__name__):
        await run(answer, RecordingTurn())


async def test_b65_turn_fails_with_a_sentence_when_the_code_asks_for_something_else(world: World) -> None:
    def answering(to: str) -> AgentFunction:
        async def answer(context: StepContext) -> str:
            await context.step("send", world.note, to)
            await context.step("then", world.note, "then")
            return "sent"

        return answer

    turn = await die(answering("ann"), RecordingTurn().crash(3))
    with pytest.raises(ModelError) as caught:
        await run(answering("bob"), turn)
    assert caught.value.message.startswith(
        "when this began it went by send(what='ann'), and now it would go by send(what='bob')."
    )
    assert world.seen == ["ann"]


async def test_b65_new_code_may_add_steps_behind_those_on_record(world: World) -> None:
    async def old(context: StepContext) -> str:
        await context.step("a", world.note, "a")
        await context.step("b", world.note, "b")
        return "old"

    async def new(context: StepContext) -> str:
        await context.step("a", world.note, "a")
        await context.step("c", world.note, "c")
        return "new"

    turn = await die(old, RecordingTurn().crash(3))
    assert (await run(new, turn)).text == "new"
    assert world.seen == ["a", "c"]


async def test_b49_message_that_joined_is_answered_after_what_was_begun(world: World) -> None:
    """And it does not change what the first steps are asked."""
    heard: list[list[Any]] = []

    async def answer(context: StepContext) -> str:
        heard.append(context.history)
        return f"re {await context.step('note', world.note, context.message)}"

    turn = RecordingTurn("one").crash(when=ends, after=True)
    with pytest.raises(Crash):
        await run(answer, turn)
    reply = await run(answer, turn.resumed("two", "three"))
    assert reply.text == "re one\n\nre two\n\nthree"
    assert world.seen == ["one", "two\n\nthree"]
    assert heard[-1] == [UserMessage("one"), AssistantMessage("re one")]


async def test_wish_to_go_on_with_what_was_set_aside_repeats_no_finished_step(world: World) -> None:
    """B9: `/resume` begins a turn without words behind one that was suspended."""

    async def answer(context: StepContext) -> str:
        await context.step("send", world.note, context.message)
        await context.step("look", world.note, "look", effect="pure")
        return "done"

    turn = RecordingTurn("mail").crash(4)
    with pytest.raises(Crash):
        await run(answer, turn)
    turn.write(ToolEnded("s1.look", "cancelled", "…"), TurnCancelled(CancelReason.SUSPENDED))
    wish = TurnBegan((Cause("in_9", "", Sender("ann"), "m9", wish=True),))
    again = RecordingTurn(records=[], history=[turn.view])
    again.view = TurnView()
    again.write(wish)
    reply = await run(answer, again)
    assert reply.text == "done"
    assert world.seen == ["mail", "look", "look"]
    assert [entry for entry in again.entries if ends(entry)] == [ToolEnded("s1.look", "ok", '"look"')]


# ── what cannot be saved ────────────────────────────────────────────────────────────────────────────────────


async def test_b60_function_that_catches_everything_does_nothing_more_when_saving_fails(world: World) -> None:
    async def answer(context: StepContext) -> str:
        for n in range(3):
            try:
                await context.step("note", world.note, n)
            except Exception:  # noqa: BLE001, S112 reason: what careless agents do
                continue
        return "done"

    with pytest.raises(StoreBroken):
        await run(answer, RecordingTurn().break_store(3))
    assert world.seen == [0]


@pytest.mark.parametrize(
    ("make", "why"),
    [
        pytest.param(lambda: object(), "it ran, but its result, of the type object, cannot be kept", id="no JSON"),
        pytest.param(lambda: "x" * MAX_STEP_BYTES, f"at most {MAX_STEP_BYTES} are kept", id="large"),
    ],
)
async def test_result_that_cannot_be_kept_fails_the_step_for_good(make: Callable[[], Any], why: str) -> None:
    runs: list[int] = []

    async def produce() -> Any:
        runs.append(1)
        return make()

    async def answer(context: StepContext) -> str:
        await context.step("produce", produce)
        return "never"

    turn = RecordingTurn()
    for attempt in (turn, turn):
        with pytest.raises(StepFailed, match=why):
            await run(answer, attempt)
    assert runs == [1]


# ── questions ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_b67_questions_get_their_answers_in_order(world: World) -> None:
    async def answer(context: StepContext) -> str:
        colour = await context.ask("Which colour?", ["red", "blue"])
        await context.step("note", world.note, colour)
        size = await context.ask("Which size?")
        return f"{colour}, {size}"

    turn = RecordingTurn()
    with pytest.raises(TurnWaits):
        await run(answer, turn)
    turn = turn.answered("blue")
    with pytest.raises(TurnWaits):
        await run(answer, turn)
    turn = turn.answered("large")
    reply = await run(answer, turn)
    turn.finish(reply)
    assert reply.text == "blue, large"
    assert world.seen == ["blue"]
    assert build_conversation([turn.view], TurnView()).previous_messages == [
        UserMessage("Go."),
        UserMessage("blue"),
        UserMessage("large"),
        AssistantMessage("blue, large"),
    ]


async def test_b65_other_question_than_the_one_on_record_fails_the_turn() -> None:
    def asking(question: str) -> AgentFunction:
        async def answer(context: StepContext) -> str:
            return await context.ask(question)

        return answer

    turn = RecordingTurn()
    with pytest.raises(TurnWaits):
        await run(asking("Which colour?"), turn)
    with pytest.raises(ModelError, match=r"asking 'Which colour\?', and now it would go by asking 'Which size\?'"):
        await run(asking("Which size?"), turn.answered("blue"))


# ── what a function may not do ──────────────────────────────────────────────────────────────────────────────


async def test_two_steps_of_one_name_side_by_side_are_refused(world: World) -> None:
    async def answer(context: StepContext) -> str:
        await asyncio.gather(context.step("note", world.note, 1), context.step("note", world.note, 2))
        return "never"

    with pytest.raises(RuntimeError, match="two steps named 'note' run side by side"):
        await run(answer, RecordingTurn())


async def test_step_inside_of_a_step_is_refused(world: World) -> None:
    async def answer(context: StepContext) -> str:
        async def outer() -> None:
            await context.step("inner", world.note, 1)

        await context.step("outer", outer)
        return "never"

    with pytest.raises(StepFailed, match="cannot run the step 'inner' inside of the step 'outer'"):
        await run(answer, RecordingTurn())
    assert world.seen == []


async def test_question_beside_a_step_is_refused(world: World) -> None:
    async def slow() -> None:
        await asyncio.Event().wait()

    async def answer(context: StepContext) -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(context.step("slow", slow))
            await asyncio.sleep(0)
            await context.ask("Now?")
        return "never"

    with pytest.raises(ExceptionGroup) as caught:
        await run(answer, RecordingTurn())
    assert caught.group_contains(RuntimeError, match="ask 'Now.' when the steps are done: slow would be cut off")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        pytest.param(
            {"effect": "attached"}, "has the effect 'attached'; expected one of keyed, once, pure", id="effect"
        ),
        pytest.param({"effect": "keyed"}, "names in key_argument=", id="keyed without key"),
        pytest.param({"key_argument": "what"}, "names in key_argument=", id="key without keyed"),
        pytest.param({"other": 1}, "unexpected keyword argument 'other'", id="arguments that do not fit"),
        pytest.param({"what": object()}, "cannot be kept as JSON", id="arguments that are no JSON"),
        pytest.param({"what": "x" * MAX_STEP_BYTES}, "at most", id="large arguments"),
    ],
)
async def test_step_that_is_wrongly_asked_for_is_not_begun(world: World, options: Any, error: str) -> None:
    async def answer(context: StepContext) -> str:
        await context.step("note", world.note, **({"what": 1} | options))
        return "never"

    turn = RecordingTurn()
    with pytest.raises((ValueError, TypeError), match=error):
        await run(answer, turn)
    assert turn.appends == 0


async def test_reply_must_be_text() -> None:
    async def answer(context: StepContext) -> Any:
        return 3

    with pytest.raises(TypeError, match="answer returned int; expected the reply, as a str"):
        await run(answer, RecordingTurn())


async def test_function_cannot_end_the_process() -> None:
    async def answer(context: StepContext) -> str:
        raise SystemExit(3)

    with pytest.raises(RuntimeError, match="answer wanted to end the process, with 3"):
        await run(answer, RecordingTurn())


def test_agent_must_be_an_async_function() -> None:
    with pytest.raises(ConfigurationError, match="is not an async function"):
        FunctionAgent(lambda context: context.message)  # type: ignore[arg-type, return-value]


async def test_function_can_ask_for_whom_it_works(world: World) -> None:
    async def answer(context: StepContext) -> str:
        rights = await context.tool_rights()
        if rights.allows("pay"):
            await context.step("pay", world.note, 5)
        return rights.role or "nobody"

    turn = RecordingTurn()
    turn.rights = ToolRights("guest", ("look",), "ann")
    assert (await run(answer, turn)).text == "guest"
    assert world.seen == []

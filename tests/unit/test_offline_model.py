"""The offline model: which messages are scripts, and what each action does.

Drives `agents/offline_model`.
"""

from __future__ import annotations

import pytest

from perdure.agents.api import ModelRequest
from perdure.agents.offline_model import MAX_FLOOD_CHARS, OfflineModel, ScriptAction, parse_script
from perdure.core import texts
from perdure.core.conversation import AssistantMessage, Message, NoteMessage, ToolMessage, UserMessage
from perdure.core.journal import ModelAnswered
from perdure.core.recovery.decision import is_final_response
from perdure.errors import ModelError

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def answer(*messages: Message, step: int = 1, earlier: int = 0) -> ModelAnswered:
    return await OfflineModel().respond(ModelRequest(messages, step, earlier))


async def said(text: str) -> str:
    """What the model says to a message, for good."""
    answered = await answer(UserMessage(text))
    assert is_final_response(answered)
    return answered.text


async def taken(script: str, steps: int) -> list[Message]:
    """The conversation after the model took so many steps of a script."""
    messages: list[Message] = [UserMessage(script)]
    for step in range(1, steps + 1):
        answered = await answer(*messages, step=step)
        messages.append(AssistantMessage(answered.text, answered.calls))
        messages += [
            ToolMessage(call.id, call.tool, f"{call.arguments['name']}: done", "ok") for call in answered.calls
        ]
    return messages


# ── scripts ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "actions"),
    [
        pytest.param("step research", [ScriptAction("step", "research")], id="a step"),
        pytest.param("step research 2s", [ScriptAction("step", "research", 2.0)], id="a step that takes its time"),
        pytest.param("once pay 0.5s", [ScriptAction("once", "pay", 0.5)], id="once, for half a second"),
        pytest.param("  step   a\t3s  ", [ScriptAction("step", "a", 3.0)], id="blanks anywhere"),
        pytest.param("step 2s", [ScriptAction("step", "2s")], id="a name that looks like a time"),
        pytest.param("say: All done.", [ScriptAction("say", "All done.")], id="say"),
        pytest.param("say:", [ScriptAction("say", "")], id="say nothing"),
        pytest.param("say:no blank", [ScriptAction("say", "no blank")], id="no blank behind the colon"),
        pytest.param("say: a: b", [ScriptAction("say", "a: b")], id="a colon in the text"),
        pytest.param("parallel: a, b, c", [ScriptAction("parallel", "a, b, c")], id="parallel"),
        pytest.param("stream: slowly", [ScriptAction("stream", "slowly")], id="stream"),
        pytest.param("fail: no credit", [ScriptAction("fail", "no credit")], id="fail"),
        pytest.param("flood: 5000", [ScriptAction("flood", "5000")], id="flood"),
        pytest.param("run: ls -l", [ScriptAction("run", "ls -l")], id="run"),
        pytest.param("background: sleep 9", [ScriptAction("background", "sleep 9")], id="background"),
        pytest.param("watch: ERROR tail -f x", [ScriptAction("watch", "ERROR tail -f x")], id="watch"),
        pytest.param("ask: Which? | A | B", [ScriptAction("ask", "Which? | A | B")], id="ask"),
        pytest.param("danger: rm -r x", [ScriptAction("danger", "rm -r x")], id="danger"),
        pytest.param(
            "step a\r\n\n  say: b\n", [ScriptAction("step", "a"), ScriptAction("say", "b")], id="several lines"
        ),
        pytest.param("", None, id="nothing"),
        pytest.param(" \n ", None, id="nothing but blanks"),
        pytest.param("hello", None, id="a greeting"),
        pytest.param("step", None, id="a step without a name"),
        pytest.param("step a 2", None, id="a time without a unit"),
        pytest.param("step a 2s please", None, id="words behind a step"),
        pytest.param("step a\nthank you", None, id="one line that is no action"),
        pytest.param("Say: hi", None, id="a capital letter"),
        pytest.param("please say: hi", None, id="words before an action"),
        pytest.param("sing: la la", None, id="an action nobody knows"),
    ],
)
def test_message_is_a_script_when_every_line_is_an_action(text: str, actions: list[ScriptAction] | None) -> None:
    assert parse_script(text) == actions


@pytest.mark.parametrize("text", ["hello", "step", "what can you do?\nstep a"])
async def test_anything_else_gets_a_friendly_answer_that_says_who_speaks(text: str) -> None:
    assert await said(text) == texts.agents.OFFLINE_GREETING


async def test_every_suggestion_of_the_greeting_is_an_action() -> None:
    lines = [line for line in texts.agents.OFFLINE_GREETING.splitlines() if line.startswith("    ")]
    assert lines
    assert parse_script("\n".join(lines)) is not None


# ── actions ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("verb", ["step", "once"])
async def test_step_calls_the_tool_of_its_name(verb: str) -> None:
    answered = await answer(UserMessage(f"{verb} pay 1.5s"))
    (call,) = answered.calls
    assert (call.tool, call.arguments) == (verb, {"name": "pay", "seconds": 1.5})
    assert not is_final_response(answered)


async def test_parallel_calls_a_pure_step_for_every_name() -> None:
    answered = await answer(UserMessage("parallel: a, b,, c ,"))
    assert [(call.tool, call.arguments["name"]) for call in answered.calls] == [
        ("step", "a"),
        ("step", "b"),
        ("step", "c"),
    ]
    assert len({call.id for call in answered.calls}) == 3


@pytest.mark.parametrize("script", ["parallel:", "parallel: , ,"])
async def test_parallel_without_names_says_what_it_wants(script: str) -> None:
    assert await said(script) == texts.agents.OFFLINE_PARALLEL_USAGE


@pytest.mark.parametrize("verb", ["say", "stream"])
async def test_say_is_the_final_answer(verb: str) -> None:
    assert await said(f"{verb}: All done.") == "All done."


async def test_flood_says_as_much_as_was_wished() -> None:
    assert await said("flood: 5000") == "x" * 5_000


@pytest.mark.parametrize(
    "size", ["1000001", "9" * 30, "9" * 5_000], ids=["one more", "many", "more digits than a number has"]
)
async def test_flood_has_a_limit(size: str) -> None:
    assert len(await said(f"flood: {size}")) == MAX_FLOOD_CHARS


@pytest.mark.parametrize("size", ["", "many", "-1", "1.5", "5 000"])
async def test_flood_says_what_it_wants_when_its_size_is_no_number(size: str) -> None:
    with pytest.raises(ModelError) as caught:
        await answer(UserMessage(f"flood: {size}"))
    assert caught.value.message == texts.agents.offline_flood_usage(size)


async def test_fail_is_an_error_of_the_provider_with_its_words() -> None:
    with pytest.raises(ModelError, match="no credit left"):
        await answer(UserMessage("fail: no credit left"))


async def test_fail_has_words_of_its_own_when_none_are_given() -> None:
    with pytest.raises(ModelError, match="told to fail"):
        await answer(UserMessage("fail:"))


@pytest.mark.parametrize(("verb", "tool"), [("run", "shell"), ("danger", "danger")])
async def test_command_is_wished_for(verb: str, tool: str) -> None:
    answer = await OfflineModel().respond(ModelRequest([UserMessage(f"{verb}: ls | wc -l")], 1))
    assert [(call.tool, call.arguments) for call in answer.calls] == [(tool, {"command": "ls | wc -l"})]


@pytest.mark.parametrize(
    ("script", "tool", "arguments"),
    [
        ("background: sleep 9", "shell", {"command": "sleep 9", "background": True}),
        (
            "watch: ERROR tail -f x",
            "shell",
            {
                "command": "tail -f x",
                "background": True,
                "watch_patterns": ["ERROR"],
                "notify_on_complete": False,
            },
        ),
        ("process: list", "process", {"action": "list", "id": "", "text": ""}),
    ],
)
async def test_action_begins_or_looks_after_a_process(
    script: str, tool: str, arguments: dict[str, object]
) -> None:
    answer = await OfflineModel().respond(ModelRequest([UserMessage(script)], 1))
    assert [(call.tool, call.arguments) for call in answer.calls] == [(tool, arguments)]


async def test_action_means_the_newest_process_that_was_told_of() -> None:
    process = f"p_{'0' * 22}"
    said = ToolMessage("c1.1", "shell", f"The process {process} runs in the background.", "ok")
    asked = ModelRequest([UserMessage("background: x\nprocess: kill"), AssistantMessage(""), said], 2)
    (call,) = (await OfflineModel().respond(asked)).calls
    assert call.arguments["id"] == process


async def test_news_is_passed_on_when_nobody_has_written() -> None:
    told = NoteMessage(texts.phrases.report_note("It ended."), is_report=True)
    answered = await answer(UserMessage("say: hello"), AssistantMessage("hello"), told, earlier=2)
    assert answered.text == "It ended."


# ── going on ────────────────────────────────────────────────────────────────────────────────────────────────

SCRIPT = "step a\nonce b\nparallel: c, d\nsay: All done."


async def test_script_takes_one_step_per_line_in_order() -> None:
    messages = await taken(SCRIPT, 3)
    names = [
        [call.arguments["name"] for call in message.calls]
        for message in messages
        if isinstance(message, AssistantMessage)
    ]
    assert names == [["a"], ["b"], ["c", "d"]]
    assert (await answer(*messages, step=4)).text == "All done."


async def test_calls_have_ids_of_their_own_in_the_whole_turn() -> None:
    messages = await taken(SCRIPT, 3)
    calls = [call.id for message in messages if isinstance(message, AssistantMessage) for call in message.calls]
    assert len(set(calls)) == len(calls) == 4


async def test_script_goes_on_where_the_conversation_ends() -> None:
    """B46: what is done is read from the conversation, so a crash changes nothing."""
    messages = [*await taken(SCRIPT, 1), NoteMessage(texts.recovery.note_resumed("restart_timeout"))]
    (call,) = (await answer(*messages, step=2)).calls
    assert call.arguments["name"] == "b"


async def test_script_that_says_nothing_ends_with_its_results() -> None:
    assert (await answer(*await taken("step a\nonce b", 2), step=3)).text == "a: done\nb: done"


async def test_script_ends_with_a_word_when_it_has_no_results() -> None:
    messages: list[Message] = [UserMessage("step a"), AssistantMessage("")]
    assert (await answer(*messages, step=2)).text == texts.agents.OFFLINE_DONE


async def test_newest_message_is_the_script_when_there_were_others() -> None:
    earlier = [*await taken(SCRIPT, 3), AssistantMessage("All done.")]
    assert (await answer(*earlier, UserMessage("say: Again."), earlier=len(earlier))).text == "Again."


async def test_question_is_a_call_with_its_options() -> None:
    [call] = (await answer(UserMessage("ask: Which way? | Left | Right"))).calls
    assert (call.tool, call.arguments) == ("clarify", {"question": "Which way?", "options": ["Left", "Right"]})


async def test_messages_of_one_turn_are_answered_together_steps_first() -> None:
    both: list[Message] = [UserMessage("step a\nsay: one"), UserMessage("step b\nsay: two")]
    first = await answer(*both)
    assert [call.arguments["name"] for call in first.calls] == ["a"]
    taken_both = [*both, AssistantMessage("", first.calls), AssistantMessage("", first.calls)]
    assert (await answer(*taken_both)).text == "one\ntwo"


async def test_script_goes_on_when_the_turn_began_without_words() -> None:
    earlier = await taken(SCRIPT, 1)
    assert (await answer(*earlier, NoteMessage("[go on]"), earlier=len(earlier))).calls


@pytest.mark.parametrize("script", ["step a", "say: hello", "hello"])
async def test_every_answer_costs_something(script: str) -> None:
    usage = (await answer(UserMessage(script))).usage
    assert usage.input > 0
    assert usage.output > 0


async def test_answer_has_the_number_of_its_step() -> None:
    assert [(await answer(UserMessage("step a"), step=step)).step for step in (1, 7)] == [1, 7]

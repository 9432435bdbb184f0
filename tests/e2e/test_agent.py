"""The built-in agent with a real provider's SDK, real tools and a real process, killed in the middle of things.

Drives `agents/builtin_agent`, `agents/providers/models` and `runtime/attempt`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from perdure.agents.providers.models import MAX_ANSWER_CHARS
from perdure.core import texts
from perdure.testing.providers import Asked, Fails, Hangs, LocalProvider, NeverEnds, Says, Wish
from support.chat_folders import chat_workspace
from support.gateway import GatewayProcess, Person, gateway
from support.waiting import wait_for

# Tools of the operator's own, in the home directory: each run leaves a line.
TOOLS = """
import os, pathlib, time
import perdure

HOME = pathlib.Path(os.environ["PERDURE_HOME"])

def leave(line: str) -> None:
    with (HOME / "runs").open("a") as runs:
        runs.write(line + "\\n")

def wait_while(name: str) -> None:
    while (HOME / name).exists():
        time.sleep(0.01)

@perdure.tool(effect="pure")
def quick(name: str) -> str:
    "Is done at once."
    leave(f"quick:{name}")
    return f"{name} is done"

@perdure.tool(effect="pure")
def slow(name: str) -> str:
    "Waits while there is a file named hold."
    leave(f"slow:{name}")
    wait_while("hold")
    return f"{name} is done"

@perdure.tool(effect="keyed")
def keyed(name: str, use: perdure.Use) -> str:
    "Waits while there is a file named hold."
    leave(f"keyed:{use.key}")
    wait_while("hold")
    return f"{name} is done"

@perdure.tool
def pay(name: str) -> str:
    "Must not be repeated; waits while there is a file named hold."
    leave(f"pay:{name}")
    wait_while("hold")
    return f"{name} is paid"

again = pay
"""
LOADED = ",".join(f"home_tools:{name}" for name in ("quick", "slow", "keyed", "pay"))


@pytest.fixture
def provider() -> Iterator[LocalProvider]:
    with LocalProvider() as provider:
        yield provider
        assert provider.refusals == [], "B64: every request was as its provider wants it"


@pytest.fixture(params=["openai", "anthropic"])
def api(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@contextmanager
def served(tmp_path: Path, provider: LocalProvider, api: str = "openai", **more: str) -> Iterator[GatewayProcess]:
    home = tmp_path / "home"
    home.mkdir()
    (home / "home_tools.py").write_text(TOOLS)
    url = provider.openai_url if api == "openai" else provider.anthropic_url
    settings = {
        "MODEL__NAME": f"{api}:local",
        "MODEL__BASE_URL": url,
        "MODEL__API_KEY": provider.key,
        "TOOLS__LOAD": LOADED,
    }
    with gateway(home, **settings | more) as process:
        yield process


def runs_of(process: GatewayProcess) -> Counter[str]:
    file = process.home / "runs"
    return Counter(file.read_text().split() if file.exists() else ())


def ran(process: GatewayProcess, *lines: str) -> None:
    wait_for(f"{lines} ran", lambda: all(runs_of(process)[line] for line in lines))


def hold(process: GatewayProcess) -> None:
    (process.home / "hold").touch()


def release(process: GatewayProcess) -> None:
    (process.home / "hold").unlink()


# ── steps and side effects ──────────────────────────────────────────────────────────────────────────────────


def test_b60_b61_b62_b64_only_the_missing_calls_of_a_set_run_after_a_kill(
    tmp_path: Path, provider: LocalProvider, api: str
) -> None:
    """Of four side by side one had ended, two may be repeated, and one must not be."""
    wishes = [Wish(tool, {"name": tool}) for tool in ("quick", "slow", "keyed", "pay")]
    provider.script = [Says("Let me see.", calls=wishes), Says("That is all.")]
    with served(tmp_path, provider, api) as process:
        hold(process)
        person = Person(process)
        person.say("go")
        person.wait_for_event("the quick one has ended", call="c1.1", state="ended")
        wait_for("all have begun", lambda: runs_of(process).total() == 4)
        process.kill()
        release(process)
        process.start()
        assert person.wait_for_replies(1) == ["That is all."]
        runs = runs_of(process)
    [key] = [line for line in runs if line.startswith("keyed:")]
    assert runs == {"quick:quick": 1, "slow:slow": 2, key: 2, "pay:pay": 1}
    told = json.dumps(provider.requests[-1].messages)
    assert "quick is done" in told
    assert "outcome unknown" in told
    assert told.count("Gateway note: This turn was cut off by a gateway interruption") == 1
    assert (told.count(texts.recovery.NOTE_FINISHED_STEPS), told.count(texts.recovery.NOTE_FIRST_LINE)) == (
        1,
        1,
    ), "B46: a step had ended"
    assert "pay(name='pay') was cut off: its outcome is unknown" in told


def test_b46_half_streamed_answer_is_discarded_and_asked_again_after_a_kill(
    tmp_path: Path, provider: LocalProvider, api: str
) -> None:
    hanging = Hangs(after=2, of=Says("wrong words that nobody should keep"))
    provider.script = [hanging, Says("the right words")]
    with served(tmp_path, provider, api) as process:
        person = Person(process)
        person.say("go")
        wait_for("the stream hangs", hanging.reached.is_set)
        process.kill()
        hanging.release()
        process.start()
        assert person.wait_for_replies(1) == ["the right words"]
        assert len(provider.requests) == 2
    told = json.dumps(provider.requests[1].messages)
    assert told.count("Gateway note: This turn was cut off by a gateway interruption") == 1
    assert texts.recovery.NOTE_FINISHED_STEPS not in told, "B47: no step had ended"
    assert texts.recovery.NOTE_FIRST_LINE not in told


def test_bad_arguments_and_unknown_tools_go_back_to_the_model(
    tmp_path: Path, provider: LocalProvider, api: str
) -> None:
    provider.script = [
        Says(calls=[Wish("quick", {"nmae": "x"}), Wish("fly", {})]),
        Says(calls=[Wish("quick", {"name": "x"})]),
        Says("Now it is right."),
    ]
    with served(tmp_path, provider, api) as process:
        person = Person(process)
        person.say("go")
        assert person.wait_for_replies(1) == ["Now it is right."]
    told = json.dumps(provider.requests[1].messages)
    assert "name" in told
    assert "there is no tool named" in told


def test_long_result_is_cut_with_a_clear_mark(tmp_path: Path, provider: LocalProvider) -> None:
    provider.script = [Says(calls=[Wish("read_file", {"path": "long"})]), Says("Long.")]
    with served(tmp_path, provider, TOOLS__RESULT_LIMIT="1000") as process:
        (chat_workspace(process.home) / "long").write_text("word " * 2000)
        person = Person(process)
        person.say("go")
        person.wait_for_replies(1)
    assert "characters left out" in provider.requests[1].text


# ── what goes wrong at the provider ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        pytest.param(Fails(401), texts.agents.PROVIDER_KEY_REFUSED, id="the key is refused"),
        pytest.param(Fails(404), texts.agents.unknown_model("local"), id="no such model"),
        pytest.param(Fails(400, message="No."), texts.agents.provider_refused("No."), id="the request is refused"),
    ],
)
def test_failure_of_the_provider_is_told_and_the_session_stays_usable(
    tmp_path: Path, provider: LocalProvider, failure: Fails, told: str
) -> None:
    provider.script = [failure, Says("better now")]
    with served(tmp_path, provider) as process:
        person = Person(process)
        person.say("go")
        [reply] = person.wait_for_replies(1)
        assert reply.startswith(texts.turns.failed(told))
        person.say("again")
        assert person.wait_for_replies(2)[1] == "better now"


# ── bounds ──────────────────────────────────────────────────────────────────────────────────────────────────


def going_on(asked: Asked) -> Says:
    """A model that calls a tool for ever, each time with other arguments."""
    return Says(calls=[Wish("quick", {"name": f"n{len(asked.messages)}"})])


def in_circles(asked: Asked) -> Says:
    """A model that wishes for the very same for ever."""
    return Says(calls=[Wish("quick", {"name": "same"})])


def test_model_without_end_is_stopped_and_told(tmp_path: Path, provider: LocalProvider) -> None:
    provider.script = going_on
    with served(tmp_path, provider, AGENT__MAX_STEPS="5") as process:
        person = Person(process)
        person.say("go")
        assert person.wait_for_replies(1) == [texts.turns.failed(texts.turns.too_many_steps(5))]
        assert runs_of(process).total() == 5
        provider.script = [Says("better now")]
        person.say("again")
        assert person.wait_for_replies(2)[1] == "better now"


def test_model_that_goes_in_circles_is_told_and_then_stopped(tmp_path: Path, provider: LocalProvider) -> None:
    provider.script = in_circles
    with served(tmp_path, provider) as process:
        person = Person(process)
        person.say("go")
        assert person.wait_for_replies(1) == [texts.turns.failed(texts.turns.repeated_calls(10))]
        assert runs_of(process) == {"quick:same": 5}
        assert texts.tool_calls.REPEATED in json.dumps(provider.requests[-1].messages)


def test_tokens_of_one_turn_are_bounded(tmp_path: Path, provider: LocalProvider) -> None:
    provider.script = going_on
    with served(tmp_path, provider, AGENT__MAX_TOKENS="40") as process:
        person = Person(process)
        person.say("go")
        assert person.wait_for_replies(1) == [texts.turns.failed(texts.turns.too_many_tokens(45, 40))]


def test_stream_that_never_ends_is_bounded_and_told(tmp_path: Path, provider: LocalProvider) -> None:
    provider.script = lambda _: NeverEnds(piece="again " * 2000)
    with served(tmp_path, provider) as process:
        person = Person(process)
        person.say("go")
        [reply] = person.wait_for_replies(1)
        assert reply.startswith(texts.turns.failed(texts.agents.PROVIDER_INCOMPLETE))
        assert texts.agents.answer_too_long(MAX_ANSWER_CHARS) in reply
        provider.script = [Says("better now")]
        person.say("again")
        assert person.wait_for_replies(2)[1] == "better now"


def test_tool_that_takes_too_long_is_given_up(tmp_path: Path, provider: LocalProvider) -> None:
    """One that may be repeated has failed; of one that must not be, nobody knows."""
    provider.script = [Says(calls=[Wish("slow", {"name": "a"}), Wish("pay", {"name": "b"})]), Says("Too slow.")]
    with served(tmp_path, provider, TOOLS__TIMEOUT="200ms") as process:
        hold(process)
        person = Person(process)
        person.say("go")
        assert person.wait_for_replies(1) == ["Too slow."]
        release(process)
    told = json.dumps(provider.requests[1].messages)
    assert told.count("was given up after 0.2 s") == 2
    assert told.count("outcome unknown") == 1


# ── the context ─────────────────────────────────────────────────────────────────────────────────────────────


def is_summary(asked: Asked) -> bool:
    return "Sum up the conversation below" in asked.text


def summing_up(asked: Asked) -> Says:
    return Says("IN SHORT: numbers were told") if is_summary(asked) else Says("answer " + "y" * 400)


def test_b64_long_conversation_is_summed_up_once_when_killed_in_the_middle(
    tmp_path: Path, provider: LocalProvider, api: str
) -> None:
    provider.script = summing_up
    with served(tmp_path, provider, api, MODEL__CONTEXT="1200") as process:
        person = Person(process)
        for number in range(1, 5):
            person.say(f"message {number} " + "x" * 400)
            person.wait_for_replies(number)
        hanging = Hangs(after=0, of=Says("IN SHORT: cut off"))
        provider.script = [hanging]
        person.say("message 5 " + "x" * 400)
        wait_for("the summary is being made", hanging.reached.is_set)
        assert is_summary(provider.requests[-1])
        process.kill()
        hanging.release()
        provider.script = summing_up
        process.start()
        assert len(person.wait_for_replies(5)) == 5
        last = json.dumps(provider.requests[-1].messages)
        assert "IN SHORT: numbers were told" in last
        assert "IN SHORT: cut off" not in last
        assert "message 1 " not in last
        assert "message 5 " in last
        summaries = sum(map(is_summary, provider.requests))
        person.say("message 6")
        person.wait_for_replies(6)
        assert sum(map(is_summary, provider.requests)) <= summaries + 1
        assert len(person.replies()) == 6


def test_long_turn_is_summed_up_in_its_middle(tmp_path: Path, provider: LocalProvider) -> None:
    """What the user wants stays as written, however many results are summed up."""
    steps = [Says(calls=[Wish("read_file", {"path": f"f{n}"})]) for n in range(6)] + [Says("All read.")]

    def reading(asked: Asked) -> Says:
        return Says("IN SHORT: files were read") if is_summary(asked) else steps.pop(0)

    provider.script = reading
    with served(tmp_path, provider, MODEL__CONTEXT="1500") as process:
        for number in range(6):
            (chat_workspace(process.home) / f"f{number}").write_text(f"content {number} " + "z" * 1500)
        person = Person(process)
        person.say("please read all files")
        assert person.wait_for_replies(1) == ["All read."]
    last = json.dumps(provider.requests[-1].messages)
    assert "please read all files" in last
    assert "IN SHORT: files were read" in last
    assert "content 0" not in last


def test_conversation_that_the_provider_calls_too_long_is_summed_up(
    tmp_path: Path, provider: LocalProvider
) -> None:
    provider.script = summing_up
    with served(tmp_path, provider, MODEL__CONTEXT="4000") as process:
        person = Person(process)
        for number in range(1, 5):
            person.say(f"message {number} " + "x" * 1000)
            person.wait_for_replies(number)
        assert not any(map(is_summary, provider.requests))
        too_long = Fails(400, message="Too many tokens.", code="context_length_exceeded")
        provider.script = [too_long, Says("IN SHORT: numbers"), Says("it fits")]
        person.say("message 5")
        assert person.wait_for_replies(5)[4] == "it fits"
        assert "IN SHORT: numbers" in json.dumps(provider.requests[-1].messages)


# ── who answers where ───────────────────────────────────────────────────────────────────────────────────────


def test_model_prompt_and_tools_of_a_platform_come_before_those_of_all(
    tmp_path: Path, provider: LocalProvider
) -> None:
    provider.script = [Says("hello")]
    here = {
        "PLATFORMS__WEB__MODEL": "openai:other",
        "PLATFORMS__WEB__SYSTEM_PROMPT": "Speak like a sailor.",
        "PLATFORMS__WEB__TOOLS": "quick,read_*",
    }
    with served(tmp_path, provider, **here) as process:
        person = Person(process)
        person.say("hi")
        person.wait_for_replies(1)
    [asked] = provider.requests
    assert asked.body["model"] == "other"
    assert sorted(asked.tools) == ["quick", "read_file"]
    assert "Speak like a sailor." in json.dumps(asked.messages)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        pytest.param({"MODEL__NAME": "nobody:x"}, "'nobody:x' cannot be used", id="an unknown provider"),
        pytest.param({"MODEL__NAME": "groq:x"}, "pip install 'pydantic-ai-slim[groq]'", id="a missing library"),
        pytest.param({"TOOLS__LOAD": "nowhere:tool"}, "'nowhere:tool' cannot be imported", id="no such module"),
        pytest.param({"TOOLS__LOAD": "home_tools:none"}, "home_tools has no none", id="no such object"),
        pytest.param({"TOOLS__LOAD": "home_tools:leave"}, "home_tools:leave", id="a function that is no tool"),
        pytest.param({"TOOLS__LOAD": "home_tools:pay,home_tools:again"}, "two tools are named 'pay'", id="twice"),
    ],
)
def test_what_is_missing_is_told_before_anything_starts(
    tmp_path: Path, provider: LocalProvider, settings: dict[str, str], told: str
) -> None:
    with (
        pytest.raises(AssertionError, match="ended with exit code 78") as caught,
        served(tmp_path, provider, **settings),
    ):
        pass
    assert told in str(caught.value)

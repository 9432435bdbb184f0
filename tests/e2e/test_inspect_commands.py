"""Recovery explained: every command that looks, as a real process, beside a real gateway and without one.

Drives `operations/inspect` and `core/texts/explanation`.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from perdure.core import texts
from support.gateway import COMMAND, GatewayProcess, Person, gateway
from support.waiting import wait_for

KEY = "agent:main:web:dm:home"
SCRIPT = "step one 0s\nstep two 3s\nstep three 0s\nsay: all done"


def run(process: GatewayProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], env=process.environment(), capture_output=True, text=True, timeout=60
    )


def shown(process: GatewayProcess, *arguments: str) -> str:
    done = run(process, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def read(process: GatewayProcess, *arguments: str) -> Any:
    return json.loads(shown(process, *arguments, "--json"))


def without_times(text: str) -> str:
    """The same words, whenever they were said."""
    return re.sub(r"\b\d+ s ago", "N s ago", text)


FOUND = (
    "Found: interrupted once, N s ago, by a gateway interruption (restart_interrupted); "
    "it ended with a tool call without result."
)


def kill_in_the_second_step(process: GatewayProcess, person: Person) -> None:
    person.wait_for_event("the second step runs", call="c2.1", state="started")
    process.kill()


def test_b40_b41_b42_killed_turn_is_found_finished_and_explained(tmp_path: Path) -> None:
    """While the gateway is dead, while it runs again, and after it was stopped."""
    with gateway(tmp_path / "home") as process:
        person = Person(process)
        person.say(SCRIPT)
        kill_in_the_second_step(process, person)
        assert shown(process, "why", KEY).splitlines() == [
            "The last turn is running (attempt 1).",
            "It was never interrupted.",
            "Nothing is marked to be resumed.",
            texts.recovery.NO_GATEWAY,
        ]
        process.start()
        assert person.wait_for_replies(1) == ["all done"]
        explained = [
            "The last turn is done (attempt 2).",
            FOUND,
            "Rule: resume: it ends with a tool call without result and may go on.",
            "Then: it went on from where it was, and finished.",
            "Nothing is marked to be resumed.",
        ]
        assert without_times(shown(process, "why", KEY)).splitlines() == explained
        person.say("/why")
        assert without_times(person.wait_for_replies(2)[1]).splitlines() == explained
        assert process.stop() == 0
        explained.append(texts.recovery.NO_GATEWAY)
        assert without_times(shown(process, "why", KEY)).splitlines() == explained
        assert [without_times(line) for line in read(process, "why", KEY)] == explained


def test_b42_held_turn_is_listed_and_explained_with_what_to_do(tmp_path: Path) -> None:
    with gateway(tmp_path / "home", RECOVERY__POLICY="off") as process:
        person = Person(process)
        person.say(SCRIPT)
        kill_in_the_second_step(process, person)
        process.start()
        [told] = person.wait_for_replies(1)
        assert told == texts.recovery.not_resumed("automatic resume is switched off here")
        [session] = read(process, "sessions")
        assert (session["key"], session["state"], session["resume_pending"]) == (KEY, "open", True)
        assert (session["resume_reason"], session["interruptions"]) == ("restart_interrupted", 1)
        assert session["waits_for"] == "a decision, a message or /resume"
        running = shown(process, "sessions"), shown(process, "why", session["id"])
        assert process.stop() == 0
        line, why = running
        assert without_times(shown(process, "sessions")) == without_times(line)
        assert (
            without_times(shown(process, "why", session["id"]))
            == f"{without_times(why)}{texts.recovery.NO_GATEWAY}\n"
        )
        assert session["id"] in line
        assert "pending: restart_interrupted" in line
        assert why.splitlines()[2:] == [
            "Rule: off: automatic resume is switched off here.",
            "Next: it stays as it is: /resume or a new message goes on with it, /drop gives it up.",
            "The session is marked to be resumed (restart_interrupted).",
        ]


def test_trace_shows_the_whole_life_of_a_message_by_any_of_its_names(tmp_path: Path) -> None:
    with gateway(tmp_path / "home") as process:
        person = Person(process)
        stored = person.say(SCRIPT, "mine").json()
        kill_in_the_second_step(process, person)
        process.start()
        person.wait_for_replies(1)
        facts = read(process, "trace", "mine")
        assert process.stop() == 0
        assert read(process, "trace", stored["message"]) == facts
        lines = shown(process, "trace", "mine").splitlines()
    whats = [fact["what"] for fact in facts]
    assert whats[:3] == ["received", "began", "claimed"]
    assert whats[whats.index("interrupted") :] == [
        *("interrupted", "decided", "requeued", "claimed", "noted", "tool_ended"),
        *("model_asked", "model_answered", "tool_started", "tool_ended", "model_asked", "model_answered"),
        *("finished", "owed", "sent"),
    ]
    assert [line.split()[2] for line in lines] == whats
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z  \w", line) for line in lines)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("why", "nobody"), "`perdure sessions` lists ids and keys."),
        (("trace", "nothing"), "Give the id that the platform or the API showed."),
    ],
    ids=["why", "trace"],
)
def test_unknown_name_ends_with_1_and_a_hint(tmp_path: Path, arguments: tuple[str, str], hint: str) -> None:
    with gateway(tmp_path / "home") as process:
        for _ in range(2):
            done = run(process, *arguments)
            assert (done.returncode, done.stdout) == (1, "")
            assert f"named '{arguments[1]}'" in done.stderr
            assert hint in done.stderr
            process.stop()
        assert shown(process, "sessions") == "There are no sessions yet.\n"
        assert read(process, "sessions") == []


def test_nothing_has_happened_where_nobody_has_written(tmp_path: Path) -> None:
    with gateway(tmp_path / "home") as process:
        person = Person(process)
        person.say("/why")
        assert person.wait_for_replies(1) == [texts.chat_commands.NOTHING_HAPPENED]
        assert shown(process, "why", KEY) == f"{texts.chat_commands.NOTHING_HAPPENED}\n"


def test_b53_status_says_that_automatic_resume_is_paused_and_one_command_lifts_it(tmp_path: Path) -> None:
    with gateway(tmp_path / "home", RECOVERY__MAX_WITHOUT_PROGRESS="9") as process:
        person = Person(process)
        person.say("step one 0s\nstep two 3s\nsay: all done")
        kill_in_the_second_step(process, person)
        for kill in range(2):
            process.start()
            wait_until_run(process, "two", kill + 2)
            process.kill()
        process.start()
        assert person.wait_for_replies(1) == [texts.recovery.not_resumed(PAUSED)]
        status = read(process, "status")
        assert (status["resume_paused"], status["running"]) == (True, 0)
        assert texts.recovery.RESUME_PAUSED in shown(process, "status").splitlines()
        assert shown(process, "resume", "--all") == "Automatic resume goes on.\n"
        assert person.wait_for_replies(2)[1] == "all done"
        assert shown(process, "resume", "--all") == "Automatic resume was not paused.\n"
        assert not read(process, "status")["resume_paused"]
        assert process.stop() == 0
        assert run(process, "status").returncode == 69


PAUSED = "automatic resume is paused: the gateway keeps crashing"


def runs_of(process: GatewayProcess, step: str) -> int:
    """How often a step really ran."""
    lines = (process.home / "rehearsal.log").read_text().splitlines()
    return sum(line.split()[0] == step for line in lines)


def wait_until_run(process: GatewayProcess, step: str, times: int) -> None:
    wait_for(f"{step} was run {times} times", lambda: runs_of(process, step) == times)


def test_b52_session_that_was_set_aside_is_explained_and_resumed_from_the_command_line(tmp_path: Path) -> None:
    """A mix of SIGKILL and drain deadlines, all in the second step; the first one had finished a step before."""
    with gateway(tmp_path / "home", DRAIN__DEADLINE="0s") as process:
        person = Person(process)
        person.say("step one 0s\nstep two 3s\nstep three 0s\nsay: all done")
        kill_in_the_second_step(process, person)
        for number, cut in enumerate((signal.SIGTERM, signal.SIGKILL), 2):
            process.start()
            wait_until_run(process, "two", number)
            process.signal(cut)
            assert process.wait() == (0 if cut == signal.SIGTERM else -signal.SIGKILL)
        process.start()
        told = texts.recovery.suspended("it was interrupted 3 times in a row without progress")
        wait_for("the chat is told", lambda: told in person.replies())
        assert shown(process, "why", KEY).splitlines()[0] == "The session is suspended."
        assert "Then: the session was suspended" in shown(process, "why", KEY)
        assert read(process, "sessions")[0]["state"] == "suspended"
        assert shown(process, "resume", KEY) == "It goes on.\n"
        wait_for("it is done", lambda: person.replies()[-1] == "all done")
        assert [runs_of(process, step) for step in ("one", "two", "three")] == [1, 4, 1]
        done = run(process, "resume", KEY)
        assert (done.returncode, done.stdout) == (1, "There is nothing to resume.\n")

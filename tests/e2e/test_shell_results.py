"""What the model hears of a foreground command: how it ended, what it said, and where and with what it ran.

Drives `tools/shell` and `tools/keeper/output`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.testing import SimulatedPlatform
from perdure.testing.providers import LocalProvider, Says, Wish
from support.gateway import Person
from support.inprocess import serving
from support.shell_commands import ShellCommands, gateway_process_group, home_without_commands
from support.waiting import eventually

pytestmark = pytest.mark.anyio

SIGN = "\N{REPLACEMENT CHARACTER}"  # stands for what is no text


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield from home_without_commands(tmp_path)


async def said(home: Path, command: str, **settings: str) -> str:
    """What comes of a command in one line, that nobody is asked about."""
    platform = SimulatedPlatform()
    async with serving(home, platform, TOOLS__APPROVALS="off", **settings):
        platform.write(f"run: {command}")
        [reply] = await eventually("the answer is there", platform.replies)
    return reply


@pytest.mark.parametrize(
    ("command", "told"),
    [
        pytest.param("echo hello", "exit code 0\nhello", id="output"),
        pytest.param("true", "exit code 0\n(no output)", id="none"),
        pytest.param("echo oh >&2; exit 7", "exit code 7\noh", id="an error"),
        pytest.param("echo a; echo b >&2; echo c", "exit code 0\na\nb\nc", id="both outputs in order"),
        pytest.param("kill -9 $$", "exit code 137\n(no output)", id="a signal"),
        pytest.param("cat; echo after", "exit code 0\nafter", id="an input that is empty"),
        pytest.param(
            """printf '%s|' "it's" 'a "b"' '$HOME' \\\\""", """exit code 0\nit's|a "b"|$HOME|\\|""", id="quotes"
        ),
        pytest.param("printf 'grüße ☃ 😀'", "exit code 0\ngrüße ☃ 😀", id="unicode"),
        pytest.param(
            "printf 'a\\377b\\000c'",
            "exit code 0\na\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}c",
            id="no text",
        ),
        pytest.param("-n; exit 4", None, id="a command that looks like an option"),
        pytest.param("no-such-program", None, id="no such program"),
    ],
)
async def test_model_hears_how_a_command_ended_and_what_it_said(
    home: Path, command: str, told: str | None
) -> None:
    reply = await said(home, command)
    assert reply == told if told is not None else "not found" in reply


async def test_command_works_in_the_workspace(home: Path) -> None:
    assert await said(home, "pwd") == f"exit code 0\n{ShellCommands(home).workspace}"


async def test_command_that_takes_too_long_is_ended_and_that_is_told(home: Path) -> None:
    reply = await said(home, "echo begun; sleep 1000", TOOLS__TIMEOUT="0.5")
    assert reply == "ended by signal 15 (its time was up)\nbegun"


async def test_long_output_is_cut_with_a_mark(home: Path) -> None:
    reply = await said(home, "seq 1 100000", TOOLS__RESULT_LIMIT="1000")
    assert reply.startswith("exit code 0\n1\n2\n3\n")
    assert reply.endswith("\n99999\n100000")
    assert "characters left out" in reply
    assert len(reply) < 1100


async def test_output_beyond_what_is_kept_is_counted(home: Path) -> None:
    """The beginning and the end are told, and how much is missing between them: at most a quarter too much."""
    size = 9 << 20
    reply = await said(home, f"echo begin; head -c {size} /dev/zero | tr '\\0' x; echo; echo end")
    assert reply.startswith("exit code 0\nbegin\nxxx")
    assert "xxx\nend\n[… " in reply
    found = re.search(r"\[… (\d+) bytes in the middle of its output were not kept …\]$", reply)
    assert found is not None
    assert size - (8 << 20) <= int(found[1]) <= size - (6 << 20)


def test_command_sees_no_secret_of_the_gateway(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its environment has what is listed and nothing else, and so has that of its keeper."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("HARMLESS", "shown")
    with gateway_process_group(home, TOOLS__ENV="PATH,HARMLESS,MISSING") as process:
        person = Person(process)
        person.say("run: env; tr '\\0' '\\n' < /proc/$PPID/environ")
        [reply] = person.wait_for_replies(1)
    assert "sk-secret" not in reply
    names = {line.partition("=")[0] for line in reply.splitlines()[1:]}
    assert names <= {"PATH", "HARMLESS", "LANG", "PWD", "SHLVL", "_", "OLDPWD"}
    assert "HARMLESS=shown" in reply


async def test_command_of_several_lines_runs_as_it_was_written(home: Path) -> None:
    script = "for name in a b; do\n  cat <<END\n'$name' \"ü\"\nEND\ndone\n# a remark\nexit 2\n"
    with LocalProvider() as provider:
        provider.script = [Says(calls=[Wish("shell", {"command": script})]), Says("Done.")]
        settings = {"MODEL__NAME": "openai:local", "MODEL__BASE_URL": provider.openai_url}
        platform = SimulatedPlatform()
        async with serving(home, platform, MODEL__API_KEY=provider.key, **settings):
            platform.write("go")
            await eventually("the answer is there", platform.replies)
        [result] = [each["content"] for each in provider.requests[1].messages if each["role"] == "tool"]
    assert result == "exit code 2\n'a' \"ü\"\n'b' \"ü\""


async def test_model_may_wish_for_less_time(home: Path) -> None:
    with LocalProvider() as provider:
        wish = Wish("shell", {"command": "sleep 1000", "timeout": 0.2})
        provider.script = [Says(calls=[wish]), Says("Done.")]
        settings = {"MODEL__NAME": "openai:local", "MODEL__BASE_URL": provider.openai_url}
        platform = SimulatedPlatform()
        async with serving(home, platform, MODEL__API_KEY=provider.key, **settings):
            platform.write("go")
            await eventually("the answer is there", platform.replies)
        [result] = [each["content"] for each in provider.requests[1].messages if each["role"] == "tool"]
    assert result == "ended by signal 15 (its time was up)\n(no output)"

"""The sandbox through a gateway: what commands see, what is said of it, and that they outlive the gateway.

Drives `runtime/tool_factory`, `tools/shell`, `tools/sandbox/choice`, `cli/doctor`, `config/secrets` and
`tools/descriptor_limit`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from perdure.testing import LocalProvider, Says, SimulatedPlatform
from support.chat_folders import chat_workspace
from support.gateway import GatewayProcess, Person, gateway
from support.inprocess import serving
from support.keepers import end_all_commands
from support.shell_commands import HELD_COMMAND, HELD_RESULT, ShellCommands, gateway_process_group
from support.waiting import eventually, wait_for

pytestmark = pytest.mark.anyio

IN_FORCE = "Commands run in a sandbox: bubblewrap, Landlock and seccomp; web ports only."


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    for _ in end_all_commands(tmp_path / "home" / "keepers"):
        yield tmp_path / "home"


def perdure(home: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    env = GatewayProcess(home, **settings).environment()
    return subprocess.run(
        [sys.executable, "-m", "perdure", *arguments], env=env, capture_output=True, text=True, check=False
    )


def running_page(running: GatewayProcess) -> str:
    """The first page of the console."""
    with httpx.Client(base_url=running.url) as browser:
        browser.get("/login", params={"token": running.token})
        return browser.get("/console").text


def ask(person: Person, text: str, number: int) -> str:
    person.say(text)
    return str(person.wait_for_replies(number)[-1])


def test_b180_b181_command_sees_its_workspace_and_nothing_of_the_gateway(home: Path) -> None:
    with gateway(home, TOOLS__APPROVALS="off") as running:
        person = Person(running)
        own = chat_workspace(home)
        said = ask(person, f"run: cat {home}/token; ls -A {home}; touch mine && ls; env | grep -c PERDURE; pwd", 1)
        assert running.token not in said
        assert said.splitlines()[1:] == [
            f"cat: {home}/token: No such file or directory",
            "chats",
            "mine",
            "0",
            str(own),
        ]
        said = ask(
            person, f"run: echo kept > ~/note; echo $HOME; curl -s -m 5 127.0.0.1:{running.port}/healthz", 2
        )
        assert said.splitlines()[:2] == ["exit code 7", "/home/agent"]
        assert (own.with_name("home") / "note").read_text() == "kept\n"
        assert f"says='{IN_FORCE}'" in running.log()
        status = perdure(home, "status", "--json", WEB__PORT=str(running.port))
        found = json.loads(status.stdout)
        assert found["sandbox"]["layer"] == "bwrap"
        assert IN_FORCE in found["summary"]
        assert IN_FORCE in running_page(running)


def test_b63_b184_sandboxed_command_goes_on_when_the_gateway_is_killed(home: Path) -> None:
    commands = ShellCommands(home)
    with gateway_process_group(home) as process:
        person = Person(process)
        person.say(f"run: {HELD_COMMAND}")
        wait_for("it runs", lambda: commands.runs() == 1 and commands.has_output())
        orders = [json.loads((each / "order.json").read_text()) for each in commands.directories()]
        assert [(each["version"], each["sandbox"]["layer"]) for each in orders] == [(2, "bwrap")]
        process.kill()
        commands.release()
        process.start()
        replies = wait_for("the answer", lambda: [each for each in person.replies() if HELD_RESULT in each])
    assert len(replies) == 1
    assert commands.runs() == 1


def test_b180_environment_of_the_gateway_is_closed_to_programs_of_its_user(home: Path) -> None:
    with gateway(home) as running:
        assert running.process is not None
        environ = Path(f"/proc/{running.process.pid}/environ")
        assert environ.stat().st_uid == 0  # as the kernel says of a process that cannot be looked into
        assert os.geteuid() == 0 or not os.access(environ, os.R_OK)


async def test_b181_model_is_told_of_the_sandbox(home: Path) -> None:
    with LocalProvider() as provider:
        provider.script = [Says("Hello.")]
        settings = {"MODEL__NAME": "openai:local", "MODEL__BASE_URL": provider.openai_url}
        platform = SimulatedPlatform()
        async with serving(home, platform, MODEL__API_KEY=provider.key, **settings):
            platform.write("hello")
            await eventually("the answer is there", platform.replies)
        prompt = next(each["content"] for each in provider.requests[0].messages if each["role"] == "system")
    assert "run in a sandbox that neither you nor they can switch off" in prompt
    assert "TCP ports 22, 53, 80, 443 only" in prompt


async def test_b181_every_command_asks_when_there_is_no_sandbox(home: Path) -> None:
    platform = SimulatedPlatform()
    async with serving(home, platform, TOOLS__SANDBOX="off"):
        platform.write("run: echo harmless")
        [asked] = await eventually("it asks", platform.replies)
        assert "commands run without a sandbox here, so each of them needs approval" in asked
        platform.write("/approve")
        await eventually("it ran", lambda: any("harmless" in each for each in platform.replies()[1:]))


async def test_b184_command_is_refused_when_the_sandbox_cannot_be_made_any_more(home: Path) -> None:
    platform = SimulatedPlatform()
    (home.parent / "shared").mkdir()
    async with serving(home, platform, TOOLS__SANDBOX_WRITE=str(home.parent / "shared")) as running:
        assert running.sandbox.layer == "bwrap"
        (home.parent / "shared").rmdir()
        platform.write("run: echo harmless")
        [said] = await eventually("it is told", platform.replies)
    assert "The command was not started: its sandbox could not be made" in said
    assert "\nharmless" not in said


@pytest.mark.parametrize(
    ("command", "words"),
    [
        pytest.param("tail /dev/zero", "may use 100 MB of memory at most: tools.sandbox_memory", id="memory"),
        pytest.param("head -c 9000000 /dev/zero > big", "a file grew to 3 MB, which is the limit", id="file size"),
    ],
)
async def test_b183_result_says_which_limit_was_met(home: Path, command: str, words: str) -> None:
    platform = SimulatedPlatform()
    limits = {"TOOLS__SANDBOX_MEMORY": "100", "TOOLS__SANDBOX_FILE_SIZE": "3", "TOOLS__APPROVALS": "off"}
    async with serving(home, platform, **limits):
        platform.write(f"run: {command}")
        [said] = await eventually("it is told", platform.replies)
        assert words in said
        platform.write("run: echo the others go on")
        await eventually("the next one runs", lambda: "exit code 0\nthe others go on" in platform.replies()[-1])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        pytest.param({"TOOLS__SANDBOX_NETWORK": "public"}, "not built yet", id="a network that is not built"),
        pytest.param({"TOOLS__DIRECTORY": "."}, "keeps its own files", id="the home as workspace"),
        pytest.param({"TOOLS__DIRECTORY": "/"}, "the gateway's own home", id="the machine as workspace"),
        pytest.param(
            {"TOOLS__DIRECTORY": "..", "TOOLS__SANDBOX": "landlock"}, "Landlock cannot leave", id="no mask"
        ),
        pytest.param({"TOOLS__SANDBOX": "bwrap", "PATH": "/nonexistent"}, "bwrap is not installed", id="no bwrap"),
    ],
)
def test_b181_gateway_is_refused_when_the_sandbox_cannot_be_as_it_is_wanted(
    home: Path, settings: dict[str, str], words: str
) -> None:
    env = GatewayProcess(home, **settings).environment()
    env["PATH"] = env.pop("PERDURE_PATH", env["PATH"])
    done = subprocess.run([sys.executable, "-m", "perdure", "run"], env=env, capture_output=True, text=True)
    assert done.returncode == 78, done.stderr
    assert words in done.stderr
    assert "hint:" in done.stderr


def test_b180_home_is_masked_in_a_workspace_around_it(home: Path) -> None:
    home.parent.joinpath("beside").write_text("seen\n")
    with gateway(home, TOOLS__DIRECTORY="..") as running:
        said = ask(Person(running), f"run: cat beside; ls -A {home}; cat {home}/token", 1)
        assert running.token not in said
    assert said.splitlines()[1:] == ["seen", f"cat: {home}/token: No such file or directory"]


def test_b181_doctor_says_what_is_in_force_and_what_is_wrong(home: Path) -> None:
    with gateway(home):
        pass
    done = perdure(home, "doctor")
    assert done.returncode == 0, done.stdout
    assert f"fine    sandbox: {IN_FORCE}" in done.stdout
    assert "Each chat has a workspace of its own." in done.stdout
    (home / "config.toml").write_text('[model]\napi_key = "sk-x"\n')
    (home / "config.toml").chmod(0o644)
    done = perdure(home, "doctor", "--json", TOOLS__SANDBOX="off", TOOLS__APPROVALS="off", TOOLS__DIRECTORY="w")
    found = json.loads(done.stdout)
    assert (done.returncode, found["well"]) == (1, False)
    wrong = {each["about"]: each["text"] for each in found["findings"] if each["level"] in ("wrong", "danger")}
    assert set(wrong) == {"sandbox", "approvals", "files"}
    assert "has mode 0644" in wrong["files"]
    assert "sk-x" not in done.stdout
    assert "All chats share one workspace" in done.stdout

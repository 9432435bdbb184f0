"""Tools of MCP servers: real servers, as processes of ours and over HTTP, of this year's protocol and the last.

Drives `tools/mcp`.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from perdure.core.effects import Effect
from perdure.core.tools import Tool, Use
from perdure.errors import ConfigurationError, OutcomeUnknown, ToolFailed
from perdure.tools.mcp import McpServer, McpTools
from perdure.tools.mcp.server import tool_name
from support.mcp_process import ODD_COMMAND, HttpServer, stdio_command
from support.process_state import is_alive
from support.waiting import eventually, wait_for

pytestmark = pytest.mark.anyio

KEY = "turn:call"
ENOUGH = 60.0  # seconds: what a busy machine may take to start a server
KINDS = ["stdio", "stdio --old", "http", "http --old", "http --json"]


class Place:
    """A server of the tests, wherever it runs."""

    def __init__(self, kind: str) -> None:
        transport, *flags = kind.split()
        self.http = HttpServer(*flags) if transport == "http" else None
        self._flags = flags

    def server(self, **more: Any) -> McpServer:
        if self.http is not None:
            return McpServer("t", url=self.http.url, **more)
        return McpServer("t", command=stdio_command(*self._flags), **more)

    def start_again(self) -> None:
        """What comes after a kill: a process of ours is started by ourselves."""
        if self.http is not None:
            self.http.kill()
            self.http.start()


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    place = Place(request.param)
    if place.http is None:
        yield place
    else:
        with place.http:
            yield place


@asynccontextmanager
async def working(*servers: McpServer, startup_timeout: float = ENOUGH) -> AsyncIterator[McpTools]:
    box = McpTools([replace(server, startup_timeout=startup_timeout) for server in servers])
    work = asyncio.create_task(box.run())
    try:
        yield box
    finally:
        work.cancel()
        await asyncio.wait([work])
        assert work.cancelled()


async def tools_of(box: McpTools) -> dict[str, Tool]:
    return {tool.name: tool for tool in await box.tools()}


async def use(box: McpTools, tool: str, /, **arguments: Any) -> str:
    return await run((await tools_of(box))[tool], **arguments)


async def run(tool: Tool, /, **arguments: Any) -> str:
    return await tool.run(Use(arguments, KEY))


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def target(descriptor: int) -> str:
    return str(Path(f"/proc/self/fd/{descriptor}").readlink())


def is_there(pid: int) -> bool:
    """Whether there is a process, be it a zombie."""
    return Path(f"/proc/{pid}").exists()


# ── calls ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_calls_bring_what_the_server_answers(place: Place) -> None:
    async with working(place.server()) as box:
        assert await use(box, "t_echo", text="grüß dich") == "grüß dich"
        assert await use(box, "t_add", a=1, b=2) == "3"
        assert await use(box, "t_measure") == '{"width":3,"height":4}'
        shown = await use(box, "t_show")
        assert shown.startswith("Here they are:\n")
        for named in ("image/png, 5 bytes", "the plan: file:///plan.txt", "file:///note.txt]\na note"):
            assert named in shown
        with pytest.raises(ToolFailed, match="no reason"):
            await use(box, "t_fail")
        with pytest.raises(ToolFailed, match="valid integer"):
            await use(box, "t_add", a="one", b=2)
        assert box.problems == {}


async def test_tools_are_passed_on_with_name_description_and_schema() -> None:
    async with working(McpServer("t", command=stdio_command())) as box:
        tools = await tools_of(box)
        assert tools["t_add"].description == "Adds two numbers."
        assert tools["t_add"].schema["properties"]["a"]["type"] == "integer"
        assert sorted(tools["t_add"].schema["required"]) == ["a", "b"]
        assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in tools)
        [aloud] = [name for name in tools if name.startswith("t_say_it")]
        assert await use(box, aloud, text="hear, hear") == "hear, hear"


async def test_tools_of_several_servers_do_not_collide() -> None:
    servers = [McpServer(name, command=stdio_command()) for name in ("left", "right")]
    async with working(*servers) as box:
        tools = await tools_of(box)
        assert await use(box, "left_pid") != await use(box, "right_pid")
        assert len(tools) == 2 * len([name for name in tools if name.startswith("left_")])


async def test_effects_are_the_operators_word_else_the_servers_else_once(tmp_path: Path) -> None:
    orders = tmp_path / "orders"
    declared = {"order": "keyed", "pid": "once", "slow": "pure"}
    async with working(McpServer("t", command=stdio_command(), effects=declared)) as box:
        tools = await tools_of(box)
        effects = {name.removeprefix("t_"): tool.effect for name, tool in tools.items()}
        await use(box, "t_order", file=str(orders))
    assert effects["echo"] is Effect.PURE, "it says that it only reads"
    assert effects["put"] is Effect.PURE, "it says that repeating it is harmless"
    assert effects["count"] is Effect.ONCE, "it says nothing"
    assert (effects["order"], effects["pid"], effects["slow"]) == (Effect.KEYED, Effect.ONCE, Effect.PURE)
    assert lines(orders) == [KEY]


async def test_new_tools_appear_when_the_server_says_that_its_list_changed(place: Place) -> None:
    async with working(place.server()) as box:
        before = await tools_of(box)

        async def grown() -> bool:
            return "t_later" in await tools_of(box)

        assert not await grown()
        await run(before["t_grow"], name="later")
        await eventually("the new tool is listed", grown)
        assert await use(box, "t_later") == "later"


# ── servers that fail ───────────────────────────────────────────────────────────────────────────────────────


async def test_outcome_is_unknown_unless_pure_when_the_server_is_killed_in_mid_call(
    place: Place, tmp_path: Path
) -> None:
    once, pure = tmp_path / "once", tmp_path / "pure"
    async with working(place.server()) as box:
        tools = await tools_of(box)
        pid = int(await use(box, "t_pid"))
        slow = asyncio.create_task(run(tools["t_slow"], seconds=600, file=str(once)))
        look = asyncio.create_task(run(tools["t_look"], seconds=600, file=str(pure)))
        await eventually("both calls are under way", lambda: lines(once) and lines(pure))
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(OutcomeUnknown, match="'t' gave no answer"):
            await slow
        with pytest.raises(ToolFailed, match="may be repeated"):
            await look
        place.start_again()
        assert await run(tools["t_echo"], text="back") == "back"
        assert int(await use(box, "t_pid")) != pid
        assert lines(once) == lines(pure) == ["began"], "nothing was repeated unasked"


async def test_server_is_started_again_when_it_dies_by_itself() -> None:
    async with working(McpServer("t", command=stdio_command())) as box:
        pid = await use(box, "t_pid")
        with pytest.raises(OutcomeUnknown):
            await use(box, "t_die")
        assert "connect" in box.problems["t"]
        assert await use(box, "t_pid") != pid
        assert box.problems == {}


async def test_connection_is_made_anew_when_the_server_dies_while_nobody_calls() -> None:
    async with working(McpServer("t", command=stdio_command("--old"))) as box:
        pid = int(await use(box, "t_pid"))
        os.kill(pid, signal.SIGKILL)
        await eventually("the loss is noticed", lambda: box.problems)
        assert int(await use(box, "t_pid")) != pid


@pytest.mark.parametrize("flag", ["--json", "--old"])
async def test_call_takes_no_effect_when_the_server_cannot_be_reached(flag: str, tmp_path: Path) -> None:
    """Not unknown: what was never sent was never done."""
    with HttpServer(flag) as http:
        async with working(McpServer("t", url=http.url), startup_timeout=0.5) as box:
            await eventually("it is connected", box.tools)
            count = (await tools_of(box))["t_count"]
            http.kill()
            with pytest.raises(ToolFailed, match="nothing was done"):
                await run(count, file=str(tmp_path / "count"))


async def test_session_is_opened_anew_when_the_server_has_forgotten_it(tmp_path: Path) -> None:
    with HttpServer("--old") as http:
        async with working(McpServer("t", url=http.url)) as box:
            count = (await tools_of(box))["t_count"]
            http.kill()
            http.start()
            assert await run(count, file=str(tmp_path / "count")) == "counted"
            assert lines(tmp_path / "count") == ["ran"]


async def test_call_is_given_up_when_the_server_takes_too_long(tmp_path: Path) -> None:
    async with working(McpServer("t", command=stdio_command(), timeout=0.5)) as box:
        pid = await use(box, "t_pid")
        with pytest.raises(OutcomeUnknown, match=r"longer than 0\.5 s"):
            await use(box, "t_slow", seconds=600, file=str(tmp_path / "once"))
        with pytest.raises(ToolFailed, match="may be repeated"):
            await use(box, "t_look", seconds=600, file=str(tmp_path / "pure"))
        assert await use(box, "t_pid") == pid, "the others may still use it"


async def test_call_is_given_up_when_the_process_hangs_and_reads_nothing() -> None:
    async with working(McpServer("t", command=stdio_command(), timeout=0.5)) as box:
        tools = await tools_of(box)
        pid = int(await use(box, "t_pid"))
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(ToolFailed, match="longer than"):
            await run(tools["t_echo"], text="x" * 1_000_000)
    assert not is_there(pid)


async def test_answer_against_the_rules_is_no_result(caplog: pytest.LogCaptureFixture) -> None:
    async with working(McpServer("odd", command=ODD_COMMAND)) as box:
        tools = await tools_of(box)
        assert list(tools) == ["odd_promise", "odd_look", "odd_own_code", "odd_bare"], "two pages, and no doubles"
        assert tools["odd_bare"].description == "Says nothing"
        assert await use(box, "odd_bare") == "(no output)"
        with pytest.raises(OutcomeUnknown, match="cannot be read"):
            await use(box, "odd_promise")
        with pytest.raises(ToolFailed, match=r"cannot be read.*may be repeated"):
            await use(box, "odd_look")
        with pytest.raises(OutcomeUnknown, match="out of paper"):
            await use(box, "odd_own_code")
        assert box.problems == {}
    assert "mcp_bad_message" in caplog.messages


async def test_tools_come_without_the_dead_when_their_startup_timeout_is_over(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and nobody listens
        dead = [
            McpServer("refusing", url=f"http://127.0.0.1:{taken.getsockname()[1]}/mcp"),
            McpServer("missing", command=("no-such-command-anywhere",)),
            McpServer("silent", command=("sleep", "600")),
            McpServer("broken", command=("sh", "-c", "echo hello; echo the key s3cr3t-k3y is bad >&2; exit 3")),
        ]
        dead[3].env["KEY"] = "s3cr3t-k3y"
        async with working(*dead, startup_timeout=0.2) as box:
            assert await box.tools() == []
            said = ("cannot be reached", "No such file", "not connected yet", "the key *** is bad")

            def told() -> bool:
                return all(word in problem for word, problem in zip(said, box.problems.values(), strict=True))

            await eventually("every problem is told in words", told)


async def test_server_is_refused_when_the_header_is_wrong() -> None:
    with HttpServer("--bearer", "right-token") as http:
        wrong = McpServer("t", url=http.url, headers={"Authorization": "Bearer wrong-token"})
        right = McpServer("t", url=http.url, headers={"Authorization": "Bearer right-token"})
        async with working(wrong, startup_timeout=0.2) as box:
            await eventually("the refusal is told", lambda: "HTTP 401" in box.problems["t"])
            assert "wrong-token" not in box.problems["t"]
        async with working(right) as box:
            assert await use(box, "t_echo", text="let in") == "let in"


# ── processes ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_process_gets_the_listed_variables_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_MODEL__API_KEY", "ours")
    monkeypatch.setenv("USER", "somebody")
    monkeypatch.setenv("LANG", "C.UTF-8")
    async with working(McpServer("t", command=stdio_command(), env={"TOKEN": "theirs"})) as box:
        assert (await use(box, "t_environment")).split() == ["HOME", "LANG", "PATH", "TOKEN"]
        assert await use(box, "t_variable", name="TOKEN") == "theirs"


async def test_process_gets_no_file_or_socket_of_ours(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with lock.open("w") as held, socket.create_server(("127.0.0.1", 0)) as listening:
        for descriptor in (held.fileno(), listening.fileno()):
            os.set_inheritable(descriptor, True)
        ours = [target(listening.fileno()), str(lock)]
        async with working(McpServer("t", command=stdio_command())) as box:
            theirs = await use(box, "t_open_files")
    assert "pipe:" in theirs
    assert not [file for file in ours if file in theirs.splitlines()]


async def test_no_process_is_left_when_work_is_cancelled_in_mid_call(tmp_path: Path) -> None:
    async with working(McpServer("t", command=stdio_command())) as box:
        tools = await tools_of(box)
        pid = int(await use(box, "t_pid"))
        slow = asyncio.create_task(run(tools["t_slow"], seconds=600, file=str(tmp_path / "f")))
        await eventually("the call is under way", lambda: lines(tmp_path / "f"))
    assert not is_there(pid), "neither running nor a zombie"
    with pytest.raises(OutcomeUnknown):
        await slow


async def test_no_process_is_left_when_work_is_cancelled_before_it_has_spoken(tmp_path: Path) -> None:
    noted = tmp_path / "pid"
    command = ("sh", "-c", 'echo $$ > "$0"; exec "$@"', str(noted), *stdio_command())
    async with working(McpServer("t", command=command)):
        await eventually("the process has begun", lambda: lines(noted))
    # A process that the kernel has just begun is told to end, and need not have ended at this very moment.
    await eventually("the process is gone", lambda: not is_there(int(noted.read_text())))


async def test_no_process_is_left_when_it_ignores_the_end_and_work_is_cancelled_twice(tmp_path: Path) -> None:
    stubborn = 'trap "" TERM; echo $$ > "$0"; "$@"; while :; do sleep 1; done'
    command = ("sh", "-c", stubborn, str(tmp_path / "pid"), *stdio_command())
    box = McpTools([McpServer("t", command=command, startup_timeout=ENOUGH)])
    work = asyncio.create_task(box.run())
    inner = int(await use(box, "t_pid"))
    work.cancel()
    await eventually("the server itself has gone, its shell stays", lambda: not is_alive(inner))
    outer = int((tmp_path / "pid").read_text())
    assert is_alive(outer)
    work.cancel()
    await asyncio.wait([work])
    assert work.cancelled()
    assert not is_there(outer)


OWNER = """
import asyncio, sys
from perdure.core.tools import Use
from perdure.tools.mcp import McpServer, McpTools

async def main():
    box = McpTools([McpServer("t", command=tuple(sys.argv[1:]), startup_timeout=60)])
    work = asyncio.create_task(box.run())
    [pid] = [tool for tool in await box.tools() if tool.name == "t_pid"]
    print(await pid.run(Use({}, "")), flush=True)
    await work

asyncio.run(main())
"""


def test_process_ends_when_its_gateway_is_killed() -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER, *stdio_command()], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    pid = int(owner.stdout.readline())
    assert is_alive(pid)
    owner.kill()
    owner.communicate()
    wait_for("the server ends with its gateway", lambda: not is_alive(pid))


# ── what an operator says ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("server", "tool"),
    [("files", "read.me"), ("files", "read me"), ("files", "x" * 100), ("é", "tool"), ("a_b", "c")],
)
def test_tool_name_is_valid_and_marked_when_it_had_to_be_changed(server: str, tool: str) -> None:
    name = tool_name(server, tool, ["files", "a", "a_b"])
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name)
    assert name != tool_name(server, f"{tool}.", ["files", "a", "a_b"])
    assert name != tool_name("a", "b_c", ["files", "a", "a_b"])


def test_tool_name_is_plain_when_it_can_be() -> None:
    assert tool_name("files", "read-me_2", ["files", "file"]) == "files_read-me_2"
    assert tool_name("a", "b_c", ["a", "a_b"]) == "a_b_c"


def test_configuration_is_refused_with_every_problem() -> None:
    servers = [
        McpServer("both", command=("x",), url="http://localhost"),
        McpServer("none", effects={"tool": "attached"}, timeout=0),
        McpServer("none", url="http://localhost"),
    ]
    with pytest.raises(ConfigurationError) as refused:
        McpTools(servers)
    for problem in ("came both", "came none", "came 'attached'", "above 0 seconds", "two MCP servers"):
        assert problem in refused.value.message


def test_secrets_are_not_shown_when_a_server_is_printed() -> None:
    server = McpServer("t", url="http://u:pass@x", headers={"Authorization": "Bearer token"}, env={"A": "secret"})
    assert repr(server) == str(server) == "McpServer('t')"


ABSENT = """
import sys
sys.modules["mcp"] = None  # what Python itself notes for a module that cannot be imported
from perdure.errors import ConfigurationError
from perdure.tools.mcp import McpServer, McpTools
McpTools([])
try:
    McpTools([McpServer("t", command=("x",))])
except ConfigurationError as error:
    print(error.hint)
"""
LIGHT = """
import sys
from perdure.tools.mcp import McpServer, McpTools
McpTools([McpServer("t", command=("x",))])
print([name for name in ("mcp", "pydantic", "httpx2", "anyio") if name in sys.modules])
"""


@pytest.mark.parametrize(("script", "said"), [(ABSENT, "perdure[mcp]"), (LIGHT, "[]")], ids=["absent", "light"])
def test_client_is_needed_only_when_a_server_is_named_and_loaded_only_when_work_begins(
    script: str, said: str
) -> None:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert said in done.stdout

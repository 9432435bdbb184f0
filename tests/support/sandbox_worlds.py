"""Runs commands in the sandbox of one world: `python -m support.sandbox_worlds FOLDER`, results as JSON.

A world is who runs the gateway and what the kernel lets them do; `run_world` makes it around this program. The
folder is empty, and belongs to whoever runs this.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from perdure.tools import keeper
from perdure.tools.keeper import CommandEnded, LaunchSpec
from perdure.tools.keeper.directory import dumps
from perdure.tools.sandbox import SandboxLimits, SandboxRequest, choose_sandbox
from perdure.tools.sandbox.launch import CONFINEMENT_PROGRAM
from perdure.tools.sandbox.system_calls import inner_filter
from support import escape_attempts
from support.ports import free_port
from support.waiting import DEADLINE_FACTOR, wait_for

SECRET = "the-secret-of-the-gateway"  # noqa: S105 reason: it opens nothing
LIMITS = SandboxLimits(memory=300, processes=40, file_size=2)
TESTS = Path(__file__).parents[1]
ORDINARY_USER = 1_000_000 + os.getpid()  # nobody else's: the kernel counts the processes of a user
LIMIT_COMMANDS = {
    "file size": "head -c 9000000 /dev/zero > big; code=$?; wc -c < big; exit $code",
    "memory": "{python} -c 'bytearray(900_000_000)'",
    "processes": "i=0; while [ $i -lt 250 ]; do sleep 2 & i=$((i+1)); done",
    "within": "head -c 1000000 /dev/zero > small; wc -c < small",
}
# Leaves a process in a session of its own, which no signal to the command's session reaches.
SETSID = "setsid sh -c 'trap \"\" TERM; echo $$ > pid; while :; do touch alive; sleep 0.02; done' & wait"


class World:
    """A home with secrets, a gateway's stand-in, and the sandbox that is chosen here."""

    def __init__(self, folder: Path, mode: Any, network: Any) -> None:
        self.home, self.root = folder / "home", folder / "keepers"
        self.workspace, self.agent_home = self.home / "workspace", self.home / "agent-home"
        for each in (self.home, self.workspace, self.agent_home, self.home / "keepers", folder / "other"):
            each.mkdir(mode=0o700)
        (self.home / "keepers" / "other").mkdir()
        for name in ("token", "config.toml", "perdure.db", "keepers/other/output", "../other/file"):
            (self.home / name).write_text(SECRET)
        shutil.copy(escape_attempts.__file__, self.workspace / "attempts.py")
        self._few = asyncio.Semaphore(4)
        self.python = _python_for(os.geteuid())
        read = (Path(sys.base_prefix),) if not self.python.is_relative_to("/usr") else ()
        self.request = SandboxRequest(mode, network, LIMITS, self.home, 0, read)
        self.sandbox = choose_sandbox(self.request, self.workspace, self.agent_home)

    async def run(self, name: str, command: str) -> dict[str, Any]:
        """Run a command to its end under a keeper, and say how it ended."""
        await keeper.start_command(self.root / name, self.spec(command))
        over = await keeper.wait_for_end(self.root / name, 60 * DEADLINE_FACTOR)
        assert isinstance(over, CommandEnded), over
        said = keeper.read_output_text(self.root / name, 0, 1 << 20)[0]
        return {"exit": over.exit_code, "signal": over.signal, "problem": over.problem, "said": said}

    def spec(self, command: str) -> LaunchSpec:
        env = {"PATH": os.defpath, **self.sandbox.variables(self.agent_home)}
        confined = self.sandbox.confinement(self.workspace, self.agent_home)
        return LaunchSpec(command, str(self.workspace), env, 60.0, grace=0.5, input=False, sandbox=confined)

    async def attempts(self) -> dict[str, dict[str, str]]:
        """What every attempt to escape said; with the network `public`, also those through its proxy."""
        proxied = escape_attempts.PROXY_ATTEMPTS if self.sandbox.network == "public" else ()
        with _surroundings(self.home.parent) as facts:
            (self.workspace / "facts.json").write_text(json.dumps(facts | {"home": str(self.home)}))
            ran = await asyncio.gather(*(self._attempt(name) for name in escape_attempts.ATTEMPTS))
            asked = await asyncio.gather(*(self._attempt(name, " proxy") for name in proxied))
            assert _victim_lives(facts["victim"]), "an attempt has ended the gateway's stand-in"
        return {"attempts": dict(ran), "proxy_attempts": dict(asked)}

    async def _attempt(self, name: str, kind: str = "") -> tuple[str, str]:
        async with self._few:
            result = await self.run(f"{name}{kind}".replace(" ", "-"), f"{self.python} attempts.py {name}{kind}")
        return name, result["said"] or str(result)

    async def stopped(self) -> dict[str, Any]:
        """Stop a command with a child in a session of its own; whether the child lives on."""
        place, alive = self.root / "setsid", self.workspace / "alive"
        await keeper.start_command(place, self.spec(SETSID))
        wait_for("the child lives", alive.exists)
        over = await keeper.stop(place, 0.2)
        assert isinstance(over, CommandEnded), over
        alive.unlink(missing_ok=True)
        return {"signal": over.signal, "stopped": over.stopped, "left": _processes_in(self.workspace)}


def _processes_in(folder: Path) -> list[int]:
    """The processes with this working directory."""
    found = []
    for process in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            if (process / "cwd").readlink() == folder:
                found.append(int(process.name))
    return found


@contextmanager
def _surroundings(folder: Path) -> Iterator[dict[str, Any]]:
    """What a command could reach outside: sockets, a port, and a process with a secret in its environment."""
    path, name = str(folder / "docker.sock"), f"perdure-test-{os.getpid()}"
    with (
        _listening(socket.AF_UNIX, path),
        _listening(socket.AF_UNIX, f"\0{name}"),
        _listening(socket.AF_INET, ("127.0.0.1", 0)) as api,
        subprocess.Popen(["/bin/sleep", "300"], env={"SECRET": SECRET}) as victim,
    ):
        facts = {"path_socket": path, "abstract_socket": name, "port": api.getsockname()[1], "victim": victim.pid}
        try:
            facts |= {"secret": SECRET, "other": str(folder / "other" / "file"), "free_port": free_port()}
            yield facts | {"own_address": _own_address()}
        finally:
            victim.kill()


def _own_address() -> str:
    """An address of this machine that others know it by, if it has one: the route to an address for examples."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking, suppress(OSError):
        asking.connect(("192.0.2.1", 9))  # of UDP: nothing is sent
        return str(asking.getsockname()[0])
    return "127.0.0.2"


def _victim_lives(pid: int) -> bool:
    return "sleep" in Path(f"/proc/{pid}/comm").read_text()


@contextmanager
def _listening(family: int, address: Any) -> Iterator[socket.socket]:
    with socket.socket(family) as server:
        server.bind(address)
        server.listen(16)
        yield server


async def _report(folder: Path, mode: str, network: str) -> dict[str, Any]:
    world = World(folder, mode, network)
    found: dict[str, Any] = {
        "layer": world.sandbox.layer,
        "network": world.sandbox.network,
        "reason": world.sandbox.reason,
    }
    found |= {"user": os.geteuid(), **await world.attempts()}
    if world.sandbox.is_on:
        limits = {name: line.format(python=world.python) for name, line in LIMIT_COMMANDS.items()}
        found["stopped"] = await world.stopped()
        found["limits"] = {name: await world.run(name.replace(" ", "-"), line) for name, line in limits.items()}
    return found


# ── worlds ──────────────────────────────────────────────────────────────────────────────────────────────────


def _python_for(user: int) -> Path:
    """A Python of this version that the user can run: root's own may be in a folder that is closed to others."""
    here = Path(sys.executable).resolve()
    if user == os.geteuid() or all(folder.stat().st_mode & 0o005 == 0o005 for folder in here.parents):
        return here
    return Path(f"/usr/bin/python3.{sys.version_info.minor}")


def run_world(name: str, mode: str = "auto", network: str = "web") -> dict[str, Any]:
    """Run this program in a world: `own` as who runs the tests, `user` as an ordinary one, or `no-namespaces`.

    `no-namespaces` refuses mounts and namespaces by a filter of the new process, as Docker does by default.
    """
    user = ORDINARY_USER if name == "user" and os.geteuid() == 0 else os.geteuid()
    folder = Path(tempfile.mkdtemp(prefix="perdure-world-")).resolve()
    try:
        if user != os.geteuid():
            os.chown(folder, user, user)
        filters = [inner_filter(os.uname().machine).hex()] if name == "no-namespaces" else []
        return _run_program(_python_for(user), user, filters, [str(folder), mode, network])
    finally:
        shutil.rmtree(folder)


def _run_program(python: Path, user: int, filters: Sequence[str], arguments: Sequence[str]) -> dict[str, Any]:
    line = [str(python), "-m", "support.sandbox_worlds", *arguments]
    reader, writer = os.pipe()
    os.write(writer, dumps({"layer": "landlock", "limits": {}, "ruleset": None, "filters": filters}).encode())
    os.close(writer)
    if filters:
        line = [str(python), "-I", "-S", str(CONFINEMENT_PROGRAM), str(reader), *line]
    paths = [str(TESTS), *(each for each in sys.path if "site-packages" in each), str(TESTS.parent / "src")]
    env = {"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(paths)}
    other: dict[str, Any] = {} if user == os.geteuid() else {"user": user, "group": user, "extra_groups": []}
    try:
        done = subprocess.run(
            line, env=env, cwd="/", capture_output=True, timeout=120 * DEADLINE_FACTOR, pass_fds=(reader,), **other
        )
    finally:
        os.close(reader)
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    report: dict[str, Any] = json.loads(done.stdout)
    return report


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.stdout.write(json.dumps(asyncio.run(_report(Path(sys.argv[1]), *sys.argv[2:]))))

"""Starts a program of the gateway's own, such as an MCP server, in the sandbox in force."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from perdure.tools.descriptor_limit import INHERITED_LIMIT
from perdure.tools.keeper.directory import dumps
from perdure.tools.sandbox.in_force import SandboxInForce

CONFINEMENT_PROGRAM = Path(__file__).parent.with_name("keeper") / "confinement.py"


class ConfinedLaunch(Struct, frozen=True):
    """What to start a process with: `subprocess`, `asyncio` and `anyio` all take these three."""

    argv: Sequence[str]
    env: Mapping[str, str]  # the whole environment
    pass_fds: Sequence[int]


@contextmanager
def confined_launch(
    sandbox: SandboxInForce,
    argv: Sequence[str],
    env: Mapping[str, str],
    workspace: Path,
    agent_home: Path,
    read: Sequence[Path] = (),
) -> Iterator[ConfinedLaunch]:
    """Say how to start a program with this workspace in the sandbox in force; start it inside of the block.

    `argv[0]` is a path, as the program is found inside: `/usr/bin/node`, or one below the workspace, `agent_home`,
    `read`, or the folders of `tools.sandbox_read`. `env` is its whole environment; `HOME`, and `TMPDIR` where it
    is needed, are added. While the sandbox is off, the program is started as it is. It always gets the limit of
    open files that the gateway inherited. The workspace must exist; `sandbox.make_folders()` makes the home.

        with confined_launch(sandbox, ["/usr/bin/server"], env, folder, folder) as launch:
            process = await anyio.open_process(launch.argv, env=launch.env, pass_fds=launch.pass_fds, cwd=folder)

    The descriptor in `pass_fds` is closed at the end of the block: the process has its own copy by then.
    """
    record = sandbox.confinement(workspace, agent_home, read) or {"layer": "off"}
    descriptor = _readable(dumps(record | {"descriptors": INHERITED_LIMIT}).encode())
    try:
        line = (sys.executable, "-I", "-S", str(CONFINEMENT_PROGRAM), str(descriptor), *argv)
        yield ConfinedLaunch(line, {**env, **sandbox.variables(agent_home)}, (descriptor,))
    finally:
        os.close(descriptor)


def _readable(content: bytes) -> int:
    descriptor = os.memfd_create("sandbox")
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor

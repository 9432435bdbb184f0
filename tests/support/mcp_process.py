"""Starts the MCP server of the tests: as a command for somebody else to run, or as a process that speaks HTTP."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import TracebackType

SERVER = str(Path(__file__).with_name("mcp_server.py"))
PRYING_COMMAND = (sys.executable, str(Path(__file__).with_name("mcp_prying_server.py")))
# What a server of the tests needs to be shown of the machine in its sandbox.
SHOWN_IN_SANDBOX = ",".join(dict.fromkeys([sys.prefix, sys.base_prefix, str(Path(__file__).parents[2])]))
ODD_COMMAND = (sys.executable, str(Path(__file__).with_name("mcp_odd_server.py")))


def stdio_command(*flags: str) -> tuple[str, ...]:
    """The command of a server over standard input and output."""
    return (sys.executable, SERVER, *flags)


class HttpServer:
    """A server over HTTP that can be killed, and started again at the same URL."""

    def __init__(self, *flags: str) -> None:
        self._flags = flags
        self._process: subprocess.Popen[str] | None = None
        self.url = ""

    def start(self) -> None:
        port = self.url.rpartition(":")[2].partition("/")[0] or "0"
        command = [*stdio_command("--port", port), *self._flags]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        assert self.url, "the MCP server did not start"

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def __enter__(self) -> HttpServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

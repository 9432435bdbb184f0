"""The configuration of an MCP server, and the tool names, effects and environment that follow from it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from perdure.core.effects import Effect
from perdure.core.printable_text import redact
from perdure.errors import ConfigurationError
from perdure.tools.sandbox import SandboxInForce

INHERITED_VARIABLES = ("PATH", "HOME", "LANG")  # of the gateway's environment, for a server's process
STARTUP_SECONDS = 10.0
MAX_NAME_CHARACTERS = 64  # of a tool, for every provider
DECLARABLE_EFFECTS = (Effect.PURE, Effect.KEYED, Effect.ONCE)


class McpSandbox(Struct, frozen=True):
    """The sandbox of a server's process, and the folder that the process has there to itself."""

    in_force: Callable[[], SandboxInForce]  # known when the gateway has started
    folder: Path


class McpServer(Struct, frozen=True):
    """One MCP server: a command that the gateway starts and talks to over pipes, or a URL."""

    name: str
    command: tuple[str, ...] | None = None
    url: str | None = None
    env: dict[str, str] = {}  # of the command, beside `INHERITED_VARIABLES`
    headers: dict[str, str] = {}  # secret
    effects: dict[str, str] = {}  # by the server's name of a tool; overrides the server's hints
    timeout: float = 120.0  # seconds that one call may take
    startup_timeout: float = STARTUP_SECONDS  # seconds that turns wait for the server to connect
    sandbox: McpSandbox | None = None  # None: its process runs as the gateway does

    def __repr__(self) -> str:
        return f"McpServer({self.name!r})"  # the rest may be secret

    @property
    def is_confined(self) -> bool:
        """Whether its process runs in a sandbox."""
        return self.sandbox is not None and self.sandbox.in_force().is_on

    def environment(self, ours: Mapping[str, str]) -> dict[str, str]:
        """The whole environment of the command."""
        return {name: ours[name] for name in INHERITED_VARIABLES if name in ours} | self.env

    def redact(self, text: str) -> str:
        """The text without the secrets of this configuration."""
        return redact(text, [*self.env.values(), *self.headers.values()])

    def effect(self, tool: str, *, harmless: bool) -> Effect:
        """The effect of a tool: declared by the operator, else by the server's hint, else `once`."""
        declared = self.effects.get(tool)
        return Effect(declared) if declared else Effect.PURE if harmless else Effect.ONCE


def tool_name(server: str, tool: str, servers: Iterable[str]) -> str:
    """The name of a tool for the model: the same at every start, whatever else is connected.

    A name that had to be changed ends in a hash of the original, so that no two become the same.
    """
    plain = f"{server}_{tool}"
    fit = re.sub(r"[^A-Za-z0-9_-]", "_", plain)
    ambiguous = any(other != server and server.startswith(f"{other}_") for other in servers)
    if fit == plain and len(fit) <= MAX_NAME_CHARACTERS and not ambiguous:
        return fit
    mark = hashlib.sha256(f"{server}\0{tool}".encode()).hexdigest()[:8]
    return f"{fit[: MAX_NAME_CHARACTERS - 1 - len(mark)]}_{mark}"


def check_servers(servers: Iterable[McpServer]) -> None:
    """Raise `ConfigurationError` with every problem in the configuration of the servers."""
    servers = list(servers)
    names = [server.name for server in servers]
    problems = [f"two MCP servers are named {name!r}" for name in sorted(set(names)) if names.count(name) > 1]
    problems += [problem for server in servers for problem in _problems(server)]
    if problems:
        raise ConfigurationError("\n".join(problems), hint="Correct what is said about these MCP servers.")


def _problems(server: McpServer) -> Iterable[str]:
    if not server.name:
        yield "an MCP server has no name"
    it = f"MCP server {server.name!r}"
    if bool(server.command) == bool(server.url):
        yield f"{it}: expected either a command or a URL, came {'both' if server.url else 'none'}"
    for name, seconds in (("timeout", server.timeout), ("startup_timeout", server.startup_timeout)):
        if seconds <= 0:
            yield f"{it}: expected a {name} above 0 seconds, came {seconds:g}"
    for tool, effect in server.effects.items():
        if effect not in DECLARABLE_EFFECTS:
            yield (
                f"{it}: expected as the effect of {tool!r} one of {', '.join(DECLARABLE_EFFECTS)}, came {effect!r}"
            )

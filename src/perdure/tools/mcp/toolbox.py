"""The toolbox with the tools of all MCP servers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec

from perdure.core.tools import Tool
from perdure.errors import ConfigurationError
from perdure.tools.mcp.reconnection import ReconnectingServer
from perdure.tools.mcp.server import McpServer, check_servers, tool_name

INSTALL_HINT = "Install the extra: pip install 'perdure[mcp]'."


class McpTools:
    """A toolbox with the tools of those servers that are connected.

    `run()` runs beside everything else. `tools()` waits for a server until its `startup_timeout` after the start
    of `run()`, and likewise after a lost connection: a dead server delays the first turns a little, and no turn
    for ever. A call to a server that is not connected waits as long, and then fails.
    """

    def __init__(self, servers: Sequence[McpServer]) -> None:
        check_servers(servers)
        if servers and find_spec("mcp") is None:
            raise ConfigurationError(
                "MCP servers are configured, but the MCP client is not installed.", hint=INSTALL_HINT
            )
        names = [server.name for server in servers]
        self._servers = {
            server.name: ReconnectingServer(server, partial(tool_name, server.name, servers=names))
            for server in servers
        }

    @property
    def problems(self) -> dict[str, str]:
        """Why servers are not connected, as sentences, by their names."""
        return {name: server.problem for name, server in self._servers.items() if server.problem}

    async def tools(self) -> Sequence[Tool]:
        """The tools of the connected servers, after a limited wait for those that are connecting."""
        await asyncio.gather(*(server.wait_until_settled() for server in self._servers.values()))
        return [tool for server in self._servers.values() for tool in server.tools()]

    async def run(self) -> None:
        """Keep every server connected until cancelled.

        After return: every process of a server has ended and is reaped, however often this was cancelled.
        If we die inside: the kernel closes the input of the processes, and they end by themselves.
        """
        if not self._servers:
            return
        for server in self._servers.values():
            server.restart_wait()
        await _load()
        from anyio import CancelScope

        scopes = {name: CancelScope() for name in self._servers}
        tasks = [asyncio.create_task(server.run(scopes[name])) for name, server in self._servers.items()]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for scope in scopes.values():
                scope.cancel()
            await _wait_for_all(tasks)
        for task in tasks:
            task.result()


async def _load() -> None:
    """Import the SDK in a thread, because it takes more than a second."""
    try:
        await asyncio.to_thread(import_module, "perdure.tools.mcp.connection")
    except ImportError as error:
        raise ConfigurationError(f"The MCP client cannot be loaded: {error}.", hint=INSTALL_HINT) from error


async def _wait_for_all(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait for the tasks to end, also when this is cancelled meanwhile; the cancellation is raised then."""
    cancelled = False
    while not all(task.done() for task in tasks):
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError

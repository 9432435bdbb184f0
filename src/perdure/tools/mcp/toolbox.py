"""The toolbox of all MCP servers."""

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

    `work()` runs beside everything else. `tools()` waits for a server until its `startup_timeout` after the
    beginning of `work()`, and likewise after a connection was lost: a dead server delays the first turns a little,
    and no turn for ever. A call of a tool whose server is not connected waits as long, and then says so.
    """

    def __init__(self, servers: Sequence[McpServer]) -> None:
        check_servers(servers)
        if servers and find_spec("mcp") is None:
            raise ConfigurationError(
                "MCP servers are configured, but the MCP client is not installed.", hint=INSTALL_HINT
            )
        names = [server.name for server in servers]
        self._links = {
            server.name: ReconnectingServer(server, partial(tool_name, server.name, servers=names))
            for server in servers
        }

    @property
    def problems(self) -> dict[str, str]:
        """Why a server is not connected, in words, by its name."""
        return {name: link.problem for name, link in self._links.items() if link.problem}

    async def tools(self) -> Sequence[Tool]:
        """The tools there are now, after a bounded wait for servers that are about to be connected."""
        await asyncio.gather(*(link.wait_until_settled() for link in self._links.values()))
        return [tool for link in self._links.values() for tool in link.tools()]

    async def run(self) -> None:
        """Keep every server connected until cancelled.

        After return: every process of ours has ended and is reaped, however often we were cancelled meanwhile.
        If we die inside: the input of the processes is closed by the kernel, and they end by themselves.
        """
        if not self._links:
            return
        for link in self._links.values():
            link.restart_wait()
        await _load()
        from anyio import CancelScope

        lives = {name: CancelScope() for name in self._links}
        tasks = [asyncio.create_task(link.run(lives[name])) for name, link in self._links.items()]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for life in lives.values():
                life.cancel()
            await _wait_for_all(tasks)
        for task in tasks:
            task.result()


async def _load() -> None:
    """Import the SDK beside the event loop: it takes more than a second."""
    try:
        await asyncio.to_thread(import_module, "perdure.tools.mcp.connection")
    except ImportError as error:
        raise ConfigurationError(f"The MCP client cannot be loaded: {error}.", hint=INSTALL_HINT) from error


async def _wait_for_all(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait for the tasks to end; whoever cancels us a second time waits, too."""
    impatient = False
    while not all(task.done() for task in tasks):
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            impatient = True
    if impatient:
        raise asyncio.CancelledError

"""Tools of MCP servers: the operator names the servers, and what they offer becomes tools of the agent."""

from __future__ import annotations

from perdure.tools.mcp.server import McpSandbox, McpServer
from perdure.tools.mcp.toolbox import McpTools

__all__ = ["McpSandbox", "McpServer", "McpTools"]

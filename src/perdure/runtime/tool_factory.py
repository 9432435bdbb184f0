"""Makes the tools of agents as the settings say: their folders, their sandbox, what asks a person, MCP servers."""

from __future__ import annotations

import tempfile
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from perdure.agents.tool_calls import CLARIFY, CLARIFY_TOOL
from perdure.config import Settings
from perdure.core import texts
from perdure.core.tools import ApprovalGuard, FixedTools, Tool, Toolbox
from perdure.errors import ConfigurationError, PerdureError
from perdure.plugins import load_entry_points, load_object
from perdure.runtime.chat_folders import ChatFolderFinder, ConversationAttachments
from perdure.runtime.process_records import DeferredProcessRecords
from perdure.tools.file_tools import send_file_tool
from perdure.tools.offline_tools import offline_tools
from perdure.tools.process_tool import process_tool
from perdure.tools.sandbox import SandboxInForce, SandboxLimits, SandboxRequest, choose_sandbox
from perdure.tools.shell import CommandEnvironment, ProcessRecords, shell_tool
from perdure.tools.tool_registry import AskingTools, AskRules, refuse_duplicate_names, refuse_unknown_tools

if TYPE_CHECKING:
    from perdure.tools.mcp import McpTools


class ToolFactory:
    """Makes the tools once for all platforms; one that cannot be loaded is an error before the gateway starts."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._boxes: dict[bool, list[Toolbox]] = {}
        self._mcp: McpTools | None = None
        self._sandbox: SandboxInForce | None = None
        self._process_records = DeferredProcessRecords()
        self._folders = ChatFolderFinder(settings)

    @property
    def problems(self) -> dict[str, str]:
        """Return what is wrong with MCP servers, by their names."""
        return self._mcp.problems if self._mcp else {}

    def prepare(self) -> None:
        """Make the directories in which the tools of agents work, and choose the sandbox of commands."""
        try:
            self._folders.prepare()
        except OSError as error:
            raise ConfigurationError(
                f"the directory for the agent's files cannot be made: {error}",
                hint="Set tools.directory to one that this user may write to.",
            ) from error
        with tempfile.TemporaryDirectory(prefix=".trial-", dir=self._settings.home) as trial:
            workspace = self._settings.shared_workspace if self._folders.shared else Path(trial)
            self._sandbox = choose_sandbox(sandbox_request(self._settings), workspace, Path(trial))

    @property
    def sandbox(self) -> SandboxInForce:
        """The sandbox in which commands run, chosen at the start of the gateway."""
        if self._sandbox is None:
            raise PerdureError("the sandbox is chosen when the gateway is started")
        return self._sandbox

    def bind_process_records(self, process_records: ProcessRecords) -> None:
        """Give the shell tools the store's records of background processes, once the store is open."""
        self._process_records.bind(process_records)

    def bind_attachments(self, attachments: ConversationAttachments) -> None:
        """Give the tools the store's records of the files of conversations, once the store is open."""
        self._folders.bind(attachments)

    async def run(self) -> None:
        """Keep the MCP servers connected for as long as the gateway runs."""
        if self._mcp is not None:
            await self._mcp.run()

    def toolboxes(self, *, offline: bool) -> list[Toolbox]:
        """Return the tools of the offline model, or those of all others."""
        if offline not in self._boxes:
            boxes = [self._offline_toolbox()] if offline else self._online_toolboxes()
            self._boxes[offline] = [AskingTools(box, self._ask_rules()) for box in boxes]
        return self._boxes[offline]

    def _ask_rules(self) -> AskRules:
        """Which tools ask before every call; `clarify` is itself a question."""
        wanted = self._settings.tools
        return AskRules(tuple(wanted.ask), every_tool=wanted.approvals == "all", never=(CLARIFY,))

    def _offline_toolbox(self) -> Toolbox:
        """Return the tools that scripts of the offline model can name."""
        work = self._workplace()
        scripted = shell_tool(
            work, self._process_records, lambda *_: texts.questions.DANGEROUS_BY_SCRIPT, "danger"
        )
        rehearsal = offline_tools(self._settings.home / "rehearsal.log")
        return FixedTools([*rehearsal, *self._shell_tools(), scripted, self._send_file_tool()])

    def _shell_tools(self) -> list[Tool]:
        work = self._workplace()
        return [
            shell_tool(work, self._process_records, self._approval_guard()),
            process_tool(work.keepers, self._process_records),
        ]

    def _send_file_tool(self) -> Tool:
        settings = self._settings
        return send_file_tool(self._folders.find, settings.home, settings.max_attachment_bytes)

    def _workplace(self) -> CommandEnvironment:
        settings = self._settings
        return CommandEnvironment(
            settings.home / "keepers",
            self._folders.find,
            lambda: self.sandbox,
            tuple(settings.tools.env),
            settings.tools.timeout,
        )

    def _approval_guard(self) -> ApprovalGuard | None:
        """Return the guard that says which shell commands wait for a person: without a sandbox, all."""
        guard = self._policy_guard()
        if guard is None:
            return None
        return lambda arguments, use: (
            guard(arguments, use) if self.sandbox.is_on else texts.sandbox.EVERY_COMMAND_ASKS
        )

    def _policy_guard(self) -> ApprovalGuard | None:
        """Return the guard by the settings."""
        wanted = self._settings.tools
        match wanted.approvals:
            case "off":
                return None
            case "all":
                return lambda *_: texts.questions.EVERY_COMMAND
            case _:
                from perdure.tools.shell_policy.policy import (  # only who has a shell needs it
                    ShellPolicy,
                    assess_command,
                    make_policy,
                )

                @lru_cache(maxsize=100)
                def policy_in(workspace: Path) -> ShellPolicy:
                    return make_policy(wanted.dangerous, wanted.safe, writable_folders=[str(workspace)])

                return lambda arguments, key: (
                    assess_command(
                        str(arguments.get("command", "")), policy_in(self._folders.workspace(key))
                    ).reason
                )

    def _online_toolboxes(self) -> list[Toolbox]:
        from perdure.tools.fetch import fetch_tool  # the offline model needs none of these
        from perdure.tools.file_tools import file_tools

        settings = self._settings
        tools = [
            CLARIFY_TOOL,
            *self._shell_tools(),
            *file_tools(self._folders.find, settings.home),
            self._send_file_tool(),
        ]
        tools += [fetch_tool(allow_private=settings.tools.private_addresses), *self._plugin_tools()]
        refuse_duplicate_names(tools)
        refuse_unknown_tools(settings.tools.ask, tools, settings.tools.mcp)
        return [FixedTools(tools), *self._mcp_toolboxes()]

    def _plugin_tools(self) -> list[Tool]:
        """Return the tools that the configuration names, and those that installed packages bring."""
        from perdure.tools.function_tools import as_tool

        found = {name: load_object(name, self._settings.home) for name in self._settings.tools.load}
        return [as_tool(each, name) for name, each in (found | load_entry_points("perdure.tools")).items()]

    def _mcp_toolboxes(self) -> list[Toolbox]:
        servers = self._settings.tools.mcp
        if not servers:
            return []
        from perdure.tools.mcp import McpSandbox, McpServer, McpTools

        self._mcp = McpTools(
            [
                McpServer(
                    name,
                    tuple(server.command) or None,
                    server.url,
                    server.env,
                    server.headers,
                    dict(server.effects),
                    server.timeout,
                    server.startup_timeout,
                    McpSandbox(lambda: self.sandbox, self._settings.home / "mcp" / name)
                    if server.sandbox
                    else None,
                )
                for name, server in servers.items()
            ]
        )
        return [self._mcp]


def sandbox_request(settings: Settings) -> SandboxRequest:
    """The sandbox that the settings ask for."""
    tools, home = settings.tools, settings.home
    return SandboxRequest(
        tools.sandbox,
        tools.sandbox_network,
        SandboxLimits(tools.sandbox_memory, tools.sandbox_processes, tools.sandbox_file_size),
        home,
        settings.web.port,
        tuple(home / path for path in tools.sandbox_read),
        tuple(home / path for path in tools.sandbox_write),
    )

"""Makes the agent of each platform, with its model and its tools, as the settings say."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from perdure.agents.api import Agent, Model
from perdure.agents.builtin_agent import Bounds, BuiltinAgent
from perdure.agents.offline_model import OfflineModel
from perdure.agents.tool_calls import CLARIFY, CLARIFY_TOOL
from perdure.config import Settings
from perdure.config.sandbox_request import sandbox_request
from perdure.core import texts
from perdure.core.tools import ApprovalGuard, FixedTools, Tool, Toolbox
from perdure.errors import ConfigurationError, PerdureError
from perdure.logs import Log
from perdure.plugins import load_entry_points, load_object
from perdure.runtime.chat_folders import ChatFolderFinder, ConversationAttachments
from perdure.runtime.process_records import DeferredProcessRecords
from perdure.runtime.tasks import FailureLog
from perdure.tools.offline_tools import offline_tools
from perdure.tools.process_records import ProcessRecords
from perdure.tools.process_tool import process_tool
from perdure.tools.sandbox import SandboxInForce, choose_sandbox
from perdure.tools.send_file import send_file_tool
from perdure.tools.shell import CommandEnvironment, shell_tool
from perdure.tools.tool_approvals import AskingTools, AskRules, refuse_unknown_tools
from perdure.tools.tool_registry import ToolRegistry, refuse_duplicate_names

if TYPE_CHECKING:
    from perdure.tools.mcp import McpTools

OFFLINE_MODEL = "offline"


class AgentFactory:
    """Makes one agent per platform; a missing key, model or tool is an error before the gateway starts."""

    def __init__(
        self,
        settings: Settings,
        platforms: Iterable[str],
        custom_agent: Agent | None = None,
        wrap_model: Callable[[Model], Model] = lambda model: model,
    ) -> None:
        self._settings = settings
        self._wrap_model = wrap_model
        self._models: dict[str, Model] = {}
        self._boxes: dict[bool, list[Toolbox]] = {}
        self._mcp: McpTools | None = None
        self._sandbox: SandboxInForce | None = None
        self._process_records = DeferredProcessRecords()
        self._folders = ChatFolderFinder(settings)
        custom_agent = custom_agent or self._load_custom_agent()
        self._agents_by_platform = {platform: custom_agent or self._built_in(platform) for platform in platforms}

    def agent_for(self, platform: str) -> Agent:
        return self._agents_by_platform[platform]

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

    async def close(self) -> None:
        """Close the connections to the providers of models."""
        for name, model in self._models.items():
            await FailureLog(Log("agent_factory")).contain("model_not_closed", model.close(), model=name)

    async def run(self) -> None:
        """Keep the MCP servers connected for as long as the gateway runs."""
        if self._mcp is not None:
            await self._mcp.run()

    def _load_custom_agent(self) -> Agent | None:
        name = self._settings.agent.entrypoint
        if name is None:
            return None
        from perdure.agents.custom.entrypoint import as_agent  # only who has an agent of their own needs it

        return as_agent(load_object(name, self._settings.home), name)

    def _built_in(self, platform: str) -> BuiltinAgent:
        settings, here = self._settings, self._settings.platform(platform)
        name = here.model or settings.model.name
        chosen = settings.agent.tools if here.tools is None else here.tools
        prompt = settings.agent.system_prompt if here.system_prompt is None else here.system_prompt
        bounds = Bounds(
            max_steps=settings.agent.max_steps,
            max_tokens=settings.agent.max_tokens,
            max_result_chars=settings.tools.result_limit,
            call_timeout_seconds=settings.tools.timeout,
        )
        tools = ToolRegistry(self._toolboxes(offline=name == OFFLINE_MODEL), chosen)
        surroundings = partial(self._command_prompt, chosen)
        return BuiltinAgent(
            self._model(name), tools, system_prompt=prompt, surroundings=surroundings, bounds=bounds
        )

    def _command_prompt(self, chosen: Sequence[str]) -> str:
        """What the model is told of its commands, if it has a shell."""
        return self.sandbox.prompt if any(fnmatchcase("shell", pattern) for pattern in chosen) else ""

    def _model(self, name: str) -> Model:
        if name not in self._models:
            self._models[name] = self._wrap_model(self._open_model(name))
        return self._models[name]

    def _open_model(self, name: str) -> Model:
        wanted = self._settings.model
        if name == OFFLINE_MODEL:
            return OfflineModel(wanted.context)
        # Imported here because the import takes seconds, and only a gateway with a provider needs it.
        from perdure.agents.providers.models import open_model

        # Address and key belong to the provider of `model.name`; a platform may have a model of another one.
        same = name.partition(":")[0] == wanted.name.partition(":")[0]
        return open_model(
            name,
            base_url=wanted.base_url if same else None,
            api_key=wanted.api_key if same else None,
            window=wanted.context,
            timeout=wanted.timeout,
            silence=wanted.silence,
        )

    # ── tools ───────────────────────────────────────────────────────────────────────────────────────────────

    def _toolboxes(self, *, offline: bool) -> list[Toolbox]:
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

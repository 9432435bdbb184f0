"""Who answers on which platform, with which model and which tools: agents made as the settings say."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from perdure.agents.api import Agent, Model
from perdure.agents.builtin_agent import Bounds, BuiltinAgent
from perdure.agents.offline_model import OfflineModel
from perdure.agents.tool_calls import CLARIFY_TOOL
from perdure.config import Settings
from perdure.core import texts
from perdure.core.tools import ApprovalGuard, FixedTools, Tool, Toolbox
from perdure.errors import ConfigurationError
from perdure.logs import Log
from perdure.plugins import load_entry_points, load_object
from perdure.runtime.process_records import DeferredProcessRecords
from perdure.runtime.tasks import FailureLog
from perdure.tools.chat_folders import ChatFolders
from perdure.tools.offline_tools import offline_tools
from perdure.tools.process_records import ProcessRecords
from perdure.tools.process_tool import process_tool
from perdure.tools.send_file import send_file_tool
from perdure.tools.shell import CommandEnvironment, shell_tool
from perdure.tools.tool_registry import ToolRegistry, refuse_duplicate_names

if TYPE_CHECKING:
    from perdure.tools.mcp import McpTools

OFFLINE_MODEL = "offline"


class AgentFactory:
    """One agent per platform. Whatever is missing for one of them is told before anything starts."""

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
        self._process_records = DeferredProcessRecords()
        custom_agent = custom_agent or self._load_custom_agent()
        self._agents_by_platform = {platform: custom_agent or self._built_in(platform) for platform in platforms}

    def agent_for(self, platform: str) -> Agent:
        return self._agents_by_platform[platform]

    @property
    def problems(self) -> dict[str, str]:
        """What is wrong with servers of tools, by name."""
        return self._mcp.problems if self._mcp else {}

    def prepare(self) -> None:
        """Make the directory in which the agent works."""
        try:
            self._settings.workspace.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(
                f"the directory for the agent's files cannot be made: {error}",
                hint="Set tools.directory to one that this user may write to.",
            ) from error

    def bind_process_records(self, process_records: ProcessRecords) -> None:
        """Say where processes in the background are on record."""
        self._process_records.bind(process_records)

    async def close(self) -> None:
        """Let go of the providers' connections."""
        for name, model in self._models.items():
            await FailureLog(Log("agent_factory")).contain("model_not_closed", model.close(), model=name)

    async def run(self) -> None:
        """Keep the servers of tools connected."""
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
        return BuiltinAgent(self._model(name), tools, system_prompt=prompt, bounds=bounds)

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
            self._boxes[offline] = [self._offline_toolbox()] if offline else self._online_toolboxes()
        return self._boxes[offline]

    def _offline_toolbox(self) -> Toolbox:
        """The tools of the offline model, which knows no others."""
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
        return send_file_tool(settings.workspace, settings.home, settings.max_attachment_bytes)

    def _workplace(self) -> CommandEnvironment:
        settings = self._settings
        folders = ChatFolders(settings.workspace, settings.home)
        return CommandEnvironment(
            settings.home / "keepers", lambda _: folders, tuple(settings.tools.env), settings.tools.timeout
        )

    def _approval_guard(self) -> ApprovalGuard | None:
        """Which commands wait for a person's approval."""
        wanted = self._settings.tools
        match wanted.approvals:
            case "off":
                return None
            case "all":
                return lambda *_: texts.questions.EVERY_COMMAND
            case _:
                from perdure.tools.shell_policy.policy import (  # only who has a shell needs it
                    assess_command,
                    make_policy,
                )

                known = make_policy(
                    wanted.dangerous, wanted.safe, writable_folders=[str(self._settings.workspace)]
                )
                return lambda arguments, _: assess_command(str(arguments.get("command", "")), known).reason

    def _online_toolboxes(self) -> list[Toolbox]:
        from perdure.tools.fetch import fetch_tool  # the offline model needs none of these
        from perdure.tools.file_tools import file_tools

        settings = self._settings
        tools = [
            CLARIFY_TOOL,
            *self._shell_tools(),
            *file_tools(settings.workspace, settings.home),
            self._send_file_tool(),
        ]
        tools += [fetch_tool(allow_private=settings.tools.private_addresses), *self._plugin_tools()]
        refuse_duplicate_names(tools)
        return [FixedTools(tools), *self._mcp_toolboxes()]

    def _plugin_tools(self) -> list[Tool]:
        """Tools of the operator's own, and those that installed packages bring."""
        from perdure.tools.function_tools import as_tool

        found = {name: load_object(name, self._settings.home) for name in self._settings.tools.load}
        return [as_tool(each, name) for name, each in (found | load_entry_points("perdure.tools")).items()]

    def _mcp_toolboxes(self) -> list[Toolbox]:
        servers = self._settings.tools.mcp
        if not servers:
            return []
        from perdure.tools.mcp import McpServer, McpTools

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
                )
                for name, server in servers.items()
            ]
        )
        return [self._mcp]

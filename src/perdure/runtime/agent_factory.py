"""Makes the agent of each platform, with its model and its tools, as the settings say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from functools import partial

from perdure.agents.api import Agent, Model
from perdure.agents.builtin_agent import Bounds, BuiltinAgent
from perdure.agents.offline_model import OfflineModel
from perdure.config import Settings
from perdure.logs import Log
from perdure.plugins import load_object
from perdure.runtime.tasks import FailureLog
from perdure.runtime.tool_factory import ToolFactory
from perdure.tools.tool_registry import ToolRegistry

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
        self.tools = ToolFactory(settings)
        custom_agent = custom_agent or self._load_custom_agent()
        self._agents_by_platform = {platform: custom_agent or self._built_in(platform) for platform in platforms}

    def agent_for(self, platform: str) -> Agent:
        return self._agents_by_platform[platform]

    async def close(self) -> None:
        """Close the connections to the providers of models."""
        for name, model in self._models.items():
            await FailureLog(Log("agent_factory")).contain("model_not_closed", model.close(), model=name)

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
        tools = ToolRegistry(self.tools.toolboxes(offline=name == OFFLINE_MODEL), chosen)
        surroundings = partial(self._command_prompt, chosen)
        return BuiltinAgent(
            self._model(name), tools, system_prompt=prompt, surroundings=surroundings, bounds=bounds
        )

    def _command_prompt(self, chosen: Sequence[str]) -> str:
        """What the model is told of its commands, if it has a shell."""
        return self.tools.sandbox.prompt if any(fnmatchcase("shell", pattern) for pattern in chosen) else ""

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

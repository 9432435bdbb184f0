"""A loop around the same libraries, with the same requests, that keeps conversations in memory only.

No gateway, no store, nothing that survives. With the libraries as they come, it is what somebody would write
without us; over our own way to providers, it is the limit of what a gateway of ours can reach.
"""

from __future__ import annotations

from httpx2 import AsyncClient, Limits
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

from bench.turns_crowd import Talk
from bench.turns_tool import look
from perdure.agents.api import Model, ModelRequest, PreviewCallback
from perdure.agents.providers.models import ProviderModel, open_model
from perdure.core import texts
from perdure.core.conversation import AssistantMessage, Message, ToolMessage, UserMessage
from perdure.core.tools import Use


def _our_way(url: str) -> Model:
    return open_model("openai:constant", base_url=url, api_key="local-key")


def _as_they_come(url: str) -> Model:
    client = AsyncClient(limits=Limits(max_connections=None, max_keepalive_connections=100))
    provider = OpenAICompatibleProvider("openai", base_url=url, api_key="local-key", http_client=client)
    return ProviderModel("openai:constant", OpenAIChatModel("constant", provider=provider), client=client)


class BareLoop:
    """Asks the model, makes the calls it wishes for, asks again."""

    def __init__(self, url: str, *, streamed: bool, our_way: bool = False) -> None:
        self.model: Model = _our_way(f"{url}/v1") if our_way else _as_they_come(f"{url}/v1")
        self._hear: PreviewCallback | None = _hear if streamed else None

    def begin(self, chat: str) -> Talk:
        return _Chat(self)

    async def answer(self, messages: list[Message]) -> str:
        step, earlier = 0, len(messages)
        while True:
            step += 1
            request = ModelRequest(messages, step, earlier, texts.agents.SYSTEM_PROMPT, (look.tool,))
            answered = await self.model.respond(request, self._hear)
            messages.append(AssistantMessage(answered.text, answered.calls))
            if not answered.calls:
                return answered.text
            for call in answered.calls:
                result = await look.tool.run(Use(call.arguments, call.id))
                messages.append(ToolMessage(call.id, call.tool, result, "ok"))


class _Chat:
    def __init__(self, loop: BareLoop) -> None:
        self._loop = loop
        self._messages: list[Message] = []

    async def say(self, text: str) -> str:
        self._messages.append(UserMessage(text))
        return await self._loop.answer(self._messages)

    async def leave(self) -> None: ...


def _hear(text: str) -> None:
    """Somebody hears the answer grow, and does nothing about it."""

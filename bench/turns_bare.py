"""The limit: a loop around the same SDKs, with the same requests, that keeps conversations in memory only.

No gateway, no store, nothing that survives: whoever calls this model through these libraries pays at least this.
"""

from __future__ import annotations

from bench.turns_crowd import Talk
from bench.turns_tool import look
from perdure.agents.api import Hear, Model, ModelRequest
from perdure.agents.models import open_model
from perdure.core.conversation import AssistantMessage, Message, ToolMessage, UserMessage
from perdure.core.notes import SYSTEM_PROMPT
from perdure.core.tools import Use


class BareLoop:
    """Asks the model, makes the calls it wishes for, asks again."""

    def __init__(self, url: str, *, streamed: bool) -> None:
        self.model: Model = open_model("openai:constant", base_url=f"{url}/v1", api_key="local-key")
        self._hear: Hear | None = _hear if streamed else None

    def begin(self, chat: str) -> Talk:
        return _Chat(self)

    async def answer(self, messages: list[Message]) -> str:
        step, earlier = 0, len(messages)
        while True:
            step += 1
            request = ModelRequest(messages, step, earlier, SYSTEM_PROMPT, (look.tool,))
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

"""Real models of pydantic-ai, connected to a local provider, and what one hears from them."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from perdure.testing.providers import LocalProvider

# To read the certificates of this machine, which nobody shows us here, would take longer than the test.
EMPTY_TLS_CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

# Few tokens, because Anthropic's client asks for a stream by itself when many could make the answer last long.
SETTINGS: ModelSettings = {"max_tokens": 1000, "max_retries": 0}


@asynccontextmanager
async def connect(
    provider: LocalProvider, api: str, *, name: str = "local", key: str | None = None
) -> AsyncIterator[Model[Any]]:
    """A model that talks to the provider in the words of the API."""
    shown = provider.key if key is None else key
    async with httpx2.AsyncClient(verify=EMPTY_TLS_CONTEXT, timeout=60) as client:
        if api == "openai":
            yield OpenAIChatModel(name, provider=OpenAIProvider(provider.openai_url, shown, http_client=client))
        else:
            service = AnthropicProvider(base_url=provider.anthropic_url, api_key=shown, http_client=client)
            yield AnthropicModel(name, provider=service)


def offer_tools(*tools: str) -> ModelRequestParameters:
    """Tools on offer, each taking whatever it is given."""
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    return ModelRequestParameters(
        function_tools=[ToolDefinition(name=tool, parameters_json_schema=schema) for tool in tools]
    )


def prompt(text: str = "hello") -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(text)])


@asynccontextmanager
async def streaming(
    model: Model[Any], messages: Sequence[ModelMessage] = (), tools: ModelRequestParameters | None = None
) -> AsyncIterator[StreamedResponse]:
    """The answer as a stream."""
    async with model.request_stream(list(messages) or [prompt()], SETTINGS, tools or offer_tools()) as stream:
        yield stream


async def ask(
    model: Model[Any],
    messages: Sequence[ModelMessage] = (),
    tools: ModelRequestParameters | None = None,
    *,
    streamed: bool = False,
) -> ModelResponse:
    """The whole answer, however it comes."""
    if not streamed:
        return await model.request(list(messages) or [prompt()], SETTINGS, tools or offer_tools())
    async with streaming(model, messages, tools) as stream:
        async for _ in stream:
            pass
        return stream.get()


def event_text(event: ModelResponseStreamEvent) -> str:
    """The text that an event of a stream brings."""
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""


async def collect_text(stream: StreamedResponse, heard: list[str]) -> None:
    """Note the pieces of text as they come, so that they are known even if the stream fails."""
    async for event in stream:
        heard += filter(None, [event_text(event)])


def text(answer: ModelResponse) -> str:
    return "".join(part.content for part in answer.parts if isinstance(part, TextPart))


def calls(answer: ModelResponse) -> list[ToolCallPart]:
    return [part for part in answer.parts if isinstance(part, ToolCallPart)]

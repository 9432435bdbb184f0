"""A provider that says given bytes, and two clients for it: ours, and the one of the provider's own library.

The libraries are the judges of our clients: both must make the same requests, and read the same from every answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
import msgspec
from msgspec import Struct
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

from perdure.agents.api import ModelRequest
from perdure.agents.providers.models import ProviderModel, open_model
from perdure.agents.providers.responses import Block, load_blocks
from perdure.core.conversation import UserMessage
from perdure.core.journal import ModelAnswered
from perdure.errors import ContextTooLong, ModelCallFailed
from support.models import EMPTY_TLS_CONTEXT
from support.wire_provider import WireProvider

API_KEY = "a-local-key"
HELLO = ModelRequest([UserMessage("hello")], 1)


class Reading(Struct, frozen=True):
    """What a client made of an answer."""

    text: str | None = None
    calls: tuple[Any, ...] = ()
    finish: str | None = None
    usage: Any = None
    blocks: list[Block] | None = None  # what goes back to the provider word for word
    failure: tuple[Any, ...] | None = None


def http_answer(body: Any, *, status: int = 200, headers: str = "", streamed: bool = False) -> bytes:
    """The bytes of an answer: JSON, or a list of events."""
    if streamed:
        content = b"".join(_event(each) for each in body)
    else:
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
    kind = "text/event-stream" if streamed else "application/json"
    head = f"HTTP/1.1 {status} Said\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n"
    return f"{head}{headers}Connection: close\r\n\r\n".encode() + content


def _event(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    name = f"event: {value['type']}\n".encode() if "type" in value else b""
    return name + b"data: " + msgspec.json.encode(value) + b"\n\n"


@asynccontextmanager
async def our_client(url: str, api: str, model: str) -> AsyncIterator[ProviderModel]:
    opened = open_model(f"{api}:{model}", base_url=url, api_key=API_KEY)
    yield opened
    await opened.close()


@asynccontextmanager
async def library_client(url: str, api: str, model: str) -> AsyncIterator[ProviderModel]:
    async with httpx2.AsyncClient(verify=EMPTY_TLS_CONTEXT, timeout=60) as http:
        made: Model[Any]
        if api == "openai":
            service = OpenAICompatibleProvider("openai", base_url=url, api_key=API_KEY, http_client=http)
            made = OpenAIChatModel(model, provider=service)
        else:
            claude = AnthropicProvider(base_url=url, api_key=API_KEY, http_client=http)
            made = AnthropicModel(model, provider=claude)
        yield ProviderModel(f"{api}:{model}", made)


class JudgedProvider(WireProvider):
    """Says the same bytes to every request, or "ok"; both clients of a model stay open."""

    def __init__(self) -> None:
        super().__init__()
        self.said: bytes | None = None
        self._loop = asyncio.Runner()
        self._open = AsyncExitStack()
        self._clients: dict[tuple[str, str], list[ProviderModel]] = {}

    def __exit__(self, *error: Any) -> None:
        self._loop.run(self._open.aclose())
        self._loop.close()
        super().__exit__(*error)

    def answer(self, path: str, body: dict[str, Any]) -> bytes:
        said = super().answer(path, body)
        return said if self.said is None else self.said

    def base_url(self, api: str) -> str:
        return self.openai_url if api == "openai" else self.anthropic_url

    def read_by_both(self, api: str, said: bytes, *, streamed: bool) -> list[Reading]:
        """What our client and the library's read of these bytes, in this order."""
        self.said = said
        return self._loop.run(self._read(api, streamed))

    def requested_by_both(
        self, api: str, model: str, request: ModelRequest, *, streamed: bool
    ) -> list[dict[str, Any]]:
        """The bodies of the requests that our client and the library's make, in this order."""
        self.said = None
        self.requests.clear()
        self._loop.run(self._request(api, model, request, streamed))
        return self.requests

    async def _both(self, api: str, model: str) -> list[ProviderModel]:
        if (api, model) not in self._clients:
            made = [our_client(self.base_url(api), api, model), library_client(self.base_url(api), api, model)]
            self._clients[api, model] = [await self._open.enter_async_context(each) for each in made]
        return self._clients[api, model]

    async def _request(self, api: str, model: str, request: ModelRequest, streamed: bool) -> None:
        for client in await self._both(api, model):
            await client.respond(request, (lambda text: None) if streamed else None)

    async def _read(self, api: str, streamed: bool) -> list[Reading]:
        return [await _reading(client, api, streamed) for client in await self._both(api, "local")]


async def _reading(client: ProviderModel, api: str, streamed: bool) -> Reading:
    try:
        answered: ModelAnswered = await client.respond(HELLO, (lambda text: None) if streamed else None)
    except ModelCallFailed as error:
        return Reading(failure=(error.message, error.status, error.again, error.wait, error.broke_off))
    except ContextTooLong as error:
        return Reading(failure=("too long", error.fits))
    blocks = load_blocks(answered.native, api, len(answered.calls))
    return Reading(answered.text, answered.calls, answered.finish, answered.usage, blocks)

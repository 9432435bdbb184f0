"""Models of real providers: opens the client that speaks with each, and keeps what is learnt of its model.

OpenAI's and Anthropic's APIs are spoken by clients of our own; every other provider is asked through pydantic-ai,
which is imported only then.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from perdure.agents.api import ModelRequest, PreviewCallback
from perdure.agents.providers import anthropic_messages, openai_chat
from perdure.agents.providers.api_client import ApiClient
from perdure.agents.providers.client import (
    MAX_ANSWER_CHARS,
    LoadedImage,
    ModelClient,
    RequestTooLong,
    load_images,
    visible_images,
)
from perdure.agents.providers.failures import environment_secrets
from perdure.agents.providers.http_client import ProviderHttp, check_address
from perdure.agents.providers.window_probe import ModelWindow, WindowProbe
from perdure.core import texts
from perdure.core.context_window import KnownWindow
from perdure.core.journal import ModelAnswered
from perdure.errors import ConfigurationError, ModelCallFailed

if TYPE_CHECKING:
    from pydantic_ai.models import Model as LibraryModel

DEFAULT_WINDOW_TOKENS = 128_000  # of an unknown model
IMAGE_REFUSAL_STATUSES = (400, 404, 413, 415, 422)  # of providers that do not take a picture
OPENAI_KINDS = ("openai", "openai-chat")
OUR_EXTRAS = {"openai-responses": "perdure[openai]"}  # which also say the versions that we know
LIBRARY_COMMAND = re.compile(r"pip install \"?'?([\w\[\]-]+)")  # in the words of a library that misses another


class ProviderModel:
    """A model behind the HTTP API of a provider."""

    def __init__(
        self,
        name: str,
        client: ModelClient | LibraryModel[Any],
        *,
        window: int | None = None,
        timeout: float = 600.0,
        silence: float = 120.0,
        window_probe: WindowProbe | None = None,
    ) -> None:
        """`client` is closed with the model; a model of pydantic-ai gets its client here.

        `window_probe` asks the server for its context window.
        """
        self.name = name
        self._client = client if isinstance(client, ModelClient) else _library_client(client)
        tokens = window or self._client.context_window or DEFAULT_WINDOW_TOKENS
        self._window = ModelWindow(KnownWindow(tokens, configured=window is not None), window_probe)
        self._timeout = timeout
        self._silence = silence
        self._refused_images: set[str] = set()  # paths of pictures that the model refused

    @property
    def window(self) -> int:
        return self._window.tokens

    async def close(self) -> None:
        """Close every connection."""
        await self._client.close()

    async def respond(self, request: ModelRequest, show_preview: PreviewCallback | None = None) -> ModelAnswered:
        await self._window.check(request)
        answer = await self._respond(request, show_preview)
        if len(answer.text) < MAX_ANSWER_CHARS:  # a longer answer was truncated here
            self._window.learn_from_answer(request, answer)
        return answer

    async def _respond(self, request: ModelRequest, show_preview: PreviewCallback | None) -> ModelAnswered:
        silence = self._timeout if show_preview is None else self._silence
        while True:
            images = await self._load_images(request)
            try:
                async with asyncio.timeout(self._timeout):
                    return await self._client.ask(request, images, show_preview, silence)
            except TimeoutError as error:
                late = texts.agents.provider_timed_out_after(self._timeout)
                raise ModelCallFailed(texts.agents.PROVIDER_TIMED_OUT, said=late, again=False) from error
            except RequestTooLong as error:
                raise await self._window.learn_from_refusal(request, error.refusal) from error
            except ModelCallFailed as error:
                if not images or error.status not in IMAGE_REFUSAL_STATUSES:
                    raise
                self._refused_images |= set(images)  # the request is made again, without pictures

    async def _load_images(self, request: ModelRequest) -> dict[str, LoadedImage]:
        """Load the pictures of a request, without those that were refused before."""
        wanted = visible_images(request.messages, self._refused_images)
        return await asyncio.to_thread(load_images, wanted) if wanted else {}


def _library_client(model: LibraryModel[Any]) -> ModelClient:
    from perdure.agents.providers.library_client import LibraryClient  # loads pydantic-ai, which takes seconds

    return LibraryClient(model)


# ── opening ─────────────────────────────────────────────────────────────────────────────────────────────────


def open_model(
    name: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    window: int | None = None,
    timeout: float = 600.0,
    silence: float = 120.0,
) -> ProviderModel:
    """Open the model `provider:model`; `ConfigurationError` says what is missing."""
    kind, _, model = name.partition(":")
    secrets = [api_key or "", *environment_secrets()]
    probe: WindowProbe | None = None
    client: ModelClient
    if kind in OPENAI_KINDS and model:
        http = ProviderHttp()
        key = _openai_key(name, base_url, api_key)
        url = _address("OPENAI_BASE_URL", base_url, openai_chat.BASE_URL)
        stored_name = kind if base_url else "openai"
        client = ApiClient(openai_chat.OpenAIChatApi(model, url, key, stored_name), http, secrets)
        if base_url is not None:  # a server of one's own; the windows of a service's models are known
            probe = WindowProbe(http, base_url, model, {"Authorization": f"Bearer {key}"})
    elif kind == "anthropic" and model:
        key = _key(name, "ANTHROPIC_API_KEY", api_key)
        url = _address("ANTHROPIC_BASE_URL", base_url, anthropic_messages.BASE_URL)
        client = ApiClient(anthropic_messages.AnthropicApi(model, url, key), ProviderHttp(), secrets)
    else:
        client = _open_library_client(name, base_url, api_key, secrets)
    return ProviderModel(name, client, window=window, timeout=timeout, silence=silence, window_probe=probe)


def _address(variable: str, base_url: str | None, usual: str) -> str:
    url = base_url or os.environ.get(variable) or usual
    check_address(url)
    return url


def _openai_key(name: str, base_url: str | None, api_key: str | None) -> str:
    is_other = base_url or os.environ.get("OPENAI_BASE_URL")
    return _key(name, "OPENAI_API_KEY", api_key, "none" if is_other else "")  # many local servers need none


def _key(name: str, variable: str, api_key: str | None, usual: str = "") -> str:
    key = (api_key or os.environ.get(variable) or usual).strip()
    hint = f"Set model.api_key, or {variable} in the environment."
    if not key:
        raise ConfigurationError(f"the model {name!r} needs a key, and there is none", hint=hint)
    if not (key.isascii() and key.isprintable()):
        raise ConfigurationError(f"the key of the model {name!r} has characters that no key has", hint=hint)
    return key


def _open_library_client(
    name: str, base_url: str | None, api_key: str | None, secrets: Sequence[str]
) -> ModelClient:
    """A client of a provider that only pydantic-ai knows."""
    try:
        import_module("pydantic_ai")  # first, so that it is what is named if it is missing
        from perdure.agents.providers.library_client import open_library_client

        return open_library_client(name, base_url, api_key, secrets)
    except ImportError as error:
        missing = getattr(error.__cause__, "name", None) or error.name or "pydantic_ai"
        named = LIBRARY_COMMAND.search(str(error))
        kind = name.partition(":")[0]
        wanted = named[1] if named else OUR_EXTRAS.get(kind) or f"pydantic-ai-slim[{kind}]"
        raise ConfigurationError(
            f"the model {name!r} needs a library that is not installed: {missing}",
            hint=f"Install it: pip install '{wanted}'",
        ) from error

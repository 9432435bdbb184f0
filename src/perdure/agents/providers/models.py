"""Calls the language models of real providers through pydantic-ai.

It is imported only when a provider is configured, because the libraries beneath it take seconds to load. Their own
retries are off: a failed call leaves nothing behind, so the agent retries it, and journals each failure. Only
complete answers count.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import httpx2
from httpx2 import AsyncClient
from pydantic_ai import exceptions as failures
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.messages import ModelResponse, PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta
from pydantic_ai.models import Model as Provider
from pydantic_ai.models import ModelRequestParameters, StreamedResponse, infer_model
from pydantic_ai.providers import Provider as AnyProvider
from pydantic_ai.providers import infer_provider_class
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from perdure.agents.api import ModelRequest, PreviewCallback
from perdure.agents.providers.completeness import incomplete_answer_error, response_with_end_mark, watch_streams
from perdure.agents.providers.message_codec import (
    LoadedImage,
    load_images,
    to_model_answered,
    to_provider_messages,
    visible_images,
)
from perdure.agents.providers.transport import ANSWER_LIMITS, open_client
from perdure.agents.providers.window_probe import ModelWindow, WindowProbe
from perdure.core import texts
from perdure.core.context_window import ContextRefusal, KnownWindow, parse_refusal
from perdure.core.journal import ModelAnswered
from perdure.core.printable_text import redact
from perdure.errors import ConfigurationError, ModelCallFailed
from perdure.http_limits import bound_answers

if TYPE_CHECKING:
    from openai import AsyncOpenAI

DEFAULT_WINDOW_TOKENS = 128_000  # of an unknown model
IMAGE_REFUSAL_STATUSES = (400, 404, 413, 415, 422)  # of providers that do not take a picture
MAX_ERROR_CHARS = 300  # of a provider's own words
MAX_ANSWER_CHARS = 400_000  # a longer answer is not read further

RETRYABLE_ERRORS = (
    failures.ModelRateLimitError,
    failures.ModelUnavailableError,
    failures.ModelServerError,
    failures.ModelConnectionError,
)
CONNECT_ERRORS = (httpx2.ConnectError, httpx2.ConnectTimeout)  # nothing was sent


class ProviderModel:
    """A model behind the HTTP API of a provider."""

    def __init__(
        self,
        name: str,
        provider: Provider,
        *,
        window: int | None = None,
        timeout: float = 600.0,
        silence: float = 120.0,
        client: AsyncClient | None = None,
        secrets: Sequence[str] = (),
        window_probe: WindowProbe | None = None,
    ) -> None:
        """`client` carries the provider's requests, and is closed with the model.

        `window_probe` asks the server for its context window. `secrets` are removed from the provider's error
        messages: some of them repeat the key.
        """
        self.name = name
        known = KnownWindow(
            window or provider.context_window or DEFAULT_WINDOW_TOKENS, configured=window is not None
        )
        self._window = ModelWindow(known, window_probe)
        self._provider = provider
        self._timeout = timeout
        self._silence = silence
        self._client = client
        self._secrets = secrets
        self._retries = _disable_library_retries(provider)
        watch_streams(provider)
        self._refused_images: set[str] = set()  # paths of pictures that the model refused

    @property
    def window(self) -> int:
        return self._window.tokens

    async def close(self) -> None:
        """Close every connection."""
        async with self._provider:
            pass  # its exit closes the connections that it opened itself
        if self._client is not None:
            await self._client.aclose()

    async def respond(self, request: ModelRequest, show_preview: PreviewCallback | None = None) -> ModelAnswered:
        await self._window.check(request)
        answer = await self._respond(request, show_preview)
        if len(answer.text) < MAX_ANSWER_CHARS:  # a longer answer was truncated here
            self._window.learn_from_answer(request, answer)
        return answer

    async def _respond(self, request: ModelRequest, show_preview: PreviewCallback | None) -> ModelAnswered:
        while True:
            images = await self._load_images(request)
            try:
                async with asyncio.timeout(self._timeout):  # pydantic-ai's own timeout costs CPU with every piece
                    return to_model_answered(
                        request.step, await self._request_learning_window(request, show_preview, images)
                    )
            except TimeoutError as error:
                late = texts.agents.provider_timed_out_after(self._timeout)
                raise ModelCallFailed(texts.agents.PROVIDER_TIMED_OUT, said=late, again=False) from error
            except (failures.AgentRunError, failures.UserError) as error:
                if not (images and _may_refuse_images(error)):
                    raise call_failure(error, self._secrets) from error
                self._refused_images |= set(images)  # the request is made again, without pictures

    async def _load_images(self, request: ModelRequest) -> dict[str, LoadedImage]:
        """Load the pictures of a request, without those that were refused before."""
        wanted = visible_images(request.messages, self._refused_images)
        return await asyncio.to_thread(load_images, wanted) if wanted else {}

    async def _request_learning_window(
        self, request: ModelRequest, show_preview: PreviewCallback | None, loaded_images: Mapping[str, LoadedImage]
    ) -> ModelResponse:
        try:
            return await self._request(request, show_preview, loaded_images)
        except failures.ModelAPIError as error:
            refused = _window_refusal(error)
            if refused is None:
                raise
            raise await self._window.learn_from_refusal(request, refused) from error

    async def _request(
        self, request: ModelRequest, show_preview: PreviewCallback | None, loaded_images: Mapping[str, LoadedImage]
    ) -> ModelResponse:
        messages = to_provider_messages(request, self._provider, loaded_images)
        parameters = ModelRequestParameters(
            function_tools=[
                ToolDefinition(
                    name=tool.name, parameters_json_schema=dict(tool.schema), description=tool.description
                )
                for tool in request.tools
            ]
        )
        if show_preview is None:
            settings = self._settings(silence=self._timeout)
            return await model_request(
                self._provider, messages, model_settings=settings, model_request_parameters=parameters
            )
        async with model_request_stream(
            self._provider,
            messages,
            model_settings=self._settings(silence=self._silence),
            model_request_parameters=parameters,
        ) as stream:
            return await read_stream(stream, show_preview)

    def _settings(self, *, silence: float) -> ModelSettings:
        return ModelSettings(timeout=silence, **self._retries)


def _disable_library_retries(provider: Provider) -> ModelSettings:
    """Turn a library's own retries off, on its client or else by the settings that are returned.

    With a setting in each request, a library would copy its client each time.
    """
    client: Any = getattr(provider, "client", None)
    if not hasattr(client, "max_retries"):
        return ModelSettings(max_retries=0)
    client.max_retries = 0
    return ModelSettings()


def _window_refusal(error: failures.ModelAPIError) -> ContextRefusal | None:
    """The refusal of a request that is too long, in any wording that Perdure or pydantic-ai knows."""
    found = parse_refusal(f"{error.message} {error.body}")
    return found or (ContextRefusal() if isinstance(error, failures.ModelContextWindowExceededError) else None)


def _may_refuse_images(error: Exception) -> bool:
    """Whether a request may have been refused because of its pictures."""
    return isinstance(error, failures.ModelHTTPError) and error.status_code in IMAGE_REFUSAL_STATUSES


async def read_stream(stream: StreamedResponse, show_preview: PreviewCallback) -> ModelResponse:
    """Read a stream to its end; an answer that becomes too long is aborted and counts as incomplete."""
    text = ""
    async for piece in _pieces(stream):
        text += piece
        show_preview(text)
        if len(text) > MAX_ANSWER_CHARS:
            await stream.cancel()
            raise incomplete_answer_error(texts.agents.answer_too_long(MAX_ANSWER_CHARS))
    return response_with_end_mark(stream)


async def _pieces(stream: StreamedResponse) -> AsyncIterator[str]:
    async for event in stream:
        match event:
            case PartStartEvent(part=TextPart(content=text)) if text:
                yield text
            case PartDeltaEvent(delta=TextPartDelta(content_delta=text)) if text:
                yield text


def call_failure(error: Exception, secrets: Sequence[str] = ()) -> ModelCallFailed:
    """The failure of a call, with the provider's status and words but without secrets."""
    broken = _is_incomplete_answer(error)
    lost = broken and isinstance(error, failures.ModelConnectionError)
    late = isinstance(error, failures.ModelTimeoutError)
    return ModelCallFailed(
        texts.agents.PROVIDER_INCOMPLETE if lost and not late else redact(failure_text(error), secrets),
        said=redact(_failure_detail(error), secrets),
        status=getattr(error, "status_code", None),
        again=broken or isinstance(error, RETRYABLE_ERRORS),
        wait=getattr(error, "retry_after", None),
        broke_off=broken,
    )


def _is_incomplete_answer(error: Exception) -> bool:
    """Whether a provider took a request, and its answer is incomplete or cannot be read."""
    match error:
        case failures.ModelConnectionError():
            return not any(isinstance(each, CONNECT_ERRORS) for each in _causes(error))
        case failures.ModelRequestRejectedError() | failures.ModelQuotaExceededError():
            return False
        case failures.ModelAPIError():
            return error.in_stream or not isinstance(error, (*RETRYABLE_ERRORS, failures.ModelHTTPError))
        case _:
            return isinstance(error, failures.UnexpectedModelBehavior)


def _causes(error: BaseException) -> list[BaseException]:
    """An error and its causes, the first cause last."""
    found = [error]
    while (cause := found[-1].__cause__ or found[-1].__context__) is not None and cause not in found:
        found.append(cause)
    return found


def _failure_detail(error: Exception) -> str:
    """The details of a failure: the provider's words, or the error of the connection."""
    if isinstance(error, failures.ModelConnectionError):
        detail = str(_causes(error)[-1]) or str(error)
    else:
        detail = _provider_message(error) if isinstance(error, failures.ModelAPIError) else str(error)
    return texts.phrases.first_words(detail, MAX_ERROR_CHARS)


def environment_secrets() -> list[str]:
    """The values of the environment variables that hold API keys."""
    return [os.environ[each] for each in os.environ if each.endswith("_KEY")]


def failure_text(error: Exception) -> str:
    """Why there is no answer, as a sentence for people; it never contains a key."""
    match error:
        case failures.ModelAuthenticationError():
            return texts.agents.PROVIDER_KEY_REFUSED
        case failures.ModelNotFoundError():
            return texts.agents.unknown_model(error.model_name)
        case failures.ModelQuotaExceededError():
            return texts.agents.PROVIDER_QUOTA_EXHAUSTED
        case failures.ModelRateLimitError() | failures.ModelUnavailableError():
            return texts.agents.PROVIDER_BUSY
        case failures.ModelTimeoutError():
            return texts.agents.PROVIDER_TIMED_OUT
        case failures.ModelConnectionError():
            return texts.agents.PROVIDER_UNREACHABLE
        case failures.ModelServerError():
            return texts.agents.PROVIDER_SERVER_ERROR
        case failures.ModelAPIError():
            return texts.agents.provider_refused(_provider_message(error))
        case _:
            return texts.agents.PROVIDER_GARBLED


def _provider_message(error: failures.ModelAPIError) -> str:
    """The provider's own sentence in the body of an error, in any of the usual forms."""
    body: Any = error.body
    for name in ("error", "message", "detail"):
        if isinstance(body, dict):
            body = body.get(name) or body
    return texts.phrases.first_words(body, MAX_ERROR_CHARS) if isinstance(body, str) and body else error.message


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
    client = open_client()
    try:
        provider = _provider(kind, model, base_url, api_key, client)
    except ImportError as error:
        extra = f"perdure[{kind}]" if kind in ("openai", "anthropic") else f"pydantic-ai-slim[{kind}]"
        missing = getattr(error.__cause__, "name", None) or error.name or kind
        raise ConfigurationError(
            f"the model {name!r} needs a library that is not installed: {missing}",
            hint=f"Install it: pip install '{extra}'",
        ) from error
    except (failures.UserError, ValueError) as error:
        variable = re.search(r"`([A-Z][A-Z0-9_]*_KEY)`", str(error))
        if variable is not None and api_key is None:
            raise ConfigurationError(
                f"the model {name!r} needs a key, and there is none",
                hint=f"Set model.api_key, or {variable[1]} in the environment.",
            ) from error
        raise ConfigurationError(
            f"the model {name!r} cannot be used: {error}", hint=texts.agents.MODEL_NAME_HINT
        ) from error
    return ProviderModel(
        name,
        provider,
        window=window,
        timeout=timeout,
        silence=silence,
        client=client,
        secrets=[api_key or "", *environment_secrets()],
        window_probe=_window_probe(kind, model, base_url, provider, client),
    )


def _window_probe(
    kind: str, model: str, base_url: str | None, provider: Provider, client: AsyncClient
) -> WindowProbe | None:
    """A probe for servers of one's own; the windows of a service's models are known."""
    if base_url is None or kind not in ("openai", "openai-chat"):
        return None
    known: Any = getattr(provider, "client", None)
    return WindowProbe(client, base_url, model, dict(known.auth_headers))


def _provider(kind: str, model: str, base_url: str | None, api_key: str | None, client: AsyncClient) -> Provider:
    """The model of pydantic-ai. Every server that is like OpenAI's speaks chat completions."""
    if kind in ("openai", "openai-chat"):
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider
        from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

        from perdure.agents.providers.openai_requests import install_direct_completions

        provider: AnyProvider[AsyncOpenAI]
        if base_url is None:
            provider = OpenAIProvider(api_key=api_key, http_client=client)
        else:
            key = api_key or os.environ.get("OPENAI_API_KEY") or "none"  # many local servers need none
            provider = OpenAICompatibleProvider(kind, base_url=base_url, api_key=key, http_client=client)
        install_direct_completions(provider.client, client)
        return OpenAIChatModel(model, provider=provider)
    if kind == "anthropic":
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        claude = AnthropicProvider(api_key=api_key, base_url=base_url, http_client=client)
        return AnthropicModel(model, provider=claude)
    made = infer_model(f"{kind}:{model}", lambda found: _any_provider(found, base_url, api_key))
    http = getattr(getattr(made, "client", None), "_client", None)
    if isinstance(http, AsyncClient):
        bound_answers(http, ANSWER_LIMITS)
    return made


def _any_provider(kind: str, base_url: str | None, api_key: str | None) -> AnyProvider[Any]:
    """A provider that only pydantic-ai knows; most take a key, and some a base URL."""
    given = {"base_url": base_url, "api_key": api_key}
    return infer_provider_class(kind)(**{name: value for name, value in given.items() if value is not None})

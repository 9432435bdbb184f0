"""Asks models of every provider that pydantic-ai knows, through that library and the provider's own.

It is imported only when such a provider is configured, because these libraries take seconds to load. Their own
retries are off: a failed call leaves nothing behind, so the agent retries it, and journals each failure. Only
complete answers count.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx2
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
from perdure.agents.providers.client import MAX_ANSWER_CHARS, LoadedImages, ModelClient, RequestTooLong
from perdure.agents.providers.completeness import response_with_end_mark, watch_streams
from perdure.agents.providers.failures import MAX_ERROR_CHARS, MESSAGE_FIELDS
from perdure.agents.providers.http_client import ANSWER_LIMITS
from perdure.agents.providers.library_codec import encode_answer, to_provider_messages
from perdure.agents.providers.responses import incomplete_answer_error
from perdure.core import texts
from perdure.core.context_window import ContextRefusal, parse_refusal
from perdure.core.journal import ModelAnswered
from perdure.core.printable_text import redact
from perdure.errors import ConfigurationError, ModelCallFailed
from perdure.httpx_limits import bound_answers

RETRYABLE_ERRORS = (
    failures.ModelRateLimitError,
    failures.ModelUnavailableError,
    failures.ModelServerError,
    failures.ModelConnectionError,
)
CONNECT_ERRORS = (httpx2.ConnectError, httpx2.ConnectTimeout)  # nothing was sent


class LibraryClient(ModelClient):
    """Asks a model of pydantic-ai."""

    def __init__(self, provider: Provider, secrets: Sequence[str] = ()) -> None:
        self.context_window = provider.context_window
        self._provider = provider
        self._secrets = secrets
        self._retries = _disable_library_retries(provider)
        watch_streams(provider)

    async def close(self) -> None:
        async with self._provider:
            pass  # its exit closes the connections that it opened itself

    async def ask(
        self,
        request: ModelRequest,
        images: LoadedImages,
        show_preview: PreviewCallback | None,
        silence_seconds: float,
    ) -> ModelAnswered:
        try:
            return encode_answer(request.step, await self._request(request, images, show_preview, silence_seconds))
        except (failures.AgentRunError, failures.UserError) as error:
            if isinstance(error, failures.ModelAPIError) and (refused := _window_refusal(error)):
                raise RequestTooLong(refused) from error
            raise call_failure(error, self._secrets) from error

    async def _request(
        self,
        request: ModelRequest,
        images: LoadedImages,
        show_preview: PreviewCallback | None,
        silence_seconds: float,
    ) -> ModelResponse:
        messages = to_provider_messages(request, self._provider, images)
        settings = ModelSettings(timeout=silence_seconds, **self._retries)
        parameters = ModelRequestParameters(
            function_tools=[
                ToolDefinition(
                    name=tool.name, parameters_json_schema=dict(tool.schema), description=tool.description
                )
                for tool in request.tools
            ]
        )
        if show_preview is None:
            return await model_request(
                self._provider, messages, model_settings=settings, model_request_parameters=parameters
            )
        async with model_request_stream(
            self._provider, messages, model_settings=settings, model_request_parameters=parameters
        ) as stream:
            return await read_stream(stream, show_preview)


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
    for name in MESSAGE_FIELDS:
        if isinstance(body, dict):
            body = body.get(name) or body
    return texts.phrases.first_words(body, MAX_ERROR_CHARS) if isinstance(body, str) and body else error.message


# ── opening ─────────────────────────────────────────────────────────────────────────────────────────────────


def open_library_client(
    name: str, base_url: str | None, api_key: str | None, secrets: Sequence[str]
) -> LibraryClient:
    """Open the model `provider:model`; ImportError or `ConfigurationError` says what is missing."""
    try:
        provider = infer_model(name, lambda found: _any_provider(found, base_url, api_key))
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
    return LibraryClient(provider, secrets)


def _any_provider(kind: str, base_url: str | None, api_key: str | None) -> AnyProvider[Any]:
    """A provider that only pydantic-ai knows; most take a key, and some a base URL."""
    given = {"base_url": base_url, "api_key": api_key}
    provider = infer_provider_class(kind)(**{name: value for name, value in given.items() if value is not None})
    clients = (getattr(provider, "_own_http_client", None), getattr(provider.client, "_client", None))
    for http in clients:
        if hasattr(http, "_transport") and hasattr(http, "_mounts"):  # of httpx2, or of httpx
            bound_answers(http, ANSWER_LIMITS)
    return provider

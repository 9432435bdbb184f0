"""Refuses incomplete answers: an answer counts only with a finish reason or the mark that ends a stream.

Every answer that comes through pydantic-ai passes `require_finish_reason` before the journal or an agent gets it.
The library itself takes an answer without a finish reason as finished. So the provider's own finish reason
decides, and not the library's.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any, cast

from httpx2 import AsyncByteStream, AsyncClient, Response
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model, StreamedResponse
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.wrapper import WrapperModel

from perdure.core import texts
from perdure.core.journal import ModelAnswered
from perdure.core.recovery.decision import STOPPED_FINISH_REASONS
from perdure.errors import ModelCallFailed

FINISH_DETAIL = "finish_reason"  # where the library keeps the provider's own finish reason
INVENTED_FINISH_REASONS = ("stop", "tool_call")  # the library's, where the provider gave none
PROVIDERS_WITHOUT_FINISH_DETAIL = frozenset(("xai",))  # whose reason the library neither passes on nor invents
END_MARK = re.compile(rb"(?:^|[\r\n])(?:data: ?\[DONE\]|event: ?message_stop)")
MAX_MARK_BYTES = 32


def incomplete_answer_error(why: str) -> ModelCallFailed:
    """The failure of a model call whose answer is incomplete."""
    return ModelCallFailed(texts.agents.PROVIDER_INCOMPLETE, said=why, broke_off=True)


def require_finish_reason(response: ModelResponse) -> str | None:
    """The finish reason of a complete answer; `ModelCallFailed` for an incomplete one.

    A model without a URL is a function of this process: its answers are always complete.
    """
    finish, said = response.finish_reason, (response.provider_details or {}).get(FINISH_DETAIL)
    if said or response.provider_url is None or response.provider_name in PROVIDERS_WITHOUT_FINISH_DETAIL:
        return finish or (said if isinstance(said, str) else None)
    if finish is None or finish in INVENTED_FINISH_REASONS:
        raise incomplete_answer_error(texts.agents.NO_FINISH_REASON)
    return finish


def require_complete_calls(answer: ModelAnswered) -> ModelAnswered:
    """The answer; `ModelCallFailed` if its provider stopped the model inside of a tool call."""
    if answer.calls and (answer.finish or "").lower() in STOPPED_FINISH_REASONS:
        raise incomplete_answer_error(texts.agents.incomplete_call(str(answer.finish)))
    return answer


# ── the mark that ends a stream ─────────────────────────────────────────────────────────────────────────────


def watch_streams(model: Model) -> None:
    """Look for the mark that ends a stream in every response that the model's HTTP client reads from now on."""
    for each in _leaf_models(model):
        http = getattr(getattr(each, "client", None), "_client", None)
        if isinstance(http, AsyncClient) and _watch not in http.event_hooks["response"]:
            http.event_hooks["response"].append(_watch)


def response_with_end_mark(stream: StreamedResponse) -> ModelResponse:
    """The answer of a stream that was read; without a finish reason, the end mark counts as one."""
    response = stream.get()
    details = response.provider_details or {}
    if details.get(FINISH_DETAIL) or not _end_seen(stream):
        return response
    finish = response.finish_reason or "stop"
    return replace(response, finish_reason=finish, provider_details=details | {FINISH_DETAIL: finish})


class _WatchedStream(AsyncByteStream):
    """The bytes of a response, and whether the mark that ends a stream was among them."""

    def __init__(self, stream: AsyncByteStream) -> None:
        self._stream = stream
        self._last = b""
        self.end_seen = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            searched = self._last + piece
            self.end_seen = self.end_seen or END_MARK.search(searched) is not None
            self._last = searched[-MAX_MARK_BYTES:]
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _watch(response: Response) -> None:
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        response.stream = _WatchedStream(cast("AsyncByteStream", response.stream))


def _end_seen(stream: Any) -> bool:
    source = getattr(getattr(stream, "_response", None), "source", None)
    body = getattr(getattr(source, "response", None), "stream", None)
    return isinstance(body, _WatchedStream) and body.end_seen


def _leaf_models(model: Model) -> Iterator[Model]:
    """The models inside of wrappers and fallbacks."""
    if isinstance(model, WrapperModel):
        yield from _leaf_models(model.wrapped)
    elif isinstance(model, FallbackModel):
        for each in model.models:
            yield from _leaf_models(each)
    else:
        yield model

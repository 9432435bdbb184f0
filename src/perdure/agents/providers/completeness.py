"""A model's answer counts only with its provider's own end: a finish reason, or the mark that ends a stream.

Every answer that comes through pydantic-ai passes `require_end` before the journal or an agent has it. The library
itself calls an answer without a finish reason finished, so the word that the provider really sent decides, and not
the library's.
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
from perdure.core.recovery.tail import STOPPED_FINISH_REASONS
from perdure.errors import ModelCallFailed

FINISH_DETAIL = "finish_reason"  # where the library keeps the provider's own word
INVENTED_FINISH_REASONS = ("stop", "tool_call")  # what the library says where the provider said nothing
PROVIDERS_WITHOUT_FINISH_DETAIL = frozenset(
    ("xai",)
)  # providers whose own word the library does not pass on, and never invents
END_MARK = re.compile(rb"(?:^|[\r\n])(?:data: ?\[DONE\]|event: ?message_stop)")
MAX_MARK_BYTES = 32  # bytes


def incomplete_answer_error(why: str) -> ModelCallFailed:
    """The failure of a call whose answer has no end."""
    return ModelCallFailed(texts.providers.INCOMPLETE, said=why, broke_off=True)


def require_finish_reason(response: ModelResponse) -> str | None:
    """The finish reason of a whole answer; raises `ModelCallFailed` for half an answer.

    A model without an address is a function of this process: its answers are whole when they are there.
    """
    finish, said = response.finish_reason, (response.provider_details or {}).get(FINISH_DETAIL)
    if said or response.provider_url is None or response.provider_name in PROVIDERS_WITHOUT_FINISH_DETAIL:
        return finish or (said if isinstance(said, str) else None)
    if finish is None or finish in INVENTED_FINISH_REASONS:
        raise incomplete_answer_error(texts.providers.NO_FINISH_REASON)
    return finish


def require_complete_calls(answer: ModelAnswered) -> ModelAnswered:
    """The answer, unless its provider stopped the model inside a tool call: then nothing of it counts."""
    if answer.calls and (answer.finish or "").lower() in STOPPED_FINISH_REASONS:
        raise incomplete_answer_error(texts.providers.incomplete_call(str(answer.finish)))
    return answer


# ── the mark that ends a stream ─────────────────────────────────────────────────────────────────────────────


def watch_streams(model: Model) -> None:
    """From now on, look for the mark that ends a stream in whatever the model's HTTP client reads."""
    for each in _leaf_models(model):
        http = getattr(getattr(each, "client", None), "_client", None)
        if isinstance(http, AsyncClient) and _watch not in http.event_hooks["response"]:
            http.event_hooks["response"].append(_watch)


def response_with_end_mark(stream: StreamedResponse) -> ModelResponse:
    """The answer of a stream that was read; where the provider gave no finish reason, the end mark is one."""
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
            read = self._last + piece
            self.end_seen = self.end_seen or END_MARK.search(read) is not None
            self._last = read[-MAX_MARK_BYTES:]
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
    """The models that a model is made of."""
    if isinstance(model, WrapperModel):
        yield from _leaf_models(model.wrapped)
    elif isinstance(model, FallbackModel):
        for each in model.models:
            yield from _leaf_models(each)
    else:
        yield model

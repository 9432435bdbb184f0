"""Says why a call of a model failed, from what its provider answered or from how the connection ended."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from msgspec import Struct

from perdure.agents.providers.client import RequestTooLong
from perdure.agents.providers.http_client import ExchangeFailed
from perdure.core import texts
from perdure.core.context_window import parse_refusal
from perdure.core.printable_text import redact
from perdure.errors import ModelCallFailed

MAX_ERROR_CHARS = 300  # of a provider's own words
MESSAGE_FIELDS = ("error", "message", "detail")  # where the usual forms of an error have the provider's sentence
OVERLOADED_PHRASES = ("overloaded", "over capacity")


class FailureKind(Enum):
    """What a provider's refusal means. Only those that may pass by waiting are asked again."""

    KEY_REFUSED = "key refused"
    UNKNOWN_MODEL = "unknown model"
    QUOTA_EXHAUSTED = "quota exhausted"
    REJECTED = "rejected"
    BUSY = "busy"
    SERVER_ERROR = "server error"
    OTHER = "other"

    @property
    def may_pass(self) -> bool:
        return self in (FailureKind.BUSY, FailureKind.SERVER_ERROR)

    @property
    def is_final(self) -> bool:
        """Whether the same request would be refused again, wherever in the answer the refusal stands."""
        return not self.may_pass and self is not FailureKind.OTHER


KIND_BY_STATUS = {
    400: FailureKind.REJECTED,
    401: FailureKind.KEY_REFUSED,
    402: FailureKind.QUOTA_EXHAUSTED,
    403: FailureKind.KEY_REFUSED,
    404: FailureKind.UNKNOWN_MODEL,
    422: FailureKind.REJECTED,
    429: FailureKind.BUSY,
    503: FailureKind.BUSY,
    529: FailureKind.BUSY,
}


class Refusal(Struct, frozen=True):
    """A provider's answer that is an error."""

    kind: FailureKind
    body: Any  # decoded, or as text
    status: int | None = None  # of HTTP, or the one that the error would have outside of a stream
    in_stream: bool = False
    wait_seconds: float | None = None


def kind_of_status(status: int | None) -> FailureKind:
    usual = FailureKind.SERVER_ERROR if status is not None and 500 <= status < 600 else FailureKind.OTHER
    return KIND_BY_STATUS.get(status or 0, usual)


def says_overloaded(*words: object) -> bool:
    return any(isinstance(each, str) and any(one in each.lower() for one in OVERLOADED_PHRASES) for each in words)


def refusal_error(refusal: Refusal, model: str, secrets: Sequence[str]) -> ModelCallFailed | RequestTooLong:
    """The error for a provider's refusal, with its status and words but without secrets."""
    said = provider_message(refusal.body) or texts.agents.NO_REASON_GIVEN
    if too_long := parse_refusal(f"{said} {_written(refusal.body)}"):
        return RequestTooLong(too_long)
    status = refusal.status if refusal.status is None or refusal.status >= 400 else None
    broke_off = not refusal.kind.is_final and (refusal.in_stream or status is None)
    told = f"{refusal.status}: {said}" if refusal.status and not status else said  # e.g. a redirect
    return ModelCallFailed(
        redact(_sentence(refusal.kind, told, model), secrets),
        said=redact(told, secrets),
        status=status,
        again=broke_off or refusal.kind.may_pass,
        wait=refusal.wait_seconds,
        broke_off=broke_off,
    )


def _sentence(kind: FailureKind, said: str, model: str) -> str:
    """Why there is no answer, as a sentence for people."""
    match kind:
        case FailureKind.KEY_REFUSED:
            return texts.agents.PROVIDER_KEY_REFUSED
        case FailureKind.UNKNOWN_MODEL:
            return texts.agents.unknown_model(model)
        case FailureKind.QUOTA_EXHAUSTED:
            return texts.agents.PROVIDER_QUOTA_EXHAUSTED
        case FailureKind.BUSY:
            return texts.agents.PROVIDER_BUSY
        case FailureKind.SERVER_ERROR:
            return texts.agents.PROVIDER_SERVER_ERROR
        case FailureKind.REJECTED | FailureKind.OTHER:
            return texts.agents.provider_refused(said)


def connection_error(error: ExchangeFailed, secrets: Sequence[str]) -> ModelCallFailed:
    """The error for an exchange that failed. Once the request was sent, its answer is an incomplete one."""
    if error.late:
        reason = texts.agents.PROVIDER_TIMED_OUT
    else:
        reason = texts.agents.PROVIDER_INCOMPLETE if error.sent else texts.agents.PROVIDER_UNREACHABLE
    said = texts.phrases.first_words(str(error), MAX_ERROR_CHARS)
    return ModelCallFailed(reason, said=redact(said, secrets), broke_off=error.sent)


def garbled_answer_error(why: str, secrets: Sequence[str] = ()) -> ModelCallFailed:
    """The error for an answer that makes no sense."""
    said = texts.phrases.first_words(why, MAX_ERROR_CHARS)
    return ModelCallFailed(texts.agents.PROVIDER_GARBLED, said=redact(said, secrets), broke_off=True)


def provider_message(body: Any) -> str:
    """The provider's own sentence in the body of an error, in any of the usual forms; empty: there is none."""
    for name in MESSAGE_FIELDS:
        if isinstance(body, dict):
            body = body.get(name) or body
    said = body if isinstance(body, str) else _written(body) if body else ""
    return texts.phrases.first_words(said, MAX_ERROR_CHARS)


def _written(body: Any) -> str:
    return body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)


def decode_body(content: bytes) -> Any:
    """The body of an answer: decoded, or as text if it is no JSON."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return content.decode(errors="replace")


def requested_wait(headers: Mapping[str, str]) -> float | None:
    """How many seconds a provider asks us to wait, by `retry-after-ms` or `Retry-After`; None: it does not say."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    from email.utils import parsedate_to_datetime  # rarely needed, and it brings much with it

    try:  # both by the provider's clock
        until, now = (parsedate_to_datetime(headers.get(name, "")) for name in ("retry-after", "date"))
        return max(0.0, (until - now).total_seconds())
    except (ValueError, TypeError):
        return None


def environment_secrets() -> list[str]:
    """The values of the environment variables that hold API keys."""
    return [os.environ[each] for each in os.environ if each.endswith("_KEY")]

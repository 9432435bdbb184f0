"""Calls of the Bot API, and what its refusals mean to a sender."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from perdure.core import texts
from perdure.core.messages import LocalFile
from perdure.core.storable_text import repair_json
from perdure.errors import NotConnected, PerdureError, SendError, SendRefused, SendRetry, SendUnknown
from perdure.platforms.telegram.http_client import HttpClient
from perdure.platforms.telegram.uploads import build_form

UPLOAD_TIMEOUT_SECONDS = 120.0  # seconds in which a file that was sent is confirmed
CALL_TIMEOUT_SECONDS = 30.0  # seconds that a call may take
MIN_RETRY_SECONDS = 1.0

_REFUSAL_TEXTS = {  # what Telegram says of a place that takes no message, and what we say
    "bot was blocked by the user": texts.telegram.BLOCKED,
    "user is deactivated": texts.telegram.BLOCKED,
    "bot was kicked": texts.telegram.KICKED,
    "bot is not a member": texts.telegram.KICKED,
    "not enough rights": texts.telegram.MUTED,
    "message thread not found": texts.telegram.NO_TOPIC,
    "topic_closed": texts.telegram.NO_TOPIC,
    "chat not found": texts.telegram.NO_CHAT,
}


class ResponseParameters(Struct, frozen=True):
    retry_after: float | None = None
    migrate_to_chat_id: int | None = None


class BotApiResponse(Struct, frozen=True):
    ok: bool
    result: msgspec.Raw = msgspec.Raw(b"null")
    error_code: int = 0
    description: str = ""
    parameters: ResponseParameters = ResponseParameters()


class CallRefused(PerdureError):
    """The Bot API refused a call, and says why."""

    def __init__(self, answer: BotApiResponse) -> None:
        super().__init__(answer.description or f"error {answer.error_code}")
        self.code = answer.error_code
        self.parameters = answer.parameters

    def says(self, *words: str) -> bool:
        said = self.message.lower()
        return any(word in said for word in words)


class BotApiClient:
    """One bot. No error of its own ever holds the token."""

    def __init__(self, root: str, token: str) -> None:
        self._http = HttpClient(root)
        self._token = token

    async def call(
        self, method: str, params: dict[str, Any] | None = None, timeout: float = CALL_TIMEOUT_SECONDS
    ) -> msgspec.Raw:
        """The result of a method.

        `CallRefused`: it was not done, for a reason. `SendUnknown`: it may have been done. `NotConnected`: it
        was not even asked.
        """
        given = {name: value for name, value in (params or {}).items() if value is not None}
        status, body = await self._http.post(f"/bot{self._token}/{method}", msgspec.json.encode(given), timeout)
        return _result(method, status, body)

    async def upload(self, method: str, params: dict[str, Any], field: str, file: LocalFile) -> msgspec.Raw:
        """The same for a method that takes a file."""
        whole = build_form(params, field, file)
        status, body = await self._http.upload(f"/bot{self._token}/{method}", whole, UPLOAD_TIMEOUT_SECONDS)
        return _result(method, status, body)

    async def download(self, path: str) -> AsyncGenerator[bytes]:
        """The bytes of a file, by the path that `getFile` told."""
        async with aclosing(self._http.get(f"/file/bot{self._token}/{quote(path)}")) as pieces:
            async for piece in pieces:
                yield piece

    async def close(self) -> None:
        await self._http.close()


def _result(method: str, status: int, body: bytes) -> msgspec.Raw:
    try:
        answer = _read(body)
    except (ValueError, RecursionError) as error:
        raise SendUnknown(f"what answered {method} with {status} is not Telegram") from error
    if answer.ok:
        return answer.result
    refused = CallRefused(answer)
    if refused.code >= 500:
        raise SendUnknown(f"Telegram failed at {method}: {refused.message}")
    raise refused


def _read(body: bytes) -> BotApiResponse:
    """Read an answer. Half a character in somebody's words must not keep everybody else's from us."""
    try:
        return msgspec.json.decode(body, type=BotApiResponse)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        return msgspec.json.decode(repair_json(body), type=BotApiResponse)


def send_error(refused: CallRefused) -> SendError:
    """What a refusal means for what was to be sent."""
    if refused.code == 429:
        after = max(MIN_RETRY_SECONDS, refused.parameters.retry_after or 0)
        return SendRetry(f"Telegram wants us to wait {after:g} s", after=after)
    if refused.code in (401, 404):
        return bad_token()
    for said, words in _REFUSAL_TEXTS.items():
        if refused.says(said):
            return SendRefused(words)
    return SendRefused(f"Telegram does not take it: {refused.message}")


def bad_token() -> NotConnected:
    return NotConnected(texts.telegram.UNKNOWN_BOT)

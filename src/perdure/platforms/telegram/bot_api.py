"""Calls methods of the Bot API, and translates its refusals into errors of a sender."""

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

UPLOAD_TIMEOUT_SECONDS = 120.0  # for the answer to a file
CALL_TIMEOUT_SECONDS = 30.0  # for the answer to any other call
MIN_RETRY_SECONDS = 1.0

_REFUSAL_TEXTS = {  # Telegram's words for a chat that takes no message, and ours
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
    """The client of one bot. None of its errors contains the token."""

    def __init__(self, root: str, token: str) -> None:
        self._http = HttpClient(root)
        self._token = token

    async def call(
        self, method: str, params: dict[str, Any] | None = None, timeout: float = CALL_TIMEOUT_SECONDS
    ) -> msgspec.Raw:
        """Call a method, and return its result.

        `CallRefused`: Telegram did not do it, and says why. `SendUnknown`: Telegram may have done it.
        `NotConnected`: the request was not sent.
        """
        given = {name: value for name, value in (params or {}).items() if value is not None}
        status, body = await self._http.post(f"/bot{self._token}/{method}", msgspec.json.encode(given), timeout)
        return _result(method, status, body)

    async def upload(self, method: str, params: dict[str, Any], field: str, file: LocalFile) -> msgspec.Raw:
        """Call a method that takes a file, as `call` does."""
        form = build_form(params, field, file)
        status, body = await self._http.upload(f"/bot{self._token}/{method}", form, UPLOAD_TIMEOUT_SECONDS)
        return _result(method, status, body)

    async def download(self, path: str) -> AsyncGenerator[bytes]:
        """The bytes of a file, by the path from `getFile`."""
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
    """Decode an answer, also one with half a character in a text: the other updates in it must not be lost."""
    try:
        return msgspec.json.decode(body, type=BotApiResponse)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        return msgspec.json.decode(repair_json(body), type=BotApiResponse)


def send_error(refused: CallRefused) -> SendError:
    """The error that a refusal means for a message to be sent."""
    if refused.code == 429:
        after = max(MIN_RETRY_SECONDS, refused.parameters.retry_after or 0)
        return SendRetry(f"Telegram wants us to wait {after:g} s", after=after)
    if refused.code in (401, 404):
        return bad_token()
    for phrase, reason in _REFUSAL_TEXTS.items():
        if refused.says(phrase):
            return SendRefused(reason)
    return SendRefused(f"Telegram does not take it: {refused.message}")


def bad_token() -> NotConnected:
    return NotConnected(texts.telegram.UNKNOWN_BOT)

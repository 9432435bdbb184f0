"""Calls methods of Telegram's Bot API over HTTP, within its limits, and reads its refusals."""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import h11
import msgspec
from msgspec import Struct

from perdure.core import texts
from perdure.core.messages import LocalFile
from perdure.core.storable_text import repair_json
from perdure.errors import (
    FetchFailed,
    FetchRefused,
    NotConnected,
    PerdureError,
    SendError,
    SendRefused,
    SendRetry,
    SendUnknown,
)
from perdure.http11 import ConnectionPool, HttpConnection, failure_reason

CONNECT_TIMEOUT_SECONDS = 10.0
FIRST_BYTE_TIMEOUT_SECONDS = 25.0  # of a file
CHUNK_BYTES = 65536  # of a file that is sent
MAX_RESPONSE_BYTES = 32 * 1024 * 1024  # of one answer


class MultipartForm(Struct, frozen=True):
    """The body of a request that uploads a file."""

    content_type: str
    head: bytes
    file: LocalFile
    tail: bytes

    @property
    def size(self) -> int:
        return len(self.head) + self.file.size + len(self.tail)

    async def pieces(self) -> AsyncGenerator[bytes]:
        """The bytes of the body. If the file has changed its size, the server refuses the body."""
        yield self.head
        source = await asyncio.to_thread(Path(self.file.place).open, "rb")
        with source:
            while piece := await asyncio.to_thread(source.read, CHUNK_BYTES):
                yield piece
        yield self.tail


def build_form(params: dict[str, Any], field: str, file: LocalFile) -> MultipartForm:
    """The parameters of a call as a multipart form, with the file last."""
    boundary = secrets.token_hex(16)
    parts = [
        _part(boundary, f'name="{name}"', _text(value)) for name, value in params.items() if value is not None
    ]
    name = file.name.translate({ord(mark): "_" for mark in '"\\\r\n'})
    head = _part(boundary, f'name="{field}"; filename="{name}"\r\nContent-Type: {file.media_type}', b"")
    body = b"".join([*parts, head.removesuffix(b"\r\n")])
    return MultipartForm(
        f"multipart/form-data; boundary={boundary}", body, file, f"\r\n--{boundary}--\r\n".encode()
    )


def _part(boundary: str, named: str, value: bytes) -> bytes:
    head = f"--{boundary}\r\nContent-Disposition: form-data; {named}\r\n\r\n"
    return head.encode() + value + b"\r\n"


def _text(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else msgspec.json.encode(value)


class HttpClient:
    """Posts JSON to one server over reused connections."""

    def __init__(self, root: str) -> None:
        parts = urlsplit(root)
        self._host = parts.hostname or ""
        tls = parts.scheme == "https"
        secure = ssl.create_default_context if tls else None
        self._server = ConnectionPool(self._host, parts.port or (443 if tls else 80), secure)
        self._path = parts.path.rstrip("/")
        self._authority = parts.netloc.rpartition("@")[2]

    async def post(
        self, path: str, body: bytes, timeout: float, headers: Sequence[tuple[str, str]] = ()
    ) -> tuple[int, bytes]:
        """Post a body; return the status and the body of the answer.

        `NotConnected`: the request was not sent. `SendUnknown`: it was sent, perhaps in part, and no answer came.
        """
        return await self._exchange(path, "application/json", len(body), _stream_of(body), timeout, headers)

    async def upload(self, path: str, form: MultipartForm, timeout: float) -> tuple[int, bytes]:
        """Post a form as `post` does, with no more than one piece of it in memory."""
        return await self._exchange(path, form.content_type, form.size, form.pieces(), timeout)

    async def _exchange(
        self,
        path: str,
        content_type: str,
        size: int,
        body: AsyncGenerator[bytes],
        timeout: float,
        more: Sequence[tuple[str, str]] = (),
    ) -> tuple[int, bytes]:
        headers = (
            ("Content-Type", content_type),
            ("Content-Length", str(size)),
            ("Accept", "application/json"),
            *more,
        )
        connection = await self._connect()
        try:
            async with aclosing(body):
                await connection.send(self._request("POST", path, *headers), body)
            async with asyncio.timeout(timeout):
                status, answer = await _read_response(connection)
        except (OSError, EOFError, TimeoutError, h11.ProtocolError) as error:
            connection.abort()
            raise SendUnknown(f"no answer came from {self._host}: {failure_reason(error)}") from error
        except BaseException:  # reason: a connection with half an exchange must not be reused
            connection.abort()
            raise
        self._server.release(connection)
        return status, answer

    async def get(self, path: str) -> AsyncGenerator[bytes]:
        """Get a path, and yield its body piece by piece. `FetchRefused`: there is no such file."""
        connection = await self._connect()
        try:
            async with asyncio.timeout(FIRST_BYTE_TIMEOUT_SECONDS):
                await connection.send(self._request("GET", path), _stream_of())
                head = await connection.read_head()
            _expect_found(head.status_code)
            async for piece in connection.read_chunks():
                yield piece
        except (OSError, EOFError, TimeoutError, h11.RemoteProtocolError) as error:
            connection.abort()
            raise FetchFailed(f"{self._host} did not give it whole: {failure_reason(error)}") from error
        except BaseException:  # reason: a connection with half an exchange must not be reused
            connection.abort()
            raise
        self._server.release(connection)

    async def close(self) -> None:
        self._server.close()

    def _request(self, method: str, path: str, *headers: tuple[str, str]) -> h11.Request:
        target = f"{self._path}{path}"
        return h11.Request(method=method, target=target, headers=[("Host", self._authority), *headers])

    async def _connect(self) -> HttpConnection:
        try:
            return await self._server.connect(CONNECT_TIMEOUT_SECONDS)
        except (OSError, TimeoutError, ValueError) as error:
            raise NotConnected(f"{self._host} cannot be reached: {failure_reason(error)}") from error


async def _read_response(connection: HttpConnection) -> tuple[int, bytes]:
    """The status and the complete body of an answer."""
    head, pieces, size = await connection.read_head(), [], 0
    async for piece in connection.read_chunks():
        pieces.append(piece)
        size += len(piece)
        if size > MAX_RESPONSE_BYTES:
            raise OSError(f"the answer is longer than {MAX_RESPONSE_BYTES} bytes")
    return head.status_code, b"".join(pieces)


async def _stream_of(*pieces: bytes) -> AsyncGenerator[bytes]:
    for piece in pieces:
        yield piece


def _expect_found(status: int) -> None:
    if status in (400, 404, 410):
        raise FetchRefused(texts.files.GONE_FROM_PLATFORM)
    if status != 200:
        raise FetchFailed(f"it was answered with {status}")


UPLOAD_TIMEOUT_SECONDS = 120.0  # for the answer to a file
CALL_TIMEOUT_SECONDS = 30.0  # for the answer to any other call
MIN_RETRY_SECONDS = 1.0

_REFUSAL_TEXTS = {  # Telegram's words for a chat that takes no message, and ours
    "bot was blocked by the user": texts.platforms.BLOCKED,
    "user is deactivated": texts.platforms.BLOCKED,
    "bot was kicked": texts.platforms.KICKED,
    "bot is not a member": texts.platforms.KICKED,
    "not enough rights": texts.platforms.MUTED,
    "message thread not found": texts.platforms.NO_TOPIC,
    "topic_closed": texts.platforms.NO_TOPIC,
    "chat not found": texts.platforms.NO_CHAT,
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
    return NotConnected(texts.platforms.UNKNOWN_BOT)


MAX_MESSAGE_UNITS = 4096  # of a text, in UTF-16
MAX_CAPTION_UNITS = 1024  # of the text beneath a file, in UTF-16
MAX_FILE_BYTES = 50_000_000  # of one file that a bot sends
MAX_PHOTO_BYTES = 10_000_000  # of a picture that is shown; a larger one is sent as a document
MAX_CALLBACK_BYTES = 64  # that a button carries
MAX_SHARED_ROW_CHARS = 18  # of a button's label that shares its row: ours, so that it can be read on a phone

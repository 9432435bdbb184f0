"""The Telegram emulator: the Bot API over HTTP, for one bot and the people who write to it.

The emulator keeps updates until a higher offset confirms them, ends a poll when another begins, refuses what the
service refuses in the same words, and can fail in the ways that the service and the network do.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections import defaultdict, deque
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl

from msgspec import Struct
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from perdure.testing.local_server import ClientConnection, ClientGone, CloseConnection, LocalServer
from perdure.testing.telegram.faults import (
    ANOTHER_POLLER,
    NOT_FOUND,
    UNAUTHORIZED,
    WEBHOOK_ACTIVE,
    BotApiRefusal,
    Fault,
    bad_request,
)
from perdure.testing.telegram.methods import BotMethods
from perdure.testing.telegram.people import TelegramPeople
from perdure.testing.telegram.state import TelegramState

TOKEN = "7000001:local-telegram-token"  # noqa: S105 reason: it opens nothing but this emulator
MAX_POLL_SECONDS = 50.0
MAX_UPDATES = 100
DOWNLOAD_METHOD = "download"  # the name of downloads in `calls` and in `befall`
HOLD_POLL_SECONDS = 0.01  # seconds between two probes whether an answer is still held back


class BotCall(Struct):
    """A call of the bot, and the status of its answer."""

    method: str
    params: dict[str, Any]
    status: int = 0


class LocalTelegram(TelegramPeople, LocalServer):
    """Serves inside a `with` block. `calls` holds all calls of the bot, `sent` all its messages."""

    def __init__(self, *, token: str = TOKEN, port: int = 0) -> None:
        LocalServer.__init__(self, "local-telegram", port)
        self.token = token
        self.calls: list[BotCall] = []
        self.methods = BotMethods(TelegramState(self._wake_threadsafe))
        TelegramPeople.__init__(self, self.methods.state, threading.RLock())
        self._faults: defaultdict[str, deque[Fault]] = defaultdict(deque)
        self._poller: asyncio.Event | None = None  # event of the current poll: set when there may be updates
        self._ended_polls: set[asyncio.Event] = set()

    def befall(self, method: str, fault: Fault) -> Fault:
        """Let the next call of a method without a fault meet this fault."""
        with self.lock:
            self._faults[method.lower()].append(fault)
        return fault

    def count(self, method: str) -> int:
        """Count the calls of a method."""
        return sum(call.method.lower() == method.lower() for call in self.calls)

    def _wake_threadsafe(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._wake_pollers)

    def _wake_pollers(self) -> None:
        self.methods.webhook_poster.wake()
        if self._poller is not None:
            self._poller.set()

    def _app(self, close_connection: CloseConnection) -> Starlette:
        endpoint = _BotApiEndpoint(self, close_connection)
        return Starlette(
            routes=[
                Route("/file/bot{token}/{path:path}", endpoint, methods=["GET"]),
                Route("/bot{token}/{method}", endpoint, methods=["GET", "POST"]),
            ]
        )

    # ── called by the endpoint ──────────────────────────────────────────────────────────────────────────────────

    def next_fault(self, method: str) -> Fault | None:
        with self.lock:
            waiting = self._faults[method.lower()]
            return waiting.popleft() if waiting else None

    def call_method(self, method: str, params: dict[str, Any]) -> Any:
        found = self.methods.find(method)
        if found is None:
            raise NOT_FOUND
        with self.lock:
            return found(params)

    async def updates(self, params: dict[str, Any], connection: ClientConnection) -> list[dict[str, Any]]:
        """Return the unconfirmed updates as soon as there are any; a later poll ends an earlier one."""
        if self.methods.webhook:
            raise WEBHOOK_ACTIVE
        offset, limit = int(params.get("offset") or 0), int(params.get("limit") or MAX_UPDATES)
        timeout = min(MAX_POLL_SECONDS, float(params.get("timeout") or 0))
        if not 1 <= limit <= MAX_UPDATES:
            raise bad_request("limit must be between 1 and 100")
        with self.lock:
            self.state.confirm_updates(offset)
            if params.get("allowed_updates") is not None:
                self.state.allowed = params["allowed_updates"]
        return await self._poll(limit, timeout, connection)

    async def _poll(self, limit: int, timeout: float, connection: ClientConnection) -> list[dict[str, Any]]:
        if self._poller is not None:
            self._ended_polls.add(self._poller)
            self._poller.set()
        mine = self._poller = asyncio.Event()
        try:
            async with asyncio.timeout(timeout):
                while not (found := self.state.updates[:limit]):
                    await connection.wait_for(mine.wait())
                    if mine in self._ended_polls:
                        raise ANOTHER_POLLER
                    mine.clear()
            return found
        except TimeoutError:
            return []
        finally:
            self._ended_polls.discard(mine)
            self._poller = None if self._poller is mine else self._poller


class _BotApiEndpoint:
    """The ASGI endpoint for method calls and file downloads."""

    def __init__(self, telegram: LocalTelegram, close_connection: CloseConnection) -> None:
        self._telegram = telegram
        self._close_connection = close_connection

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection, path = ClientConnection(scope, receive, send, self._close_connection), scope["path_params"]
        try:
            body = await connection.read()
            if "path" in path:
                await self._download(path, connection)
            else:
                await self._handle_call(path, _parse_params(scope, body), connection)
        except ClientGone:
            return
        finally:
            await connection.stop_watching()

    async def _download(self, path: dict[str, str], connection: ClientConnection) -> None:
        content = self._telegram.state.files.get(path["path"].removeprefix("documents/"))
        fault = self._telegram.next_fault(DOWNLOAD_METHOD)
        self._telegram.calls.append(BotCall(DOWNLOAD_METHOD, dict(path)))
        refusal = NOT_FOUND if path["token"] != self._telegram.token or content is None else None
        refusal = fault.refusal if fault is not None and fault.refusal is not None else refusal
        if refusal is not None or content is None:
            if fault is not None:
                fault.reached.set()
            shown = refusal or NOT_FOUND
            await connection.answer(shown.code, json.dumps(shown.body()).encode())
        elif fault is None:
            await connection.answer(200, content)
        else:
            await _send_half(fault, connection, content)

    async def _handle_call(
        self, path: dict[str, str], params: dict[str, Any], connection: ClientConnection
    ) -> None:
        call = BotCall(path["method"], params)
        self._telegram.calls.append(call)
        fault = self._telegram.next_fault(call.method)
        status, body = 200, b""
        if fault is None or fault.effect:
            status, body = await self._answer(path["token"], call, connection)
        if fault is not None:
            status, body = await _apply_fault(fault, connection, status, body)
        call.status = status
        await connection.answer(status, body)

    async def _answer(self, token: str, call: BotCall, connection: ClientConnection) -> tuple[int, bytes]:
        try:
            if token != self._telegram.token:
                raise UNAUTHORIZED if ":" in token else NOT_FOUND
            polls = call.method.lower() == "getupdates"
            found = self._telegram.updates(call.params, connection) if polls else None
            result = await found if found is not None else self._telegram.call_method(call.method, call.params)
        except BotApiRefusal as refused:
            return refused.code, json.dumps(refused.body()).encode()
        return 200, json.dumps({"ok": True, "result": result}).encode()


async def _send_half(fault: Fault, connection: ClientConnection, content: bytes) -> None:
    """Send half of a file, and the rest when the fault is released, unless the connection is cut before."""
    await connection.start(200, len(content))
    await connection.push(content[: len(content) // 2])
    await _apply_fault(fault, connection, 200, b"")
    await connection.finish(content[len(content) // 2 :])


async def _apply_fault(fault: Fault, connection: ClientConnection, status: int, body: bytes) -> tuple[int, bytes]:
    fault.reached.set()
    while fault.hold and not fault.released.is_set():
        await connection.pause(HOLD_POLL_SECONDS)
    if fault.cut:
        await connection.cut()
        raise ClientGone
    if fault.refusal is not None:
        return fault.refusal.code, json.dumps(fault.refusal.body()).encode()
    return fault.page or (status, body)


def _parse_params(scope: Scope, body: bytes) -> dict[str, Any]:
    """Parse the parameters of a call: JSON, or a form with JSON values; the query string may hold some too."""
    given = dict(parse_qsl(scope["query_string"].decode()))
    kind = Headers(scope=scope).get("content-type", "").split(";")[0]
    if kind == "multipart/form-data":
        whole = Headers(scope=scope)["content-type"]
        return given | dict(_parse_multipart(body, whole.partition("boundary=")[2].strip('"').encode()))
    if kind == "application/json" and body:
        found: dict[str, Any] = json.loads(body)
        return given | found
    return {name: _parse_value(value) for name, value in (given | dict(parse_qsl(body.decode()))).items()}


def _parse_multipart(body: bytes, boundary: bytes) -> Iterator[tuple[str, Any]]:
    """Parse the parts of a form: texts, and files as their name and content."""
    for part in (b"\r\n" + body).split(b"\r\n--" + boundary)[1:-1]:
        head, _, content = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        named = dict(re.findall(r'\b(name|filename)="([^"]*)"', head.decode()))
        yield (
            named["name"],
            (named["filename"], content) if "filename" in named else _parse_value(content.decode()),
        )


def _parse_value(text: str) -> Any:
    if text[:1] in "[{" or text in ("true", "false"):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text

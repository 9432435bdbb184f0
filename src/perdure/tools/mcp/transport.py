"""Connects to an MCP server over the pipes of a process or over HTTP. It loads the MCP SDK.

A process inherits the listed variables, its pipes and nothing else: no socket, no lock. It ends when its input is
closed, and is killed with its whole process group if it does not. If the gateway itself is killed, the kernel
closes the input, and a server that follows the protocol ends; another one stays alive.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

import httpx2
import msgspec
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CONNECTION_CLOSED, INTERNAL_ERROR

from perdure.core import texts
from perdure.http_limits import AnswerLimits, bound_answers
from perdure.tools.descriptor_limit import with_inherited_limit
from perdure.tools.mcp.process_streams import open_process_streams
from perdure.tools.mcp.server import McpServer
from perdure.tools.sandbox import ConfinedLaunch, confined_launch

if TYPE_CHECKING:
    from mcp.client._transport import ReadStream, TransportStreams
    from mcp.shared.message import SessionMessage

UNSENT = "perdure: nothing was asked"  # marks our own errors: no server puts this into an error
REFUSED = "perdure: turned away"
LOST = "perdure: sent, and no answer"

SESSION_HEADER = "mcp-session-id"
CONNECT_SECONDS = 30.0  # to open a connection
MAX_SILENCE_SECONDS = 300.0  # without a byte, after which a stream counts as dead
MAX_MESSAGE_BYTES = 8 * 1024 * 1024  # of one message of a server
MAX_STDERR_CHARACTERS = 4000  # of a process's standard error that are kept
MAX_SHOWN_CHARACTERS = 300  # of them in a message

_log = logging.getLogger("perdure.tools.mcp")


@asynccontextmanager
async def open_streams(
    server: McpServer, stderr: StderrTail, mark_closed: Callable[[str], None]
) -> AsyncIterator[TransportStreams]:
    """Open the two streams of a connection; call `mark_closed` with the reason when they end."""
    async with AsyncExitStack() as stack:
        if server.command:
            errors = stack.enter_context(stderr.capture())
            launch, folder = stack.enter_context(_launch(server, server.command))
            opening = open_process_streams(
                launch,
                folder,
                errors,
                MAX_MESSAGE_BYTES,
                lambda: mark_closed(texts.tool_calls.mcp_message_too_large(MAX_MESSAGE_BYTES)),
            )
        else:
            http = await stack.enter_async_context(_http(server))
            opening = streamable_http_client(
                server.url or "", http_client=http, terminate_on_close=False, max_sse_event_size=MAX_MESSAGE_BYTES
            )
        read, write = await stack.enter_async_context(opening)
        yield _EndReportingStream(read, mark_closed), write


@contextmanager
def _launch(server: McpServer, command: tuple[str, ...]) -> Iterator[tuple[ConfinedLaunch, Path | None]]:
    """How and where to start the process of a server; it is started inside of the block.

    In the sandbox it has a folder of its own, and begins there; elsewhere it begins where the gateway is.
    """
    line, env = ("/usr/bin/env", "--", *command), server.environment(os.environ)  # `env` finds the program
    if server.sandbox is None or not server.is_confined:
        yield ConfinedLaunch(with_inherited_limit(*line), env, ()), None
        return
    sandbox, folder = server.sandbox.in_force(), server.sandbox.folder
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    sandbox.make_folders(folder)
    with confined_launch(sandbox, line, env, folder, folder) as launch:
        yield launch, folder


class StderrTail:
    """The last text on a process's standard error: often the only hint at why it ended."""

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self._tail = ""

    def __str__(self) -> str:
        # Redacted before it is shortened: half a secret would not be recognised.
        return " ".join(self._server.redact(self._tail).split())[-MAX_SHOWN_CHARACTERS:]

    @contextmanager
    def capture(self) -> Iterator[TextIO]:
        """A file for the standard error of a process, which is read as it is written."""
        self._tail = ""
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        loop = asyncio.get_running_loop()
        loop.add_reader(reading, self._read, reading)
        try:
            with os.fdopen(writing, "w") as errors:
                yield errors
        finally:
            loop.remove_reader(reading)
            while self._read(reading):
                pass
            os.close(reading)

    def _read(self, descriptor: int) -> bool:
        try:
            text = os.read(descriptor, 65536).decode(errors="replace")
        except BlockingIOError:
            return False
        self._tail = (self._tail + text)[-MAX_STDERR_CHARACTERS:]
        for line in text.splitlines():
            _log.debug(
                "mcp_stderr", extra={"fields": {"server": self._server.name, "line": self._server.redact(line)}}
            )
        return bool(text)


class _EndReportingStream:
    """A stream of messages that calls `mark_closed` at its end."""

    def __init__(self, inner: ReadStream[SessionMessage | Exception], mark_closed: Callable[[str], None]) -> None:
        self._inner = inner
        self._mark_closed = mark_closed

    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return await self._inner.receive()

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> _EndReportingStream:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self._inner.__anext__()
        except Exception:  # including StopAsyncIteration
            self._mark_closed(texts.tool_calls.MCP_CONNECTION_CLOSED)
            raise

    async def __aenter__(self) -> _EndReportingStream:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._inner.__aexit__(kind, error, trace)


# ── HTTP ────────────────────────────────────────────────────────────────────────────────────────────────────


def _http(server: McpServer) -> httpx2.AsyncClient:
    timeout = httpx2.Timeout(CONNECT_SECONDS, read=max(MAX_SILENCE_SECONDS, server.timeout + CONNECT_SECONDS))
    client = _ErrorReportingClient(headers=server.headers, timeout=timeout)
    # The streams of a connection stay open for ever, and only their single messages have an end. Of a message that
    # is too large for it, the SDK says so; the second limit is for what is no message at all.
    limits = AnswerLimits(body=MAX_MESSAGE_BYTES, event=2 * MAX_MESSAGE_BYTES)
    bound_answers(client, limits)
    return client


class _ErrorReportingClient(httpx2.AsyncClient):
    """Reports for each failed request whether it can have had an effect.

    The SDK takes a response that holds a protocol error as the answer to that one request. So a failure becomes
    such a response, and the other requests of the connection continue.
    """

    async def send(self, request: httpx2.Request, **how: Any) -> httpx2.Response:
        try:
            response = await super().send(request, **how)
            if response.status_code < 400:
                return response
            body = await response.aread()
        except (
            httpx2.ConnectError,
            httpx2.ConnectTimeout,
            httpx2.PoolTimeout,
            httpx2.UnsupportedProtocol,
        ) as error:
            return _failure(request, 503, UNSENT, texts.tool_calls.mcp_unreachable(_error_text(error)))
        except httpx2.TransportError as error:
            return _failure(request, 502, LOST, texts.tool_calls.mcp_connection_broke(_error_text(error)))
        return _error_response(request, response, body)


def _error_response(request: httpx2.Request, response: httpx2.Response, body: bytes) -> httpx2.Response:
    """The response, if it holds a protocol error, or else a new one that does.

    Some servers refuse a request with a code that means a broken connection when it comes from the SDK.
    """
    status = response.status_code
    if status == 404 and SESSION_HEADER in request.headers:
        return _failure(request, status, UNSENT, texts.tool_calls.MCP_SESSION_FORGOTTEN)
    kind = REFUSED if status < 500 else LOST
    try:
        error = msgspec.json.decode(body, type=_Answer).error
    except msgspec.MsgspecError:
        return _failure(request, status, kind, texts.tool_calls.mcp_http_status(status, response.reason_phrase))
    return _failure(request, status, kind, error.message) if error.code == CONNECTION_CLOSED else response


class _Error(msgspec.Struct):
    code: int
    message: str


class _Answer(msgspec.Struct):
    jsonrpc: str
    error: _Error


def _error_text(error: Exception) -> str:
    return str(error) or type(error).__name__


def _failure(request: httpx2.Request, status: int, kind: str, message: str) -> httpx2.Response:
    error = {"code": INTERNAL_ERROR, "message": message, "data": kind}
    return httpx2.Response(status, json={"jsonrpc": "2.0", "id": None, "error": error}, request=request)

"""One connection to an MCP server: lists its tools, and calls them. It loads the MCP SDK."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from typing import Any, NoReturn

import anyio
import msgspec
from mcp import Client, MCPError
from mcp.client.session import IncomingMessage
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.types import (
    CONNECTION_CLOSED,
    PARSE_ERROR,
    REQUEST_TIMEOUT,
    AudioContent,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    Implementation,
    ResourceLink,
    TextContent,
    TextResourceContents,
    Tool,
    ToolListChangedNotification,
)
from pydantic import ValidationError

from perdure.core import texts
from perdure.core.effects import Effect
from perdure.core.tools import Use
from perdure.errors import OutcomeUnknown, ToolFailed
from perdure.tools.mcp.server import McpServer
from perdure.tools.mcp.transport import LOST, REFUSED, UNSENT, StderrTail, open_streams
from perdure.version import __version__

OPENING_SECONDS = 60.0  # from the start of a process to the list of its tools
REQUEST_SECONDS = 30.0  # for every request but a tool call
WRITE_SECONDS = 5.0  # for a call to be written
RELISTEN_SECONDS = 15.0  # after a subscription broke off
MAX_PAGES = 100  # of a list of tools, which might never end
MAX_TOOLS = 1000  # of a server; further pages are not asked for
IDEMPOTENCY_KEY = "perdure/idempotency-key"  # of a keyed call, in `_meta`

_log = logging.getLogger("perdure.tools.mcp")
logging.getLogger("mcp").addHandler(logging.NullHandler())  # the SDK's own logs are dropped


class McpConnectionEnded(Exception):
    """The connection has ended, or could not be opened; the message says why."""


class McpCallNotSent(Exception):
    """A call has not reached the server, and may be sent over another connection; the message says why."""


class McpConnection:
    """A connection that is opened once, offers tools, and ends once."""

    def __init__(
        self, server: McpServer, mark_connected: Callable[[], None], mark_disconnected: Callable[[], None]
    ) -> None:
        self._server = server
        self._mark_connected = mark_connected
        self._mark_disconnected = mark_disconnected
        self._stderr = StderrTail(server)
        self._client: Client | None = None
        self._end_reason: str | None = None  # why no more calls are accepted
        self._calls = 0
        self._stale = False
        self._changed = asyncio.Event()
        self.offered_tools: tuple[Tool, ...] = ()

    async def run(self) -> NoReturn:
        """Connect, stay connected, and raise `McpConnectionEnded` at the end of the connection."""
        try:
            await self._stay_connected()
        except Exception as error:  # any failure of a server or the SDK ends this connection only
            raise McpConnectionEnded(self._explain(error)) from error
        finally:
            self.retire(texts.tool_calls.MCP_CONNECTION_CLOSED)
        raise McpConnectionEnded(self._explain(McpConnectionEnded(self._end_reason)))

    def retire(self, why: str) -> None:
        """Accept no more calls; those under way may end."""
        if self._end_reason is None:
            self._end_reason = why
            self._mark_disconnected()
        self._changed.set()

    async def call(self, tool: str, effect: Effect, use: Use) -> str:
        """Call a tool, and return its answer as text.

        `McpCallNotSent`: nothing was done. `ToolFailed`: the call was refused or failed, or was interrupted and
        may be repeated. `OutcomeUnknown`: it was interrupted and may have run.
        """
        try:
            result = await self._call_tool(
                tool, {IDEMPOTENCY_KEY: use.key} if effect is Effect.KEYED else None, use.arguments
            )
        except MCPError as error:
            raise self._call_error(error, effect) from error
        except TimeoutError as error:
            raise self._interrupted_error(texts.tool_calls.mcp_timed_out(self._server.timeout), effect) from error
        except (
            RuntimeError,
            ValidationError,
        ) as error:  # the answer does not follow the protocol or the tool's schema
            raise self._interrupted_error(texts.tool_calls.mcp_unreadable(str(error)), effect) from error
        text = result_text(result)
        if result.is_error:
            raise ToolFailed(text)
        return text

    # ── inside ──────────────────────────────────────────────────────────────────────────────────────────────

    async def _stay_connected(self) -> None:
        with anyio.move_on_after(OPENING_SECONDS) as opening:
            async with self._make() as client:
                await self._list(client)
                opening.deadline = math.inf
                self._client = client
                self._mark_connected()
                await self._keep_tools_fresh(client)
        if opening.cancelled_caught:
            raise McpConnectionEnded(texts.tool_calls.mcp_slow_start(OPENING_SECONDS))

    def _make(self) -> Client:
        return Client(
            open_streams(self._server, self._stderr, self.retire),
            client_info=Implementation(name="perdure", version=__version__),
            read_timeout_seconds=REQUEST_SECONDS,
            message_handler=self._on_message,
            cache=None,
        )

    async def _on_message(self, message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._mark_stale()
        elif isinstance(message, Exception):
            _log.warning(
                "mcp_bad_message", extra={"fields": {"server": self._server.name, "error": type(message).__name__}}
            )

    def _mark_stale(self) -> None:
        self._stale = True
        self._changed.set()

    async def _keep_tools_fresh(self, client: Client) -> None:
        """Keep the list of tools up to date until the connection is retired and its last call has ended."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._listen, client)
            while self._end_reason is None or self._calls:
                await self._changed.wait()
                self._changed.clear()
                if self._stale and self._end_reason is None:
                    await self._refresh(client)
            group.cancel_scope.cancel()

    async def _refresh(self, client: Client) -> None:
        self._stale = False
        try:
            await self._list(client)
        except (MCPError, ValidationError) as error:
            self.retire(str(error))

    async def _list(self, client: Client) -> None:
        offered: list[Tool] = []
        cursor = None
        for _ in range(MAX_PAGES if client.server_capabilities.tools else 0):
            page = await client.list_tools(cursor=cursor)
            offered += page.tools
            cursor = page.next_cursor
            if not cursor or len(offered) >= MAX_TOOLS:
                break
        self.offered_tools = tuple({tool.name: tool for tool in reversed(offered)}.values())[::-1]

    async def _listen(self, client: Client) -> None:
        """Subscribe to changes of the tools, as newer servers require; after each gap, list the tools again."""
        while True:
            try:
                async with client.listen(tools_list_changed=True) as changes:
                    self._mark_stale()
                    async for _ in changes:
                        self._mark_stale()
            except ListenNotSupportedError:
                return
            except (MCPError, SubscriptionLost, TimeoutError) as error:
                self._mark_stale()  # refused, or the server is gone: listing the tools will tell
                if isinstance(error, MCPError):
                    return
            await anyio.sleep(RELISTEN_SECONDS)

    async def _call_tool(self, tool: str, meta: Any, arguments: dict[str, Any]) -> CallToolResult:
        if self._client is None or self._end_reason is not None:
            raise McpCallNotSent(self._end_reason)
        self._calls += 1
        try:
            # The SDK's timeout starts when the call is written, and a process that hangs may not even read it.
            async with asyncio.timeout(self._server.timeout + WRITE_SECONDS):
                return await self._client.call_tool(tool, arguments, self._server.timeout, meta=meta)
        finally:
            self._calls -= 1
            self._changed.set()

    def _call_error(self, error: MCPError, effect: Effect) -> McpCallNotSent | ToolFailed | OutcomeUnknown:
        message = self._server.redact(error.message)
        if error.data in (UNSENT, REFUSED, LOST):
            self.retire(message)
        if error.data == UNSENT:
            return McpCallNotSent(message)
        if error.data == LOST:
            return self._interrupted_error(message, effect)
        if error.code == REQUEST_TIMEOUT:
            return self._interrupted_error(texts.tool_calls.mcp_timed_out(self._server.timeout), effect)
        if error.code == PARSE_ERROR:
            return self._interrupted_error(texts.tool_calls.mcp_unreadable(message), effect)
        if error.code == CONNECTION_CLOSED:
            if self._server.url:
                self.retire(message)  # a process has ended when its output ends
            return self._interrupted_error(self._end_reason or message, effect)
        return ToolFailed(texts.tool_calls.mcp_call_refused(self._server.name, message))

    def _interrupted_error(self, why: str, effect: Effect) -> ToolFailed | OutcomeUnknown:
        reason = texts.tool_calls.mcp_no_answer(self._server.name, why)
        if effect is Effect.PURE:
            return ToolFailed(texts.tool_calls.mcp_may_be_repeated(reason))
        return OutcomeUnknown(reason)

    def _explain(self, error: BaseException) -> str:
        """Why there is no connection, as a sentence; of several errors the first, which caused the others."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        known = isinstance(error, McpConnectionEnded | MCPError)
        why = str(error) if known else f"{type(error).__name__}: {error}"
        if isinstance(error, MCPError) and error.code == CONNECTION_CLOSED:
            why = self._end_reason or why
        return self._server.redact(texts.tool_calls.mcp_server_ended(why, str(self._stderr)))


# ── results ─────────────────────────────────────────────────────────────────────────────────────────────────


def result_text(result: CallToolResult) -> str:
    """The texts of a result and a short description of its other blocks, or else its structured content."""
    text = "\n".join(_block_text(block) for block in result.content)
    if not text.strip() and result.structured_content is not None:
        return msgspec.json.encode(result.structured_content).decode()
    return text or texts.phrases.NO_OUTPUT


def _block_text(block: ContentBlock) -> str:
    match block:
        case TextContent(text=text):
            return text
        case ImageContent(mime_type=kind, data=data) | AudioContent(mime_type=kind, data=data):
            return texts.tool_calls.binary_content(kind, _decoded_size(data))
        case ResourceLink(name=name, uri=uri):
            return texts.tool_calls.resource_link(name, uri)
        case EmbeddedResource(resource=TextResourceContents(uri=uri, text=text)):
            return texts.tool_calls.embedded_resource(uri, text)
        case EmbeddedResource(resource=resource):
            return texts.tool_calls.resource_link(resource.mime_type or "a file", resource.uri)


def _decoded_size(data: str) -> int:
    """The number of bytes in a base64 text, calculated from its length: a damaged text must not fail the call."""
    return len(data.rstrip("=")) * 3 // 4

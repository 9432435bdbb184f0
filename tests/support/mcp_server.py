"""A real MCP server for tests, over standard input and output or over streamable HTTP.

    python mcp_server.py                        over standard input and output
    python mcp_server.py --port 0               over HTTP; its first line of output is its URL
    python mcp_server.py --old                  refuses what came after the protocol of 2025

Over HTTP, `--bearer TOKEN` turns away everybody who does not present the token, and `--json` answers without
streams.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.runner import serve_loop
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.types import (
    METHOD_NOT_FOUND,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import ASGIApp, Receive, Scope, Send

READ_ONLY_HINT = ToolAnnotations(read_only_hint=True)
IDEMPOTENT_HINT = ToolAnnotations(idempotent_hint=True)


def append_line(file: str, line: str) -> None:
    """Add a line to a file, so that a test can count how often something really ran."""
    with Path(file).open("a") as trace:
        trace.write(f"{line}\n")


async def echo(text: str) -> str:
    """Says what it was told."""
    return text


async def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


async def count(file: str) -> str:
    """Adds a line to a file, once for every run."""
    append_line(file, "ran")
    return "counted"


def put(file: str, text: str) -> str:
    """Makes a file hold a text, however often it is asked to."""
    Path(file).write_text(text)
    return "put"


def read(file: str) -> str:
    """Reads a file."""
    return Path(file).read_bytes().decode(errors="replace")


async def slow(seconds: float, file: str) -> str:
    """Adds a line to a file, and answers much later."""
    append_line(file, "began")
    await asyncio.sleep(seconds)
    append_line(file, "ended")
    return "at last"


async def look(seconds: float, file: str) -> str:
    """Like slow, but declared to change nothing."""
    return await slow(seconds, file)


async def fail(why: str = "no reason") -> str:
    """Always fails."""
    raise ToolError(why)


async def die() -> str:
    """Ends the server's process instead of answering."""
    print("I was told to die", file=sys.stderr, flush=True)
    os._exit(3)


async def order(file: str, context: Context[Any, Any]) -> str:
    """Notes the idempotency key that came with the call."""
    meta = dict(context.request_context.meta or {})
    append_line(file, str(meta.get("perdure/idempotency-key")))
    return "ordered"


async def grow(name: str, context: Context[Any, Any]) -> str:
    """Offers one more tool from now on, and says so to everybody who listens."""

    async def grown() -> str:
        return name

    context.mcp_server.add_tool(grown, name=name, description="Came later.", annotations=READ_ONLY_HINT)
    await context.notify_tools_changed()
    await context.session.send_tool_list_changed()
    return f"{name} is there"


async def show() -> CallToolResult:
    """Answers with more than text."""
    return CallToolResult(
        content=[
            TextContent(text="Here they are:"),
            ImageContent(data="aGVsbG8=", mime_type="image/png"),
            ResourceLink(uri="file:///plan.txt", name="the plan"),
            EmbeddedResource(resource=TextResourceContents(uri="file:///note.txt", text="a note")),
        ]
    )


async def measure() -> CallToolResult:
    """Answers with structure only."""
    return CallToolResult(content=[], structured_content={"width": 3, "height": 4})


def environment() -> str:
    """Names the variables that the process was started with."""
    started = Path("/proc/self/environ").read_bytes().split(b"\0")
    return " ".join(sorted(pair.decode().partition("=")[0] for pair in started if pair))


async def variable(name: str) -> str:
    """The value of an environment variable."""
    return os.environ.get(name, "(unset)")


def open_files() -> str:
    """What the open descriptors of the process refer to, one a line."""
    return "\n".join(str(entry.readlink()) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink())


async def pid() -> int:
    """The id of the server's process."""
    return os.getpid()


TOOLS: list[tuple[Callable[..., Any], ToolAnnotations | None]] = [
    (echo, READ_ONLY_HINT),
    (add, READ_ONLY_HINT),
    (count, None),
    (put, IDEMPOTENT_HINT),
    (read, READ_ONLY_HINT),
    (slow, None),
    (look, READ_ONLY_HINT),
    (fail, None),
    (die, None),
    (order, None),
    (grow, None),
    (show, READ_ONLY_HINT),
    (measure, READ_ONLY_HINT),
    (environment, READ_ONLY_HINT),
    (variable, READ_ONLY_HINT),
    (open_files, READ_ONLY_HINT),
    (pid, READ_ONLY_HINT),
]


def make_server(old: bool) -> MCPServer[Any]:
    """The server with its tools."""
    server: MCPServer[Any] = MCPServer(
        "tests", log_level="WARNING", middleware=[refuse_new_protocol] if old else []
    )
    for tool, hints in TOOLS:
        server.add_tool(tool, annotations=hints, structured_output=False)
    server.add_tool(echo, name="say.it", annotations=READ_ONLY_HINT, structured_output=False)
    return server


async def refuse_new_protocol(ctx: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
    """Answer like a server that knows nothing but the handshake."""
    if ctx.method == "server/discover":
        raise MCPError(METHOD_NOT_FOUND, "Method not found")
    return await call_next(ctx)


async def serve_old_protocol(server: MCPServer[Any]) -> None:
    """Over standard input and output, with the handshake of 2025 only."""
    inner = server._lowlevel_server
    async with stdio_server() as (read, write), inner.lifespan(inner) as state:
        await serve_loop(inner, read, write, lifespan_state=state)


class BearerGuard:
    """Turns away every request without the token."""

    def __init__(self, app: ASGIApp, bearer: str) -> None:
        self._app = app
        self._wanted = f"Bearer {bearer}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from starlette.responses import JSONResponse

        if scope["type"] == "http" and dict(scope["headers"]).get(b"authorization") != self._wanted:
            await JSONResponse({"error": "who are you?"}, 401)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


async def serve_http(server: MCPServer[Any], arguments: argparse.Namespace) -> None:
    import uvicorn

    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", arguments.port))
        listening.listen()  # before anybody learns the URL
        print(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", flush=True)
        app: ASGIApp = server.streamable_http_app(json_response=arguments.json)
        if arguments.bearer:
            app = BearerGuard(app, arguments.bearer)
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
        await uvicorn.Server(config).serve(sockets=[listening])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    parser.add_argument("--old", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--bearer")
    arguments = parser.parse_args()
    server = make_server(arguments.old)
    if arguments.port is not None:
        asyncio.run(serve_http(server, arguments))
    elif arguments.old:
        asyncio.run(serve_old_protocol(server))
    else:
        server.run()


if __name__ == "__main__":
    main()

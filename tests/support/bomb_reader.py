"""`python -m support.bomb_reader KIND TARGET`: asks one server as the gateway does, and prints what came of it.

The last line is the peak of this process's memory in bytes, without what was there before it asked.
"""

from __future__ import annotations

import asyncio
import resource
import sys

import httpx

from perdure.agents.providers.http_client import ANSWER_LIMITS, ExchangeFailed, ProviderHttp
from perdure.errors import ToolFailed
from perdure.httpx_limits import bound_answers
from perdure.tools.fetch import fetch
from perdure.tools.mcp import McpServer
from perdure.tools.mcp.connection import McpConnection, McpConnectionEnded

# A message without an end, on standard output.
ENDLESS_LINE = "import sys\nwhile True: sys.stdout.write('x' * 1_000_000)"


async def ask_provider(url: str) -> str:
    http = ProviderHttp()
    try:
        async with http.send("POST", f"{url}/chat/completions", {}, b"{}", silence_seconds=60) as answer:
            return f"read {len(await answer.read())} bytes"
    except ExchangeFailed as error:
        return f"{type(error).__name__}: {error}"
    finally:
        http.close()


async def ask_with_httpx(url: str) -> str:
    """Ask as a provider's library does that brings the other HTTP client, such as groq's and cohere's."""
    async with httpx.AsyncClient() as client:
        bound_answers(client, ANSWER_LIMITS)
        try:
            answer = await client.post(f"{url}/chat/completions", json={}, timeout=60)
        except httpx.HTTPError as error:
            return f"{type(error).__name__}: {error}"
        return f"read {len(answer.content)} bytes"


async def ask_mcp(server: McpServer) -> str:
    try:
        await McpConnection(server, lambda: None, lambda: None).run()
    except McpConnectionEnded as error:
        return str(error)


async def ask_page(url: str) -> str:
    try:
        text = await fetch(url, permits=lambda _: True, timeout=120)
    except ToolFailed as error:
        return str(error)
    return f"{text[:200]} … {text[-300:]}"


async def ask(kind: str, target: str) -> str:
    match kind:
        case "provider":
            return await ask_provider(target)
        case "provider-httpx":
            return await ask_with_httpx(target)
        case "mcp":
            return await ask_mcp(McpServer("bomb", url=target))
        case "mcp-process":
            return await ask_mcp(McpServer("bomb", command=(sys.executable, "-c", ENDLESS_LINE)))
        case _:
            return await ask_page(target)


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    before = peak_bytes()
    print(asyncio.run(ask(*sys.argv[1:])))
    print(peak_bytes() - before)


if __name__ == "__main__":
    main()

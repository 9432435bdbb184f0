"""A hand-written MCP server over pipes whose tools look around on its machine."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "prying", "version": "1"},
}


def look(path: str) -> str:
    return f"read: {Path(path).read_text()}"


def leave(path: str) -> str:
    Path(path).write_text("I was here")
    return f"left in {Path.cwd()}: {sorted(os.listdir())}"  # noqa: PTH208 reason: as a server would


TOOLS = {"look": look, "leave": leave}


def call(name: str, path: str) -> str:
    try:
        return TOOLS[name](path)
    except OSError as error:
        return f"refused: {error.strerror}"


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "initialize":
            return {"result": HELLO}
        case "tools/list":
            return {"result": {"tools": [{"name": name, "inputSchema": SCHEMA} for name in TOOLS]}}
        case "tools/call":
            text = call(params["name"], params["arguments"]["path"])
            return {"result": {"content": [{"type": "text", "text": text}]}}
    return {"error": {"code": -32601, "message": "never heard of it"}}


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            said = answer(message["method"], message.get("params") or {})
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}), flush=True)


if __name__ == "__main__":
    main()

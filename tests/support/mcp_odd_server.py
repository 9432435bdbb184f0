"""A hand-written MCP server with odd behaviour, over pipes, with the handshake of 2025 only.

It prints what is no message, lists its tools on two pages and one of them twice, and its tools break the rules:
`promise` declares a structure and does not return it, `own_code` answers with the code of a closed connection,
`bare` says nothing at all.
"""

from __future__ import annotations

import json
import sys
from typing import Any

OBJECT = {"type": "object"}
PAGES: dict[str | None, dict[str, Any]] = {
    None: {
        "tools": [
            {"name": "promise", "inputSchema": OBJECT, "outputSchema": OBJECT},
            {"name": "look", "inputSchema": OBJECT, "outputSchema": OBJECT, "annotations": {"readOnlyHint": True}},
        ],
        "nextCursor": "more",
    },
    "more": {
        "tools": [
            {"name": "own_code", "inputSchema": OBJECT},
            {"name": "bare", "inputSchema": OBJECT, "title": "Says nothing"},
            {"name": "bare", "inputSchema": OBJECT, "title": "Again"},
        ]
    },
}
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "odd", "version": "1"},
}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method, params.get("name"):
        case "initialize", _:
            return {"result": HELLO}
        case "tools/list", _:
            return {"result": PAGES[params.get("cursor")]}
        case "tools/call", "own_code":
            return {"error": {"code": -32000, "message": "out of paper"}}
        case "tools/call", "bare":
            return {"result": {"content": []}}
        case "tools/call", _:
            return {"result": {"content": [{"type": "text", "text": "done"}]}}
    return {"error": {"code": -32601, "message": "never heard of it"}}


def main() -> None:
    print("Welcome to the odd server!", flush=True)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            said = answer(message["method"], message.get("params") or {})
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}), flush=True)


if __name__ == "__main__":
    main()

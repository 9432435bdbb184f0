"""A model that does whatever it reads: the worst that a person, a page or a tool's result can make of one."""

from __future__ import annotations

import json

from perdure.testing.providers import Says, Wish
from perdure.testing.providers.answers import Asked

ORDER = "CALL "  # begins a line that orders a tool call: CALL shell {"command": "id"}


def call(tool: str, **arguments: object) -> str:
    """The line that makes the model call a tool."""
    return f"{ORDER}{tool} {json.dumps(arguments)}"


def obey(asked: Asked) -> Says:
    """Call the tools that the last message orders, whoever wrote it; without an order, repeat the message."""
    orders = [line.strip().removeprefix(ORDER) for line in asked.text.splitlines() if ORDER in line]
    found = [line.partition(" ") for line in orders]
    calls = [Wish(tool, arguments) for tool, _, arguments in found if _is_json(arguments)]
    return Says(calls=calls) if calls else Says(asked.text or "(nothing)")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True

"""The tool that the model of the bench calls: it costs next to nothing, so that only the way there is measured."""

from __future__ import annotations

from perdure import tool

NAME = "look"
ARGUMENTS = '{"name": "notes.txt"}'


@tool(effect="pure")
async def look(name: str) -> str:
    """Look at a file."""
    return f"{name} has 42 lines."

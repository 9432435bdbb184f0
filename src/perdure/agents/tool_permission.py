"""Which tools a turn may use, by the right of the person whose words began it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from perdure.agents.api import TurnContext
from perdure.core import texts
from perdure.core.journal import QuestionAnswered, TurnView
from perdure.core.messages import Attachment
from perdure.core.roles import ToolRights
from perdure.core.tools import Tool

READ_FILE = "read_file"


def offered_tools(context: TurnContext, rights: ToolRights, tools: Mapping[str, Tool]) -> dict[str, Tool]:
    """The tools that the model is told of: those of the role, and `read_file` if the person has sent a file."""
    allowed = {name: tool for name, tool in tools.items() if rights.allows(name)}
    if READ_FILE in tools and READ_FILE not in allowed and _sent_paths(context, rights.person):
        allowed[READ_FILE] = tools[READ_FILE]
    return allowed


def refusal(context: TurnContext, rights: ToolRights, tool: str, arguments: Mapping[str, Any]) -> str:
    """Why a call must not run, for the model; empty if it may.

    Everybody may read a file that they have sent themselves in this conversation, by the path that the model was
    told: it is a part of what they said.
    """
    if rights.allows(tool):
        return ""
    if tool == READ_FILE and arguments.get("path") in _sent_paths(context, rights.person):
        return ""
    return texts.tool_calls.not_permitted(tool, rights.role)


def _sent_paths(context: TurnContext, person: str) -> set[str]:
    """The paths of the files that a person has sent in this conversation."""
    files = (file for view in (*context.history, context.view) for file in _files_of(view, person))
    return {path for file in files if (path := context.find(file)) is not None}


def _files_of(view: TurnView, person: str) -> Iterator[Attachment]:
    for cause in view.causes:
        yield from cause.attachments if cause.sender.id == person else ()
    for record in view.records:
        if isinstance(record.entry, QuestionAnswered) and record.entry.by.id == person:
            yield from record.entry.attachments

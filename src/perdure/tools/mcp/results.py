"""What an MCP tool answered, as the text that a model reads. Imported only when a server is named."""

from __future__ import annotations

import msgspec
from mcp.types import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from perdure.core import texts


def result_text(result: CallToolResult) -> str:
    """The texts of a result, with everything else named in words; its structure if there is no text."""
    said = "\n".join(_part(block) for block in result.content)
    if not said.strip() and result.structured_content is not None:
        return msgspec.json.encode(result.structured_content).decode()
    return said or texts.phrases.NO_OUTPUT


def _part(block: ContentBlock) -> str:
    match block:
        case TextContent(text=text):
            return text
        case ImageContent(mime_type=kind, data=data) | AudioContent(mime_type=kind, data=data):
            return texts.mcp.binary_content(kind, _size(data))
        case ResourceLink(name=name, uri=uri):
            return texts.mcp.resource_link(name, uri)
        case EmbeddedResource(resource=TextResourceContents(uri=uri, text=text)):
            return texts.mcp.embedded_resource(uri, text)
        case EmbeddedResource(resource=resource):
            return texts.mcp.resource_link(resource.mime_type or "a file", resource.uri)


def _size(data: str) -> int:
    """How many bytes a text in base 64 stands for: reckoned, since a result must not fail over a bad one."""
    return len(data.rstrip("=")) * 3 // 4

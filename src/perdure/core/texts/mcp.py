"""Messages about MCP servers and the results of their tools."""

from __future__ import annotations

from perdure.core.texts import phrases

NOT_CONNECTED_YET = "not connected yet"
RECONNECTING = "the connection was lost; connecting again"
SESSION_FORGOTTEN = "it has forgotten our session"
CONNECTION_CLOSED = "the server closed the connection"


def unreachable(why: str) -> str:
    return f"it cannot be reached ({why})"


def connection_broke(why: str) -> str:
    return f"the connection broke ({why})"


def message_too_large(most: int) -> str:
    return f"it sent a message of more than {phrases.byte_size(most)}, which was not read"


def http_status(status: int, phrase: str) -> str:
    return f"it answered HTTP {status} {phrase}".rstrip()


def slow_start(seconds: float) -> str:
    return f"the server did not list its tools within {seconds:g} s"


def server_ended(why: str, last_words: str) -> str:
    return f"{why}; its last words: …{last_words}" if last_words else why


def failed_in_sandbox(why: str, server: str) -> str:
    """Why a server that runs in the sandbox does not come up, and what the operator can do."""
    more = "tools.sandbox_read shows it more files"
    return f"{why} (it runs in the sandbox: {more}, and tools.mcp.{server}.sandbox = false lets it out)"


def not_connected(server: str, why: str) -> str:
    return f"nothing was done: the MCP server {server!r} is not connected ({why}). Try later, or do without it."


def call_refused(server: str, why: str) -> str:
    return f"the MCP server {server!r} refused the call: {why}"


def no_answer(server: str, why: str) -> str:
    return f"the MCP server {server!r} gave no answer: {why}."


def may_be_repeated(said: str) -> str:
    return f"{said} The call changes nothing, and may be repeated."


def timed_out(seconds: float) -> str:
    return f"it took longer than {seconds:g} s"


def unreadable(why: str) -> str:
    return f"what it sent cannot be read ({phrases.clip(why, 500)})"


def binary_content(kind: str, size: int) -> str:
    return f"[a file that cannot be shown here: {kind}, {size} bytes]"


def resource_link(name: str, uri: str) -> str:
    return f"[a link to {name}: {uri}]"


def embedded_resource(uri: str, text: str) -> str:
    return f"[enclosed: {uri}]\n{text}"

"""What the model is told about tool calls: those that did not run or failed, fetched pages, MCP servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.core.texts import phrases


def format_call(tool: str, arguments: Mapping[str, Any]) -> str:
    """A call as code, with long arguments shortened."""
    return f"{tool}({', '.join(f'{name}={phrases.clip(repr(value), 300)}' for name, value in arguments.items())})"


OUTCOME_UNKNOWN = "outcome unknown: this call was cut off; it may have run. Look before you repeat it."
STARTED_ELSEWHERE = (
    "outcome unknown: this was begun on another machine, and cannot be seen from here. Look before you repeat it."
)
CANCELLED = "cancelled: the turn ended before this call gave a result."
REPEATED = "not run: you have made this very call several times already. Do something else, or answer."


def not_permitted(tool: str, role: str | None) -> str:
    """Why a call is refused: the person whose words began the turn has no right to this tool."""
    who = f"is a {role} here" if role else "is not known here any more"
    return (
        f"`{tool}` is not for this turn: the person who began it {who}. Answer without it, or say that you cannot."
    )


def outcome_unknown(why: str) -> str:
    return f"outcome unknown: {why} It may have run. Look before you repeat it."


def timed_out(seconds: float) -> str:
    return f"the call was given up after {seconds:g} s."


def too_many(count: int) -> str:
    return f"[{count} more calls than allowed at once were left out]"


def arguments_too_long(size: int, limit: int) -> str:
    return f"the arguments are {size} characters long; at most {limit} are taken. Do it in smaller pieces."


def arguments_not_json(problem: str, written: str) -> str:
    return f"the arguments are no JSON object ({problem}): {phrases.clip(written, 200)!r}"


def unknown_tool(tool: str, known: list[str]) -> str:
    return f"there is no tool named {tool!r}; the tools are: {', '.join(known) or 'none'}"


def failed(error: BaseException) -> str:
    return f"the tool failed: {type(error).__name__}: {error}"


DONE = "done"


def argument_missing(name: str, schema: str) -> str:
    return f"`{name}` is missing; its schema is {phrases.clip(schema, 400)}."


def argument_misfit(place: str, problem: str, came: str, schema: str) -> str:
    said = f"{problem[:1].lower()}{problem[1:]}"
    return (
        f"`{place}`: {said}; the argument came as {phrases.clip(came, 200)}, its schema is "
        f"{phrases.clip(schema, 400)}."
    )


def unknown_argument(name: str) -> str:
    return f"There is no argument `{name[:100]}`."


def arguments_misfit(tool: str, problems: Sequence[str], known: Sequence[str]) -> str:
    takes = ", ".join(f"`{name}`" for name in known) or "no arguments"
    return f"`{tool}` was not run, because its arguments do not fit. {' '.join(problems)} It takes {takes}."


def tried_to_exit(tool: str, code: object) -> str:
    return f"`{tool}` wanted to end the whole process (exit code {code!r}), which a tool cannot do."


def result_not_json(tool: str, kind: str, error: BaseException) -> str:
    return f"`{tool}` ran to its end, but its result, of the type {kind}, cannot be told as JSON: {error}"


def fetch_bad_url(url: str, why: str) -> str:
    return (
        f"`{phrases.clip(url, 200)}` cannot be fetched: {why}. Give an address such as https://example.org/page."
    )


def fetch_unknown_host(host: str) -> str:
    return f"There is no host `{phrases.clip(host, 200)}`, or its name cannot be looked up just now."


def fetch_not_public(host: str, address: str) -> str:
    return f"`{phrases.clip(host, 200)}` ({address}) is not on the public internet, so it is not fetched."


def fetch_too_many_redirects(url: str, limit: int) -> str:
    return f"`{phrases.clip(url, 200)}` leads on and on: more than {limit} redirects were not followed."


def fetch_failed(url: str, problems: Sequence[str]) -> str:
    return f"`{phrases.clip(url, 200)}` could not be fetched: {'; '.join(dict.fromkeys(problems))}."


def fetch_timed_out(url: str, seconds: float) -> str:
    return f"`{phrases.clip(url, 200)}` was given up: it was not read to its end within {seconds:g} s."


def fetch_http_error(url: str, status: str, text: str) -> str:
    begins = f" Its answer begins:\n{phrases.clip(text.strip(), 1000)}" if text.strip() else ""
    return f"`{phrases.clip(url, 200)}` answered {status}.{begins}"


def fetched_page(url: str, kind: str, text: str, limit: int | None) -> str:
    cut = f", only the first {limit} bytes" if limit is not None else ""
    return (
        f"`{phrases.clip(url, 2000)}` ({kind or 'no type given'}{cut}):\n\n{text.strip() or '(nothing to read)'}"
    )


def fetch_not_text(kind: str, size: str) -> str:
    return f"(This is not text but {kind or 'something else'}, {f'{size} bytes' if size else 'of unknown size'}.)"


def fetched_raw_page(page: str) -> str:
    return f"(The page is written in a way that cannot be made readable. It begins:)\n{page[:5000]}"


def fetch_unknown_encoding(encoding: str) -> str:
    return f"(The server packed its answer in a way that cannot be unpacked: {phrases.clip(encoding, 100)}.)"


MCP_NOT_CONNECTED_YET = "not connected yet"
MCP_RECONNECTING = "the connection was lost; connecting again"
MCP_SESSION_FORGOTTEN = "it has forgotten our session"
MCP_CONNECTION_CLOSED = "the server closed the connection"


def mcp_unreachable(why: str) -> str:
    return f"it cannot be reached ({why})"


def mcp_connection_broke(why: str) -> str:
    return f"the connection broke ({why})"


def mcp_message_too_large(most: int) -> str:
    return f"it sent a message of more than {phrases.byte_size(most)}, which was not read"


def mcp_http_status(status: int, phrase: str) -> str:
    return f"it answered HTTP {status} {phrase}".rstrip()


def mcp_slow_start(seconds: float) -> str:
    return f"the server did not list its tools within {seconds:g} s"


def mcp_server_ended(why: str, last_words: str) -> str:
    return f"{why}; its last words: …{last_words}" if last_words else why


def mcp_failed_in_sandbox(why: str, server: str) -> str:
    """Why a server that runs in the sandbox does not come up, and what the operator can do."""
    more = "tools.sandbox_read shows it more files"
    return f"{why} (it runs in the sandbox: {more}, and tools.mcp.{server}.sandbox = false lets it out)"


def mcp_not_connected(server: str, why: str) -> str:
    return f"nothing was done: the MCP server {server!r} is not connected ({why}). Try later, or do without it."


def mcp_call_refused(server: str, why: str) -> str:
    return f"the MCP server {server!r} refused the call: {why}"


def mcp_no_answer(server: str, why: str) -> str:
    return f"the MCP server {server!r} gave no answer: {why}."


def mcp_may_be_repeated(said: str) -> str:
    return f"{said} The call changes nothing, and may be repeated."


def mcp_timed_out(seconds: float) -> str:
    return f"it took longer than {seconds:g} s"


def mcp_unreadable(why: str) -> str:
    return f"what it sent cannot be read ({phrases.clip(why, 500)})"


def binary_content(kind: str, size: int) -> str:
    return f"[a file that cannot be shown here: {kind}, {size} bytes]"


def resource_link(name: str, uri: str) -> str:
    return f"[a link to {name}: {uri}]"


def embedded_resource(uri: str, text: str) -> str:
    return f"[enclosed: {uri}]\n{text}"

"""The protocol of an API's format, the refusal of a request, and the checks that both APIs share."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NoReturn, Protocol

from perdure.testing.providers.answers import Api, Fails, PreparedReply, StreamFrame

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]+")


class RequestRefused(Exception):
    """The service refuses this request. `param` names the wrong part."""

    def __init__(self, message: str, *, status: int = 400, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.param = param


def refuse(where: str, why: str) -> NoReturn:
    """Refuse the request because of its part at `where`."""
    raise RequestRefused(f"{where}: {why}", param=where)


def expect_text(where: str, text: object) -> None:
    """Refuse a value that is no text, and blank text."""
    if not isinstance(text, str):
        refuse(where, f"expected a string, got {describe_value(text)}.")
    if not text.strip():
        refuse(where, "the text is blank; every text must say something.")


def expect_object(where: str, value: object) -> dict[str, Any]:
    """Refuse a value that is no JSON object."""
    if not isinstance(value, dict):
        refuse(where, f"expected an object, got {describe_value(value)}.")
    return value


def expect_list(where: str, value: object) -> list[Any]:
    """Refuse a value that is no list, and an empty list."""
    if not isinstance(value, list):
        refuse(where, f"expected a list, got {describe_value(value)}.")
    if not value:
        refuse(where, "expected at least one entry, got an empty list.")
    return value


def expect_tool_name(where: str, name: object, max_chars: int) -> str:
    """Refuse an invalid name of a tool."""
    if not isinstance(name, str) or not TOOL_NAME.fullmatch(name) or len(name) > max_chars:
        refuse(
            where,
            f"{describe_value(name)} can be no tool's name; expected up to {max_chars} letters, digits, - or _.",
        )
    return name


def expect_known_tool(where: str, name: str, known: Collection[str]) -> None:
    """Refuse a tool that was never offered."""
    if name not in known:
        refuse(where, f"no tool is named {name!r}; known are: {', '.join(sorted(known)) or 'none'}.")


def expect_schema(where: str, schema: object) -> None:
    """Refuse a schema that does not describe an object."""
    if expect_object(where, schema).get("type") != "object":
        refuse(where, f"a schema of type 'object' is expected, got {describe_value(schema)}.")


def expect_model(body: dict[str, Any]) -> str:
    """Refuse a request without a model."""
    model = body.get("model")
    if not isinstance(model, str) or not model:
        refuse("model", f"expected the name of a model, got {describe_value(model)}.")
    return model


def describe_value(value: object) -> str:
    """Return a short description of a value, at most one line long."""
    spelled = "nothing" if value is None else repr(value)
    return spelled if len(spelled) <= 60 else spelled[:57] + "…"


class ApiDialect(Protocol):
    """The format and the rules of one API."""

    NAME: Api
    CALL_PREFIX: str
    REPLY_PREFIX: str

    def api_key(self, headers: Mapping[str, str]) -> str:
        """Return the API key of the request."""

    def check_headers(self, headers: Mapping[str, str]) -> None:
        """Refuse a request with wrong headers."""

    def check_request(self, body: dict[str, Any], known: set[str]) -> None:
        """Refuse a request that breaks a rule; `known` are tools beside those that the request offers."""

    def unknown_model(self, model: str) -> RequestRefused:
        """Return the refusal of an unknown model."""

    def wants_usage(self, body: dict[str, Any], streamed: bool) -> bool:
        """Tell whether the client asks for the usage."""

    def encode_whole(self, reply: PreparedReply) -> bytes:
        """Encode an unstreamed answer."""

    def opening_frames(self, reply: PreparedReply) -> Iterator[StreamFrame]:
        """Yield the frames before the first piece of a stream."""

    def body_frames(self, reply: PreparedReply) -> Iterator[StreamFrame]:
        """Yield the pieces of a stream with their framing."""

    def closing_frames(self, reply: PreparedReply) -> Iterator[StreamFrame]:
        """Yield the frames after the last piece of a stream."""

    def encode_error(self, failure: Fails, param: str | None = None) -> bytes:
        """Encode an error as the whole answer."""

    def stream_error_frame(self, failure: Fails) -> StreamFrame:
        """Encode an error inside a stream."""

"""The protocol of an API's format, which `openai.py` and `anthropic.py` implement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from perdure.testing.providers.answers import Api, Fails, PreparedReply, StreamFrame
from perdure.testing.providers.refusals import RequestRefused


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

"""What an API must be able to spell; `openai.py` and `anthropic.py` are the two that do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from perdure.testing.providers.answers import Api, Fails, PreparedReply, StreamFrame
from perdure.testing.providers.refusals import RequestRefused


class ApiDialect(Protocol):
    """The spelling and the demands of one API."""

    NAME: Api
    CALL_PREFIX: str
    REPLY_PREFIX: str

    def api_key(self, headers: Mapping[str, str]) -> str:
        """The key that the client shows."""

    def check_headers(self, headers: Mapping[str, str]) -> None:
        """Refuse a request whose headers will not do."""

    def check_request(self, body: dict[str, Any], known: set[str]) -> None:
        """Refuse a request that is not as it must be; `known` are tools beside those it offers."""

    def unknown_model(self, model: str) -> RequestRefused:
        """The refusal of a model that does not exist."""

    def wants_usage(self, body: dict[str, Any], streamed: bool) -> bool:
        """Whether the client wants to know the usage."""

    def encode_whole(self, reply: PreparedReply) -> bytes:
        """The answer in one piece."""

    def opening_frames(self, reply: PreparedReply) -> Iterator[StreamFrame]:
        """What comes before the first piece of a stream."""

    def body_frames(self, reply: PreparedReply) -> Iterator[StreamFrame]:
        """The pieces of a stream, and what frames them."""

    def closing_frames(self, reply: PreparedReply) -> Iterator[StreamFrame]:
        """What comes after the last piece of a stream."""

    def encode_error(self, failure: Fails, param: str | None = None) -> bytes:
        """An error as an answer of its own."""

    def stream_error_frame(self, failure: Fails) -> StreamFrame:
        """An error as it comes inside a stream."""

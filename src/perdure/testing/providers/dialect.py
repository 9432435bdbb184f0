"""What an API must be able to spell; `openai.py` and `anthropic.py` are the two that do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from perdure.testing.providers.answers import Api, Fails, Frame, Reply
from perdure.testing.providers.refusals import Refused


class Dialect(Protocol):
    """The spelling and the demands of one API."""

    NAME: Api
    CALL_PREFIX: str
    REPLY_PREFIX: str

    def key(self, headers: Mapping[str, str]) -> str:
        """The key that the client shows."""

    def check_headers(self, headers: Mapping[str, str]) -> None:
        """Refuse a request whose headers will not do."""

    def check(self, body: dict[str, Any], known: set[str]) -> None:
        """Refuse a request that is not as it must be; `known` are tools beside those it offers."""

    def unknown_model(self, model: str) -> Refused:
        """The refusal of a model that does not exist."""

    def wants_usage(self, body: dict[str, Any], streamed: bool) -> bool:
        """Whether the client wants to know the usage."""

    def whole(self, reply: Reply) -> bytes:
        """The answer in one piece."""

    def opening(self, reply: Reply) -> Iterator[Frame]:
        """What comes before the first piece of a stream."""

    def body(self, reply: Reply) -> Iterator[Frame]:
        """The pieces of a stream, and what frames them."""

    def closing(self, reply: Reply) -> Iterator[Frame]:
        """What comes after the last piece of a stream."""

    def error(self, failure: Fails, param: str | None = None) -> bytes:
        """An error as an answer of its own."""

    def broken(self, failure: Fails) -> Frame:
        """An error as it comes inside a stream."""

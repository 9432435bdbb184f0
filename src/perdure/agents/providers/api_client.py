"""Asks a model over HTTP, in the API of its provider: the exchange that all APIs have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from perdure.agents.api import ModelRequest, PreviewCallback
from perdure.agents.providers.client import MAX_ANSWER_CHARS, LoadedImages, ModelClient, RequestTooLong
from perdure.agents.providers.event_stream import EventDecoder
from perdure.agents.providers.failures import (
    Refusal,
    connection_error,
    decode_body,
    garbled_answer_error,
    refusal_error,
)
from perdure.agents.providers.http_client import ExchangeFailed, HttpAnswer, ProviderHttp
from perdure.agents.providers.known_models import known_context_window
from perdure.agents.providers.responses import ProviderResponse, incomplete_answer_error, to_model_answered
from perdure.core import texts
from perdure.core.journal import ModelAnswered
from perdure.errors import ModelCallFailed
from perdure.version import __version__

USER_AGENT = f"perdure/{__version__}"


class RefusedAnswer(Exception):
    """A provider answered with an error."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.kind.value)
        self.refusal = refusal


class StreamReader(ABC):
    """Puts a streamed answer together, event by event."""

    @property
    @abstractmethod
    def text(self) -> str:
        """The text so far."""

    @property
    @abstractmethod
    def has_end(self) -> bool:
        """Whether the provider's own mark that ends a stream has come as an event."""

    @abstractmethod
    def add(self, event: dict[str, Any]) -> None:
        """Add an event; `RefusedAnswer` if it is an error, ValueError and its like if it makes no sense."""

    @abstractmethod
    def response(self, *, ended: bool) -> ProviderResponse:
        """The whole answer; `ended`: the mark that ends a stream has come, so that no finish reason is needed."""


class ProviderApi(ABC):
    """How requests and answers of one API are written, for one model."""

    model: str

    @abstractmethod
    def must_stream(self) -> bool:
        """Whether answers of this model take so long that they are streamed even if nobody sees them grow."""

    @abstractmethod
    def body(self, request: ModelRequest, images: LoadedImages, *, streamed: bool) -> dict[str, Any]: ...

    @abstractmethod
    def address(self) -> str: ...

    @abstractmethod
    def headers(self) -> Mapping[str, str]: ...

    @abstractmethod
    def read_whole(self, answer: dict[str, Any]) -> ProviderResponse:
        """Read an answer that came at once; ValueError and its like if it makes no sense."""

    @abstractmethod
    def open_stream(self) -> StreamReader: ...

    @abstractmethod
    def refusal(self, status: int, headers: Mapping[str, str], body: Any) -> Refusal:
        """Say what an answer with this HTTP status means."""

    def learn_from_refusal(self, refusal: Refusal) -> bool:
        """Change what is sent from now on, because of a refusal. True: the request is made again at once."""
        return False


class ApiClient(ModelClient):
    """Asks one model over HTTP."""

    def __init__(self, api: ProviderApi, http: ProviderHttp, secrets: Sequence[str] = ()) -> None:
        """`secrets` are removed from the provider's error messages: some of them repeat the key."""
        self.context_window = known_context_window(api.model)
        self._api = api
        self._http = http
        self._secrets = secrets

    async def close(self) -> None:
        self._http.close()

    async def ask(
        self,
        request: ModelRequest,
        images: LoadedImages,
        show_preview: PreviewCallback | None,
        silence_seconds: float,
    ) -> ModelAnswered:
        while True:
            try:
                response = await self._exchange(request, images, show_preview, silence_seconds)
                return to_model_answered(request.step, response)
            except RefusedAnswer as error:
                if not self._api.learn_from_refusal(error.refusal):
                    raise self._refusal_error(error) from error
            except ExchangeFailed as error:
                raise connection_error(error, self._secrets) from error

    def _refusal_error(self, error: RefusedAnswer) -> ModelCallFailed | RequestTooLong:
        return refusal_error(error.refusal, self._api.model, self._secrets)

    async def _exchange(
        self,
        request: ModelRequest,
        images: LoadedImages,
        show_preview: PreviewCallback | None,
        silence_seconds: float,
    ) -> ProviderResponse:
        streamed = show_preview is not None or self._api.must_stream()
        body = msgspec.json.encode(self._api.body(request, images, streamed=streamed))
        headers = {"Content-Type": "application/json", "User-Agent": USER_AGENT, **self._api.headers()}
        async with self._http.send(
            "POST", self._api.address(), headers, body, silence_seconds=silence_seconds
        ) as answer:
            if not 200 <= answer.status < 300:
                content = decode_body(await answer.read())
                raise RefusedAnswer(self._api.refusal(answer.status, answer.headers, content))
            if streamed:
                return await self._read_stream(answer, show_preview)
            return self._read_whole(await answer.read())

    def _read_whole(self, content: bytes) -> ProviderResponse:
        answer = decode_body(content)
        if not isinstance(answer, dict):
            raise garbled_answer_error(f"the answer is no JSON object: {answer!r:.100}", self._secrets)
        try:
            return self._api.read_whole(answer)
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise garbled_answer_error(f"the answer cannot be read: {error!r}", self._secrets) from error

    async def _read_stream(self, answer: HttpAnswer, show_preview: PreviewCallback | None) -> ProviderResponse:
        events, reader, shown = EventDecoder(), self._api.open_stream(), ""
        async with aclosing(answer.pieces()) as pieces:
            async for piece in pieces:
                if events.is_new and piece.lstrip().startswith(b"{"):  # the server does not stream
                    return self._read_whole(piece + b"".join([rest async for rest in pieces]))
                self._add_events(events, piece, reader)
                text = reader.text
                if len(text) > MAX_ANSWER_CHARS:
                    raise incomplete_answer_error(texts.agents.answer_too_long(MAX_ANSWER_CHARS))
                if show_preview is not None and len(text) > len(shown):
                    shown = text
                    show_preview(shown)
                if events.done or reader.has_end:
                    break
        if events.done or reader.has_end:
            await answer.drain()
        try:
            return reader.response(ended=events.done or reader.has_end)
        except ValueError as error:
            raise garbled_answer_error(str(error), self._secrets) from error

    def _add_events(self, events: EventDecoder, piece: bytes, reader: StreamReader) -> None:
        try:
            for event in events.decode(piece):
                reader.add(_require_object(event))
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise garbled_answer_error(str(error), self._secrets) from error


def _require_object(event: Any) -> dict[str, Any]:
    if not isinstance(event, dict):
        raise TypeError(f"a piece of the answer is no object: {event!r:.100}")
    return event

"""A local model provider: an HTTP server in a thread with its own event loop.

The provider speaks the APIs of OpenAI and Anthropic, answers by its script, and refuses what the services refuse.
"""

from __future__ import annotations

import msgspec
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from perdure.testing.local_server import ClientConnection, ClientGone, CloseConnection, LocalServer
from perdure.testing.providers import anthropic, openai
from perdure.testing.providers.answers import Answer, Asked, Fails, Says, Script
from perdure.testing.providers.context_window import SIZE_PATHS, Window
from perdure.testing.providers.dialect import ApiDialect, RequestRefused
from perdure.testing.providers.playback import Constant, play_answer, send_error

DEFAULT_KEY = "local-key"
MISSING_MODEL = "missing"  # the one model that does not exist


class LocalProvider(LocalServer):
    """Serves inside a `with` block. `script` may change at any time; without a script the answer is "ok".

    `requests` holds all requests, in order. `known_tools` are tools that a conversation may contain
    beside those that the request offers: the provider adds each tool that it has called. With a `window`, a
    request or answer that is too long is refused or truncated; `looked_up` holds the paths of size requests.
    """

    def __init__(
        self,
        script: Script | Constant | None = None,
        *,
        key: str = DEFAULT_KEY,
        port: int = 0,
        window: Window | None = None,
    ) -> None:
        super().__init__("local-provider", port)
        self.script: Script | Constant = [] if script is None else script
        self.key = key
        self.requests: list[Asked] = []
        self.known_tools: set[str] = set()
        self.window = window
        self.looked_up: list[str] = []

    @property
    def openai_url(self) -> str:
        """The `base_url` for OpenAI's clients."""
        return f"{self.url}/v1"

    @property
    def anthropic_url(self) -> str:
        """The `base_url` for Anthropic's clients."""
        return self.url

    @property
    def refusals(self) -> list[str]:
        """Return the reasons of all refusals; empty if every request was well-formed."""
        return [asked.problem for asked in self.requests if asked.outcome == "refused"]

    def _app(self, close_connection: CloseConnection) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/chat/completions", _ApiEndpoint(self, openai, close_connection), methods=["POST"]),
                Route("/v1/messages", _ApiEndpoint(self, anthropic, close_connection), methods=["POST"]),
                *(Route(path, self._answer_window_size, methods=["GET"]) for path in SIZE_PATHS),
            ]
        )

    def _answer_window_size(self, request: Request) -> Response:
        """Answer a request for the size of the context window."""
        self.looked_up.append(request.url.path)
        told = self.window.size_answer(request.url.path) if self.window is not None else None
        found = told if told is not None else {"error": {"message": "Not Found"}}
        return Response(msgspec.json.encode(found), 404 if told is None else 200, media_type="application/json")

    def next_answer(self, asked: Asked) -> Answer:
        """Return the scripted answer to this request."""
        if isinstance(self.script, list):
            return self.script.pop(0) if self.script else Says("ok")
        return Says("ok") if isinstance(self.script, Constant) else self.script(asked)


class _ApiEndpoint:
    """The ASGI endpoint of one API."""

    def __init__(self, provider: LocalProvider, dialect: ApiDialect, close_connection: CloseConnection) -> None:
        self._provider = provider
        self._dialect = dialect
        self._close_connection = close_connection

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        line = ClientConnection(scope, receive, send, self._close_connection)
        try:
            body = await line.read()
            if isinstance(self._provider.script, Constant):
                await self._provider.script.answer(line, self._dialect, body)
            else:
                await self._handle(Headers(scope=scope), line, body)
        except ClientGone:
            return
        finally:
            await line.stop_watching()

    async def _handle(self, headers: Headers, line: ClientConnection, body: bytes) -> None:
        """Check a request, record it, and answer or refuse it."""
        asked = Asked(self._dialect.NAME, {})
        self._provider.requests.append(asked)
        try:
            self._check_request(headers, asked, body)
        except RequestRefused as refused:
            asked.outcome, asked.problem = "refused", refused.message
            await send_error(Fails(refused.status, message=refused.message), line, self._dialect, refused.param)
            return
        window = self._provider.window
        used = window.count(asked.body) if window is not None else 0
        if window is not None and used >= window.tokens:
            asked.outcome = "too long"
            await line.answer(400, msgspec.json.encode(window.refusal(used)))
            return
        answer = self._provider.next_answer(asked)
        if window is not None and isinstance(answer, Says):
            answer = window.cut(answer, used)
        says = answer if isinstance(answer, Says) else getattr(answer, "of", Says())
        self._provider.known_tools.update(call.tool for call in says.calls)
        try:
            await play_answer(answer, asked, line, self._dialect)
        except ClientGone:
            asked.outcome = "left"

    def _check_request(self, headers: Headers, asked: Asked, body: bytes) -> None:
        """Refuse a request for its first violation, as the service would."""
        if self._dialect.api_key(headers) != self._provider.key:
            raise RequestRefused("This is not the key of the local provider.", status=401)
        self._dialect.check_headers(headers)
        try:
            asked.body = msgspec.json.decode(body, type=dict)
        except msgspec.DecodeError as error:
            raise RequestRefused(f"The body of the request is no JSON object: {error}.") from error
        asked.streamed = asked.body.get("stream") is True
        if asked.body.get("model") == MISSING_MODEL:
            raise self._dialect.unknown_model(MISSING_MODEL)
        self._dialect.check_request(asked.body, self._provider.known_tools)
        asked.messages = asked.body["messages"]

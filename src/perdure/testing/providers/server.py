"""A model provider on this machine: a real HTTP server, in a thread with its own event loop.

It speaks the APIs of OpenAI and Anthropic, answers what its script says, and refuses what those services refuse.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Self

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from perdure.testing.providers import anthropic, openai
from perdure.testing.providers.answers import Answer, Asked, Fails, Says, Script
from perdure.testing.providers.constant import Constant
from perdure.testing.providers.dialect import Dialect
from perdure.testing.providers.line import HangUp, Left, Line
from perdure.testing.providers.play import fail, play
from perdure.testing.providers.refusals import Refused

KEY = "local-key"
MISSING = "missing"  # the one model that does not exist
KEEP_ALIVE = 75  # seconds; longer than clients keep a connection
CLOSING = 5  # seconds that clients get to notice that they were cut off


class LocalProvider:
    """Listens while its `with` block runs. Change `script` at any time; without one the answer is "ok".

    `requests` is everything it was asked, in order. `known_tools` are tools that a conversation may speak of
    beside those which the request offers: the provider adds each that it has called itself.
    """

    def __init__(self, script: Script | Constant | None = None, *, key: str = KEY, port: int = 0) -> None:
        self.script: Script | Constant = [] if script is None else script
        self.key = key
        self.requests: list[Asked] = []
        self.known_tools: set[str] = set()
        self._port = port
        self._listening: Future[int] = Future()
        self._thread = threading.Thread(target=self._run, name="local-provider", daemon=True)
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        self._port = self._listening.result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

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
        """Why requests were refused: empty as long as everything sent here was well-formed."""
        return [asked.problem for asked in self.requests if asked.outcome == "refused"]

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # whatever it is, it belongs to the thread that waits for us to listen
            if self._listening.done():
                raise
            self._listening.set_exception(error)

    async def _serve(self) -> None:
        listening = _listen(self._port)
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = _Server(self._app, self._stop, lambda: self._listening.set_result(listening.getsockname()[1]))
        await server.serve(sockets=[listening])

    def _app(self, hang_up: HangUp) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/chat/completions", _Door(self, openai, hang_up), methods=["POST"]),
                Route("/v1/messages", _Door(self, anthropic, hang_up), methods=["POST"]),
            ]
        )

    def next_answer(self, asked: Asked) -> Answer:
        """What the script says to this request."""
        if isinstance(self.script, list):
            return self.script.pop(0) if self.script else Says("ok")
        return Says("ok") if isinstance(self.script, Constant) else self.script(asked)


class _Door:
    """Where the requests of one API come in."""

    def __init__(self, provider: LocalProvider, dialect: Dialect, hang_up: HangUp) -> None:
        self._provider = provider
        self._dialect = dialect
        self._hang_up = hang_up

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        line = Line(scope, receive, send, self._hang_up)
        try:
            body = await line.read()
            if isinstance(self._provider.script, Constant):
                await self._provider.script.answer(line, self._dialect, body)
            else:
                await self._take(Headers(scope=scope), line, body)
        except Left:
            return
        finally:
            await line.forget()

    async def _take(self, headers: Headers, line: Line, body: bytes) -> None:
        """Check the request, and answer it or refuse it. Either way it is remembered."""
        asked = Asked(self._dialect.NAME, {})
        self._provider.requests.append(asked)
        try:
            self._admit(headers, asked, body)
        except Refused as refused:
            asked.outcome, asked.problem = "refused", refused.message
            await fail(Fails(refused.status, message=refused.message), line, self._dialect, refused.param)
            return
        answer = self._provider.next_answer(asked)
        says = answer if isinstance(answer, Says) else getattr(answer, "of", Says())
        self._provider.known_tools.update(call.tool for call in says.calls)
        try:
            await play(answer, asked, line, self._dialect)
        except Left:
            asked.outcome = "left"

    def _admit(self, headers: Headers, asked: Asked, body: bytes) -> None:
        """Refuse a request as the service would, for the first thing that is wrong with it."""
        if self._dialect.key(headers) != self._provider.key:
            raise Refused("This is not the key of the local provider.", status=401)
        self._dialect.check_headers(headers)
        try:
            asked.body = msgspec.json.decode(body, type=dict)
        except msgspec.DecodeError as error:
            raise Refused(f"The body of the request is no JSON object: {error}.") from error
        asked.streamed = asked.body.get("stream") is True
        if asked.body.get("model") == MISSING:
            raise self._dialect.unknown_model(MISSING)
        self._dialect.check(asked.body, self._provider.known_tools)
        asked.messages = asked.body["messages"]


class _Server(uvicorn.Server):
    """Uvicorn that stops at an event, cuts off whoever is still being answered, and can cut off any client."""

    def __init__(
        self, make_app: Callable[[HangUp], Starlette], stop: asyncio.Event, on_listening: Callable[[], None]
    ) -> None:
        super().__init__(
            uvicorn.Config(
                make_app(self.hang_up),
                http="h11",
                lifespan="off",
                log_config=None,
                access_log=False,
                ws="none",
                timeout_keep_alive=KEEP_ALIVE,
                timeout_graceful_shutdown=CLOSING,
            )
        )
        self._stop = stop
        self._on_listening = on_listening

    async def main_loop(self) -> None:
        self._on_listening()
        await self._stop.wait()
        for connection in list(self.server_state.connections):
            connection.transport.close()

    def hang_up(self, scope: Scope) -> None:
        for connection in list(self.server_state.connections):
            if getattr(connection, "client", None) == scope["client"]:
                connection.transport.close()


def _listen(port: int) -> socket.socket:
    # Named as TCP, so that asyncio sends small pieces at once: otherwise each may wait 40 ms for the one before.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
    except OSError:
        listening.close()
        raise
    return listening

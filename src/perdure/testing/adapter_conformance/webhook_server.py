"""The HTTP server to which a platform posts; it outlives the gateways and passes posts to the running one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from perdure.platforms.api import Adapter, WebhookResponse
from perdure.testing.client_connection import CloseConnection
from perdure.testing.local_server import LocalServer

NO_GATEWAY = WebhookResponse(502, "nobody is behind this door")


class WebhookPost(Struct):
    """A post, and the status of the adapter's answer."""

    status: int | None = None


class WebhookServer(LocalServer):
    """A proxy before the gateways; it answers by itself while no gateway runs."""

    def __init__(self) -> None:
        super().__init__("conformance-door")
        self.posts: list[WebhookPost] = []  # posts that were passed to an adapter
        self.lose_answers = 0  # switch: how many answers are lost
        self._adapter_loop = asyncio.get_running_loop()
        self._adapter: Adapter | None = None
        self._pending_answers: set[asyncio.Task[WebhookResponse]] = set()
        self._listening_started = False

    async def open(self) -> None:
        self._listening_started = True
        await asyncio.to_thread(self.__enter__)

    async def close(self) -> None:
        self.route_to(None)
        if self._listening_started:
            await asyncio.to_thread(self.__exit__, None, None, None)

    def route_to(self, adapter: Adapter | None) -> None:
        """Pass posts to this adapter; unanswered posts to the adapter before it are disconnected."""
        self._adapter = adapter
        for task in self._pending_answers:
            task.cancel()

    def _app(self, close_connection: CloseConnection) -> Starlette:
        return Starlette(routes=[Route("/hooks/{platform}", self._receive_post, methods=["POST"])])

    async def _receive_post(self, request: Request) -> Response:
        """Pass a post from the thread of the server to the event loop of the adapter."""
        handing = self._forward(request.path_params["platform"], dict(request.headers), await request.body())
        answered = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(handing, self._adapter_loop))
        return Response(answered.body, answered.status, media_type=answered.media_type)

    async def _forward(self, platform: str, headers: Mapping[str, str], body: bytes) -> WebhookResponse:
        if self._adapter is None:
            return NO_GATEWAY
        if self._adapter.name != platform:
            return WebhookResponse(404, f"nobody here is called {platform}")
        self.posts.append(post := WebhookPost())
        answered = await self._answer(self._adapter, headers, body)
        post.status = answered.status
        if self.lose_answers:
            self.lose_answers -= 1
            return NO_GATEWAY
        return answered

    async def _answer(self, adapter: Adapter, headers: Mapping[str, str], body: bytes) -> WebhookResponse:
        """Return the adapter's answer; None if the adapter is killed or fails."""
        task = asyncio.ensure_future(adapter.take_post(headers, body))
        self._pending_answers.add(task)
        await asyncio.wait({task})
        self._pending_answers.discard(task)
        if task.cancelled():
            return NO_GATEWAY
        error = task.exception()
        return task.result() if error is None else WebhookResponse(500, repr(error))

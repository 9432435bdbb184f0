"""Where a platform posts to us: an address that outlives the gateways, and leads to the one that runs now."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from perdure.platforms.api import Adapter, Answered
from perdure.testing.line import HangUp
from perdure.testing.serving import LocalServer

NOBODY = Answered(502, "nobody is behind this door")


class Post(Struct):
    """Something that was posted, and the status that the adapter has answered with."""

    status: int | None = None


class Door(LocalServer):
    """Stands before the gateways as a proxy would, and answers by itself while none is there."""

    def __init__(self) -> None:
        super().__init__("conformance-door")
        self.posts: list[Post] = []  # those that an adapter was handed
        self.losing = 0  # switch: how many answers get lost on their way to the platform
        self._home = asyncio.get_running_loop()
        self._adapter: Adapter | None = None
        self._under_way: set[asyncio.Task[Answered]] = set()
        self._listens = False

    async def open(self) -> None:
        self._listens = True
        await asyncio.to_thread(self.__enter__)

    async def close(self) -> None:
        self.lead_to(None)
        if self._listens:
            await asyncio.to_thread(self.__exit__, None, None, None)

    def lead_to(self, adapter: Adapter | None) -> None:
        """Hand what is posted to this adapter. What the one before it has not answered yet is cut off."""
        self._adapter = adapter
        for task in self._under_way:
            task.cancel()

    def _app(self, hang_up: HangUp) -> Starlette:
        return Starlette(routes=[Route("/hooks/{platform}", self._take, methods=["POST"])])

    async def _take(self, request: Request) -> Response:
        """Take a post, on the thread of the server, to the loop on which the adapter lives."""
        handing = self._hand(request.path_params["platform"], dict(request.headers), await request.body())
        answered = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(handing, self._home))
        return Response(answered.body, answered.status, media_type=answered.media_type)

    async def _hand(self, platform: str, headers: Mapping[str, str], body: bytes) -> Answered:
        if self._adapter is None:
            return NOBODY
        if self._adapter.name != platform:
            return Answered(404, f"nobody here is called {platform}")
        self.posts.append(post := Post())
        answered = await self._answer(self._adapter, headers, body)
        post.status = answered.status
        if self.losing:
            self.losing -= 1
            return NOBODY
        return answered

    async def _answer(self, adapter: Adapter, headers: Mapping[str, str], body: bytes) -> Answered:
        """What the adapter answers; nothing of it, if it dies or fails over it."""
        task = asyncio.ensure_future(adapter.take_post(headers, body))
        self._under_way.add(task)
        await asyncio.wait({task})
        self._under_way.discard(task)
        if task.cancelled():
            return NOBODY
        error = task.exception()
        return task.result() if error is None else Answered(500, repr(error))

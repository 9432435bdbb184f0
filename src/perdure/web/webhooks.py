"""What platforms post to the gateway by themselves. Each adapter knows its own from somebody else's."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from perdure.runtime.gateway import Gateway
from perdure.web.requests import read_body
from perdure.web.responses import HttpRefusal
from perdure.web.routes import route


class WebhookApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @route(
        "POST",
        "/hooks/{platform}",
        "what a platform posts by itself, such as [Telegram](telegram.md#with-a-webhook)",
        login="no",
    )
    async def post(self, request: Request) -> Response:
        """Hand a post to the adapter of that name. Only what is stored is answered with success."""
        name = request.path_params["platform"]
        adapter = next((each for each in self._gateway.adapters if each.name == name and each.takes_posts), None)
        if adapter is None:
            raise HttpRefusal(404, f"no platform posts to {request.url.path}", "docs/http.md lists what there is.")
        answered = await adapter.take_post(dict(request.headers), await read_body(request))
        return Response(answered.body, answered.status, media_type=answered.media_type)

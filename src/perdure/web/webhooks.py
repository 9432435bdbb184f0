"""Webhooks: requests that chat platforms send to the gateway; each adapter authenticates its own."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from perdure.core import texts
from perdure.web.requests import read_body
from perdure.web.responses import HttpRefusal
from perdure.web.routes import GatewayApi, route


class WebhookApi(GatewayApi):
    @route(
        "POST",
        "/hooks/{platform}",
        "what a platform posts by itself, such as [Telegram](telegram.md#with-a-webhook)",
        login="no",
    )
    async def post(self, request: Request) -> Response:
        """Hand the request to its adapter, which reports success only after the update is stored."""
        name = request.path_params["platform"]
        adapter = next((each for each in self._gateway.adapters if each.name == name and each.takes_posts), None)
        if adapter is None:
            raise HttpRefusal(404, texts.http.unknown_webhook(request.url.path), texts.http.PATHS_HINT)
        answered = await adapter.take_post(dict(request.headers), await read_body(request))
        return Response(answered.body, answered.status, media_type=answered.media_type)

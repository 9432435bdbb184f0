"""The configuration in effect over HTTP, without its secrets."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from perdure.operations.configuration import effective_settings
from perdure.runtime.gateway import Gateway
from perdure.web.responses import json_response
from perdure.web.routes import route
from perdure.web.schemas.history import ConfigurationResponse


class ConfigurationApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @route(
        "GET",
        "/api/config",
        "the settings in effect, without the secrets among them",
        response_type=ConfigurationResponse,
    )
    async def get(self, _: Request) -> Response:
        settings = self._gateway.settings
        return json_response({"home": str(settings.home), "settings": effective_settings(settings)})

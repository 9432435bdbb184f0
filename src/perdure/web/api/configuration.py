"""The configuration in effect over HTTP, without its secrets."""

from __future__ import annotations

from starlette.requests import Request

from perdure.operations.configuration import effective_settings
from perdure.runtime.gateway import Gateway
from perdure.web.routes import json_route
from perdure.web.schemas.gateway import ConfigurationResponse


class ConfigurationApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @json_route(
        "GET", "/api/config", "the settings in effect, without the secrets among them", ConfigurationResponse
    )
    async def get(self, _: Request) -> ConfigurationResponse:
        settings = self._gateway.settings
        return ConfigurationResponse(str(settings.home), effective_settings(settings))

"""The configuration in effect over HTTP, without its secrets."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from perdure.console.accounts import Configuration
from perdure.console.answers import answer
from perdure.console.routes import call
from perdure.operations.configuration import effective
from perdure.runtime.gateway import Gateway


class ConfigurationApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @call("GET", "/api/config", "the settings in effect, without the secrets among them", answer=Configuration)
    async def get(self, _: Request) -> Response:
        settings = self._gateway.settings
        return answer({"home": str(settings.home), "settings": effective(settings)})

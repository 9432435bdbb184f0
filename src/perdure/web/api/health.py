"""Whether the gateway lives and can do its work, for whoever keeps it running. Asked without a login."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from perdure.runtime.gateway import Gateway, Phase
from perdure.web.responses import json_response
from perdure.web.routes import route
from perdure.web.schemas.resources import HealthResponse, ReadinessResponse


class HealthApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @route(
        "GET",
        "/healthz",
        "200 while the database takes writes, otherwise 503",
        login="no",
        response_type=HealthResponse,
        statuses=(200, 503),
    )
    async def live(self, _: Request) -> Response:
        """Whether the database takes writes."""
        problem = self._gateway.store.problem
        return json_response(
            {"healthy": problem is None, "reasons": [problem] if problem else []}, 503 if problem else 200
        )

    @route(
        "GET",
        "/readyz",
        "200 while every platform is connected and the gateway is not stopping, otherwise 503",
        login="no",
        response_type=ReadinessResponse,
        statuses=(200, 503),
    )
    async def ready(self, _: Request) -> Response:
        """Whether every platform is connected, and the gateway is not stopping."""
        reasons = self._gateway.problems()
        if self._gateway.phase is not Phase.READY:
            reasons.append(f"the gateway is {self._gateway.phase}")
        return json_response({"ready": not reasons, "reasons": reasons}, 503 if reasons else 200)

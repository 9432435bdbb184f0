"""Whether the gateway lives and can do its work, for whoever keeps it running. Asked without a login."""

from __future__ import annotations

from starlette.requests import Request

from perdure.runtime.gateway import Gateway, Phase
from perdure.web.routes import Reply, json_route
from perdure.web.schemas.gateway import HealthResponse, ReadinessResponse


class HealthApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @json_route(
        "GET",
        "/healthz",
        "200 while the database takes writes, otherwise 503",
        HealthResponse,
        login="no",
        statuses=(200, 503),
    )
    async def live(self, _: Request) -> Reply[HealthResponse]:
        """Whether the database takes writes."""
        problem = self._gateway.store.problem
        return Reply(HealthResponse(problem is None, [problem] if problem else []), 503 if problem else 200)

    @json_route(
        "GET",
        "/readyz",
        "200 while every platform is connected and the gateway is not stopping, otherwise 503",
        ReadinessResponse,
        login="no",
        statuses=(200, 503),
    )
    async def ready(self, _: Request) -> Reply[ReadinessResponse]:
        """Whether every platform is connected, and the gateway is not stopping."""
        reasons = self._gateway.problems()
        if self._gateway.phase is not Phase.READY:
            reasons.append(f"the gateway is {self._gateway.phase}")
        return Reply(ReadinessResponse(not reasons, reasons), 503 if reasons else 200)

"""The timeline of a turn and the decisions of recovery over HTTP."""

from __future__ import annotations

from starlette.requests import Request

from perdure.operations.resources import DecisionListResponse, TurnTimelineResponse
from perdure.operations.timeline import list_decisions, turn_timeline
from perdure.web.requests import read_decisions_after, read_path_id
from perdure.web.routes import GatewayApi, json_route

PAGE_SIZE = 100


class TurnApi(GatewayApi):
    @json_route(
        "GET",
        "/api/turns/{id}",
        "the whole life of a turn, see [below](#look-into-a-turn)",
        TurnTimelineResponse,
    )
    async def get(self, request: Request) -> TurnTimelineResponse:
        return await turn_timeline(self._gateway.store, read_path_id(request, "id", "turn"))

    @json_route(
        "GET",
        "/api/decisions",
        "what recovery decided, in words, newest first; `after` pages by `next`",
        DecisionListResponse,
        query=("after",),
    )
    async def decisions(self, request: Request) -> DecisionListResponse:
        return await list_decisions(self._gateway.store, read_decisions_after(request), PAGE_SIZE)

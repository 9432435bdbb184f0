"""Replies in the outbox over HTTP: list them, send one again, drop one."""

from __future__ import annotations

from starlette.requests import Request

from perdure.core import texts
from perdure.core.delivery import OutboxVerb
from perdure.core.logins import Scope
from perdure.operations.outbox import find_delivery, list_deliveries, outbox_verb_response
from perdure.operations.resources import OutboxResponse, OutboxVerbResponse
from perdure.web.requests import read_after, read_delivery_states, read_path_id
from perdure.web.responses import HttpRefusal
from perdure.web.routes import GatewayApi, json_route

PAGE_SIZE = 100


class OutboxApi(GatewayApi):
    @json_route(
        "GET",
        "/api/outbox",
        "replies, newest first, of one or more `state`s; `after` pages by `next`",
        OutboxResponse,
        query=("state", "after"),
        scope=Scope.READ,
    )
    async def list(self, request: Request) -> OutboxResponse:
        states, after = read_delivery_states(request), read_after(request, "reply")
        return await list_deliveries(self._gateway.store, states, after, PAGE_SIZE)

    @json_route(
        "POST",
        "/api/outbox/{id}/{verb}",
        "`resend` or `drop` a reply, see [below](#look-after-replies)",
        OutboxVerbResponse,
        scope=Scope.OPERATE,
    )
    async def act(self, request: Request) -> OutboxVerbResponse:
        """Apply `resend` or `drop` to a reply."""
        verb = request.path_params["verb"]
        if verb not in tuple(OutboxVerb):
            raise HttpRefusal(404, texts.http.unknown_verb(verb), texts.http.verbs(OutboxVerb))
        row = await find_delivery(self._gateway.store, read_path_id(request, "id", "reply"))
        operators = self._gateway.operator_verbs
        result = await (
            operators.resend_delivery(row) if verb == OutboxVerb.RESEND else operators.drop_delivery(row)
        )
        response = outbox_verb_response(OutboxVerb(verb), result)
        if result.outcome == "refused":
            raise HttpRefusal(409, texts.http.outbox_verb_refused(row.state, verb), response.said)
        return response

"""What happened, over HTTP: the life of a turn, decisions, and the outbox with its verbs."""

from __future__ import annotations

from starlette.requests import Request

from perdure.core.delivery import DeliveryState, OutboxVerb
from perdure.operations.outbox import find_delivery, list_deliveries, outbox_verb_response
from perdure.operations.resources import (
    DecisionListResponse,
    OutboxResponse,
    OutboxVerbResponse,
    TurnTimelineResponse,
)
from perdure.operations.timeline import list_decisions, turn_timeline
from perdure.runtime.gateway import Gateway
from perdure.store.decisions import CURSOR
from perdure.web.responses import ID_PATTERN, HttpRefusal
from perdure.web.routes import json_route

PAGE_SIZE = 100


class TurnApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

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


class OutboxApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @json_route(
        "GET",
        "/api/outbox",
        "replies, newest first, of one or more `state`s; `after` pages by `next`",
        OutboxResponse,
        query=("state", "after"),
    )
    async def list(self, request: Request) -> OutboxResponse:
        states, after = read_delivery_states(request), read_after(request, "reply")
        return await list_deliveries(self._gateway.store, states, after, PAGE_SIZE)

    @json_route(
        "POST",
        "/api/outbox/{id}/{verb}",
        "`resend` or `drop` a reply, see [below](#look-after-replies)",
        OutboxVerbResponse,
    )
    async def act(self, request: Request) -> OutboxVerbResponse:
        """resend or drop."""
        verb = request.path_params["verb"]
        if verb not in tuple(OutboxVerb):
            raise HttpRefusal(404, f"there is no verb {verb!r}", f"The verbs are: {', '.join(OutboxVerb)}.")
        row = await find_delivery(self._gateway.store, read_path_id(request, "id", "reply"))
        operators = self._gateway.operator_verbs
        result = await (
            operators.resend_delivery(row) if verb == OutboxVerb.RESEND else operators.drop_delivery(row)
        )
        response = outbox_verb_response(OutboxVerb(verb), result)
        if result.outcome == "refused":
            raise HttpRefusal(409, f"a reply that is {row.state} cannot be {PAST_TENSE[verb]}", response.said)
        return response


PAST_TENSE = {"resend": "resent", "drop": "dropped"}


def read_path_id(request: Request, name: str, what: str) -> str:
    """An id of ours in the path; anything else names nothing, and PostgreSQL could not always be asked for it."""
    given: str = request.path_params[name]
    if not ID_PATTERN.fullmatch(given):
        raise HttpRefusal(404, f"no {what} is named {given[:80]!r}", "The lists have the ids.")
    return given


def read_after(request: Request, what: str) -> str:
    """Where a page begins."""
    after = request.query_params.get("after", "")
    if after and not ID_PATTERN.fullmatch(after):
        raise HttpRefusal(
            400, f"after={after[:60]!r} is no id of a {what}", "Give the one that the page before named."
        )
    return after


def read_decisions_after(request: Request) -> str:
    after = request.query_params.get("after", "")
    if after and not CURSOR.fullmatch(after):
        raise HttpRefusal(400, f"after={after[:60]!r} is no place", "Give the `next` of the page before.")
    return after


def read_delivery_states(request: Request) -> list[DeliveryState]:
    """The states that are asked for; none means all of them."""
    words = [word for word in request.query_params.get("state", "").split(",") if word]
    unknown = [word for word in words if word not in tuple(DeliveryState)]
    if unknown:
        raise HttpRefusal(
            400, f"{unknown[0][:60]!r} is no state of a reply", f"The states are: {', '.join(DeliveryState)}."
        )
    return [DeliveryState(word) for word in words]

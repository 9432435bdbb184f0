"""What happened, over HTTP: the life of a turn, decisions, and the outbox with its verbs."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from perdure.console.accounts import Decisions, Life, MendedReply, Replies
from perdure.console.answers import OUR_ID, Refusal, answer
from perdure.console.routes import call
from perdure.core.delivery import Delivery, Mend
from perdure.operations.lives import decisions, turn_life
from perdure.operations.outbox import find_row, list_rows, mended_fields
from perdure.runtime.gateway import Gateway
from perdure.store.decisions import PLACE

PAGE = 100


class TurnApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @call("GET", "/api/turns/{id}", "the whole life of a turn, see [below](#look-into-a-turn)", answer=Life)
    async def get(self, request: Request) -> Response:
        return answer(await turn_life(self._gateway.store, our_id(request, "id", "turn")))

    @call(
        "GET",
        "/api/decisions",
        "what recovery decided, in words, newest first; `after` pages by `next`",
        query=("after",),
        answer=Decisions,
    )
    async def decisions(self, request: Request) -> Response:
        return answer(await decisions(self._gateway.store, decisions_after(request), PAGE))


class OutboxApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @call(
        "GET",
        "/api/outbox",
        "replies, newest first, of one or more `state`s; `after` pages by `next`",
        query=("state", "after"),
        answer=Replies,
    )
    async def list(self, request: Request) -> Response:
        return answer(
            await list_rows(self._gateway.store, wanted_states(request), read_after(request, "reply"), PAGE)
        )

    @call(
        "POST",
        "/api/outbox/{id}/{verb}",
        "`resend` or `drop` a reply, see [below](#look-after-replies)",
        answer=MendedReply,
    )
    async def act(self, request: Request) -> Response:
        """resend or drop."""
        verb = request.path_params["verb"]
        if verb not in tuple(Mend):
            raise Refusal(404, f"there is no verb {verb!r}", f"The verbs are: {', '.join(Mend)}.")
        row = await find_row(self._gateway.store, our_id(request, "id", "reply"))
        operators = self._gateway.operators
        mended = await (operators.resend(row) if verb == Mend.RESEND else operators.drop_reply(row))
        fields = mended_fields(mended)
        if mended.what == "refused":
            raise Refusal(409, f"a reply that is {row.state} cannot be {PAST[verb]}", fields["said"])
        return answer(fields | {"verb": verb})


PAST = {"resend": "resent", "drop": "dropped"}


def our_id(request: Request, name: str, what: str) -> str:
    """An id of ours in the path; anything else names nothing, and PostgreSQL could not always be asked for it."""
    given: str = request.path_params[name]
    if not OUR_ID.fullmatch(given):
        raise Refusal(404, f"no {what} is named {given[:80]!r}", "The lists have the ids.")
    return given


def read_after(request: Request, what: str) -> str:
    """Where a page begins."""
    after = request.query_params.get("after", "")
    if after and not OUR_ID.fullmatch(after):
        raise Refusal(
            400, f"after={after[:60]!r} is no id of a {what}", "Give the one that the page before named."
        )
    return after


def decisions_after(request: Request) -> str:
    after = request.query_params.get("after", "")
    if after and not PLACE.fullmatch(after):
        raise Refusal(400, f"after={after[:60]!r} is no place", "Give the `next` of the page before.")
    return after


def wanted_states(request: Request) -> list[Delivery]:
    """The states that are asked for; none means all of them."""
    words = [word for word in request.query_params.get("state", "").split(",") if word]
    unknown = [word for word in words if word not in tuple(Delivery)]
    if unknown:
        raise Refusal(
            400, f"{unknown[0][:60]!r} is no state of a reply", f"The states are: {', '.join(Delivery)}."
        )
    return [Delivery(word) for word in words]

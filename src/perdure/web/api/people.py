"""People over HTTP, for whoever runs the gateway: who is known, who asks, and the verbs that change that."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
from starlette.requests import Request

from perdure.operations.people import PeopleChange, PeopleVerbs
from perdure.operations.resources import PeopleResponse
from perdure.runtime.gateway import Gateway
from perdure.web.requests import read_json
from perdure.web.responses import HttpRefusal
from perdure.web.routes import json_route
from perdure.web.schemas.people import (
    AddPersonRequest,
    ChangeRoleRequest,
    PairPersonRequest,
    PersonChangeResponse,
    PersonRequest,
    RemovePersonRequest,
)

MAX_TEXT_CHARACTERS = 1000
PERSON_EXAMPLE = 'Send JSON such as {"code": "ABCD-EFGH", "role": "member"}; docs/people.md has the others.'


REQUEST_TYPES: dict[str, type[PersonRequest]] = {
    "pair": PairPersonRequest,
    "add": AddPersonRequest,
    "role": ChangeRoleRequest,
    "remove": RemovePersonRequest,
}


class PeopleApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @json_route(
        "GET",
        "/api/people",
        "who is known and who asks to be let in, see [below](#people); `after` pages by `place`",
        PeopleResponse,
        query=("after",),
    )
    async def list(self, request: Request) -> PeopleResponse:
        return await self._register().page(read_people_after(request))

    @json_route(
        "POST",
        "/api/people/{verb}",
        "`pair`, `add`, `role` or `remove` somebody",
        PersonChangeResponse,
        body=tuple(REQUEST_TYPES.values()),
    )
    async def act(self, request: Request) -> PersonChangeResponse:
        """pair, add, role or remove."""
        verb = request.path_params["verb"]
        if verb not in REQUEST_TYPES:
            raise HttpRefusal(404, f"there is no verb {verb!r}", f"The verbs are: {', '.join(REQUEST_TYPES)}.")
        words = await _read_person_request(request, REQUEST_TYPES[verb])
        act: Callable[..., Awaitable[PeopleChange]] = getattr(self._register(), verb)
        change = await act(**msgspec.structs.asdict(words))
        if change.done:
            await self._gateway.operator_verbs.apply_people_change(change.key)
        return PersonChangeResponse(change.done, change.said, change.who)

    def _register(self) -> PeopleVerbs:
        return PeopleVerbs(self._gateway.settings, self._gateway.store, self._gateway.operator_verbs.clock)


def read_people_after(request: Request) -> str:
    """Behind whom a page begins."""
    after = request.query_params.get("after", "")
    if "\0" in after or len(after) > MAX_TEXT_CHARACTERS:
        raise HttpRefusal(400, f"after={after[:60]!r} is nobody's place", "Give the `place` of the last one seen.")
    return after


async def _read_person_request(request: Request, body_type: type[PersonRequest]) -> PersonRequest:
    words = await read_json(request, body_type, PERSON_EXAMPLE)
    if any("\0" in text or len(text) > MAX_TEXT_CHARACTERS for text in _texts(words)):
        raise HttpRefusal(
            400, f"expected texts of at most {MAX_TEXT_CHARACTERS} characters, none of them NUL", PERSON_EXAMPLE
        )
    return words


def _texts(body: PersonRequest) -> list[str]:
    return [text for text in msgspec.structs.astuple(body) if isinstance(text, str)]

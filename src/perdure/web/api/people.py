"""People over HTTP: who is let in, who asks to be, and the verbs that change it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
from starlette.requests import Request

from perdure.core import texts
from perdure.core.logins import Scope
from perdure.operations.people import PeopleChange, PeopleVerbs
from perdure.operations.resources import PeopleResponse
from perdure.runtime.gateway import Gateway
from perdure.web.requests import read_people_after, read_person_request
from perdure.web.responses import HttpRefusal
from perdure.web.routes import GatewayApi, json_route
from perdure.web.schemas import (
    AddPersonRequest,
    ChangeRoleRequest,
    PairPersonRequest,
    PersonChangeResponse,
    PersonRequest,
    RemovePersonRequest,
)

REQUEST_TYPES: dict[str, type[PersonRequest]] = {
    "pair": PairPersonRequest,
    "add": AddPersonRequest,
    "role": ChangeRoleRequest,
    "remove": RemovePersonRequest,
}
# Each verb takes the fields of its request as arguments.
VERBS: dict[str, Callable[..., Awaitable[PeopleChange]]] = {
    "pair": PeopleVerbs.pair,
    "add": PeopleVerbs.add,
    "role": PeopleVerbs.role,
    "remove": PeopleVerbs.remove,
}


class PeopleApi(GatewayApi):
    @json_route(
        "GET",
        "/api/people",
        "who is known and who asks to be let in, see [below](#people); `after` pages by `place`",
        PeopleResponse,
        query=("after",),
        scope=Scope.READ,
    )
    async def list(self, request: Request) -> PeopleResponse:
        return await people_verbs(self._gateway).page(read_people_after(request))

    @json_route(
        "POST",
        "/api/people/{verb}",
        "`pair`, `add`, `role` or `remove` somebody",
        PersonChangeResponse,
        body=tuple(REQUEST_TYPES.values()),
        scope=Scope.OPERATE,
    )
    async def act(self, request: Request) -> PersonChangeResponse:
        """Apply `pair`, `add`, `role` or `remove` to a person."""
        verb = request.path_params["verb"]
        if verb not in REQUEST_TYPES:
            raise HttpRefusal(404, texts.http.unknown_verb(verb), texts.http.verbs(REQUEST_TYPES))
        body = await read_person_request(request, REQUEST_TYPES[verb])
        change = await VERBS[verb](people_verbs(self._gateway), **msgspec.structs.asdict(body))
        if change.done:
            await self._gateway.operator_verbs.apply_people_change(change.key)
        return PersonChangeResponse(change.done, change.said, change.who)


def people_verbs(gateway: Gateway) -> PeopleVerbs:
    """The verbs on the gateway's own store, by its own clock."""
    return PeopleVerbs(gateway.settings, gateway.store, gateway.operator_verbs.clock)

"""People over HTTP, for whoever runs the gateway: who is known, who asks, and the verbs that change that."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from perdure.console.answers import Refusal, answer
from perdure.console.bodies import read_json
from perdure.console.routes import call
from perdure.console.shapes import ChangedPerson, People
from perdure.core.people import Role
from perdure.operations.people import Change, Register
from perdure.runtime.gateway import Gateway

MOST_LETTERS = 1000
EXAMPLE = 'Send JSON such as {"code": "ABCD-EFGH", "role": "member"}; docs/people.md has the others.'


class Words(msgspec.Struct, forbid_unknown_fields=True):
    pass


class Pairing(Words):
    code: str
    role: Role = "member"
    here: bool = False


class Adding(Words):
    who: str
    role: Role = "member"
    chat: str = ""
    name: str = ""


class Changing(Words):
    who: str
    role: Role
    chat: str = ""


class Removing(Words):
    who: str
    chat: str | None = None


SHAPES: dict[str, type[Words]] = {"pair": Pairing, "add": Adding, "role": Changing, "remove": Removing}


class PeopleApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @call(
        "GET",
        "/api/people",
        "who is known and who asks to be let in, see [below](#people); `after` pages by `place`",
        query=("after",),
        answer=People,
    )
    async def list(self, request: Request) -> Response:
        return answer(await self._register().page(people_after(request)))

    @call(
        "POST",
        "/api/people/{verb}",
        "`pair`, `add`, `role` or `remove` somebody",
        body=tuple(SHAPES.values()),
        answer=ChangedPerson,
    )
    async def act(self, request: Request) -> Response:
        """pair, add, role or remove."""
        verb = request.path_params["verb"]
        if verb not in SHAPES:
            raise Refusal(404, f"there is no verb {verb!r}", f"The verbs are: {', '.join(SHAPES)}.")
        words = await _read(request, SHAPES[verb])
        act: Callable[..., Awaitable[Change]] = getattr(self._register(), verb)
        change = await act(**msgspec.structs.asdict(words))
        if change.done:
            await self._gateway.operators.people_changed(change.key)
        return answer({"done": change.done, "said": change.said, "who": change.who})

    def _register(self) -> Register:
        return Register(self._gateway.settings, self._gateway.store, self._gateway.operators.clock)


def people_after(request: Request) -> str:
    """Behind whom a page begins."""
    after = request.query_params.get("after", "")
    if "\0" in after or len(after) > MOST_LETTERS:
        raise Refusal(400, f"after={after[:60]!r} is nobody's place", "Give the `place` of the last one seen.")
    return after


async def _read(request: Request, shape: type[Words]) -> Words:
    words = await read_json(request, shape, EXAMPLE)
    if any("\0" in text or len(text) > MOST_LETTERS for text in _texts(words)):
        raise Refusal(400, f"expected texts of at most {MOST_LETTERS} characters, none of them NUL", EXAMPLE)
    return words


def _texts(words: Words) -> list[str]:
    return [text for text in msgspec.structs.astuple(words) if isinstance(text, str)]

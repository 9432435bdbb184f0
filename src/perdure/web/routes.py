"""The decorators `route` and `json_route`, which make an HTTP endpoint of a method, and their description."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from functools import wraps
from typing import Any, Generic, Literal, TypeVar

import msgspec
from msgspec import Struct
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response

from perdure.core.logins import Scope
from perdure.runtime.gateway import Gateway

T = TypeVar("T")
Endpoint = Callable[[Request], Awaitable[Response]]
Method = Callable[[Any, Request], Awaitable[Response]]
LoginNeed = Literal["no", "api", "page"]
BodyTypes = type | tuple[type, ...]

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
HTML = "text/html"
EVENT_STREAM = "text/event-stream"


class RequestSpec(Struct, frozen=True):
    """What a request carries: the names of its query parameters, and the types of which its body is one."""

    query: tuple[str, ...]
    body: tuple[type, ...]
    media_type: str


class ResponseSpec(Struct, frozen=True):
    """What a successful response carries: the type of its JSON, or none if the JSON is not described."""

    type: Any
    media_type: str
    statuses: tuple[int, ...]


class RouteSpec(Struct, frozen=True):
    """One endpoint: its method and path, what it takes and returns, and which login it needs."""

    operation_id: str
    method: str
    path: str
    summary: str
    login: LoginNeed
    scope: Scope | None  # that the login must have; None only where no login is needed
    own: bool  # whether members and guests may call it, too, for what is theirs; otherwise owners alone
    request: RequestSpec
    response: ResponseSpec

    @property
    def documented_path(self) -> str:
        """The path as people write it, without Starlette's converters."""
        return re.sub(r":[a-z]+}", "}", self.path)


class JsonReply(Struct, Generic[T], frozen=True):
    """A JSON value with its status, where a `json_route` has several, and a task to run after it is sent."""

    value: T
    status: int
    background: BackgroundTask | None = None


def json_response(body: object, status: int = 200, background: BackgroundTask | None = None) -> Response:
    return Response(msgspec.json.encode(body), status, media_type=JSON, background=background)


def route(
    method: str,
    path: str,
    summary: str,
    *,
    scope: Scope | None = None,
    login: LoginNeed = "api",
    own: bool = False,
    query: tuple[str, ...] = (),
    body: BodyTypes = (),
    body_media_type: str = JSON,
    media_type: str = "",
    statuses: tuple[int, ...] = (200,),
) -> Callable[[Method], Method]:
    """Make an endpoint of a method that returns a response: a page, a file, a stream.

    The arguments are also the endpoint's row in docs/http.md and its entry in the OpenAPI description. In a path,
    `{name:path}` is for names that may hold a slash, because an encoded slash arrives decoded. `summary` describes
    the response in words, `query` names the parameters, and `body` is the type of the body, or several types of
    which the body is one. `scope` is what the login must let its holder do: an endpoint without a scope has to say
    that it needs no login. `own` lets logins of members and guests in, too; the endpoint then shows and changes
    nothing but what `Login.may_reach`. Error responses need no mention: all of them look the same.
    """
    request = RequestSpec(query, body if isinstance(body, tuple) else (body,), body_media_type)
    response = ResponseSpec(None, media_type or (HTML if login == "page" else JSON), statuses)

    def mark(endpoint: Method) -> Method:
        named = (_operation_id(endpoint), method, path, summary)
        return _with_spec(endpoint, RouteSpec(*named, login, _checked(scope, login, path), own, request, response))

    return mark


def json_route(
    method: str,
    path: str,
    summary: str,
    response_type: type[T],
    *,
    scope: Scope | None = None,
    login: LoginNeed = "api",
    own: bool = False,
    query: tuple[str, ...] = (),
    body: BodyTypes = (),
    statuses: tuple[int, ...] = (200,),
) -> Callable[[Callable[[Any, Request], Awaitable[T | JsonReply[T]]]], Method]:
    """Make an endpoint of a method that returns `response_type`, which is sent as JSON with the first status.

    A method with several statuses returns a `JsonReply`. The other arguments are those of `route`.
    """
    request = RequestSpec(query, body if isinstance(body, tuple) else (body,), JSON)
    response = ResponseSpec(response_type, JSON, statuses)

    def mark(endpoint: Callable[[Any, Request], Awaitable[T | JsonReply[T]]]) -> Method:
        @wraps(endpoint)
        async def respond(self: Any, request: Request) -> Response:
            found = await endpoint(self, request)
            if isinstance(found, JsonReply):
                return json_response(found.value, found.status, found.background)
            return json_response(found, statuses[0])

        named = (_operation_id(endpoint), method, path, summary)
        return _with_spec(respond, RouteSpec(*named, login, _checked(scope, login, path), own, request, response))

    return mark


class GatewayApi:
    """The base of endpoints that read or change one gateway; `collect_routes` looks only into subclasses."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway


def _checked(scope: Scope | None, login: LoginNeed, path: str) -> Scope | None:
    if (scope is None) != (login == "no"):
        raise TypeError(f"{path}: an endpoint that needs a login needs a scope, and no other has one")
    return scope


def _operation_id(endpoint: Callable[..., Any]) -> str:
    return endpoint.__qualname__.replace("Api", "").replace(".", "_").lower()


def _with_spec(endpoint: Method, spec: RouteSpec) -> Method:
    endpoint.__dict__["route"] = spec
    return endpoint


def collect_routes(*providers: object) -> Iterable[tuple[RouteSpec, Endpoint]]:
    """The endpoints of these objects, in the order in which their classes define them."""
    for provider in providers:
        for name, method in vars(type(provider)).items():
            if hasattr(method, "route"):
                yield method.route, getattr(provider, name)

"""What can be asked over HTTP: a line above each method that answers, and all that is made of these lines."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Literal, TypeVar

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

Endpoint = Callable[[Request], Awaitable[Response]]
Method = TypeVar("Method", bound=Callable[[Any, Request], Awaitable[Response]])
Login = Literal["no", "api", "page"]
BodyTypes = type | tuple[type, ...]

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
HTML = "text/html"
EVENT_STREAM = "text/event-stream"


class RouteSpec(Struct, frozen=True):
    """One thing that can be asked: how, what comes of it, and whether a login is needed."""

    operation_id: str
    method: str
    path: str
    summary: str
    login: Login
    query: tuple[str, ...]
    body: tuple[type, ...]
    body_media_type: str
    response_type: Any
    media_type: str
    statuses: tuple[int, ...]

    @property
    def documented_path(self) -> str:
        """The path as people write it."""
        return re.sub(r":[a-z]+}", "}", self.path)


def route(
    method: str,
    path: str,
    summary: str,
    *,
    login: Login = "api",
    query: tuple[str, ...] = (),
    body: BodyTypes = (),
    body_media_type: str = JSON,
    response_type: Any = None,
    media_type: str = "",
    statuses: tuple[int, ...] = (200,),
) -> Callable[[Method], Method]:
    """Make a route of a method. This line is also its row in docs/http.md and in the OpenAPI description.

    In a path, `{name:path}` is for names that may hold a slash: an encoded one is a slash again when it gets here.
    `summary` says in words what comes of it, `query` names the parameters, and `body` is the type that is sent, or
    those of which it is one. `response_type` is the type that comes back (none: an object of which nothing more
    is said), with one of the `statuses`. Errors need no mention: they all look the same.
    """
    media_type = media_type or (HTML if login == "page" else JSON)
    types = body if isinstance(body, tuple) else (body,)

    def named(endpoint: Method) -> Method:
        name = endpoint.__qualname__.replace("Api", "").replace(".", "_").lower()
        endpoint.__dict__["route"] = RouteSpec(
            name, method, path, summary, login, query, types, body_media_type, response_type, media_type, statuses
        )
        return endpoint

    return named


def collect_routes(*providers: object) -> Iterable[tuple[RouteSpec, Endpoint]]:
    """Everything that can be asked of these objects, in the order in which they say it."""
    for room in providers:
        for name, method in vars(type(room)).items():
            if hasattr(method, "route"):
                yield method.route, getattr(room, name)

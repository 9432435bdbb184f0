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
Types = type | tuple[type, ...]

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
PAGE = "text/html"
EVENTS = "text/event-stream"


class Call(Struct, frozen=True):
    """One thing that can be asked: how, what comes of it, and whether a login is needed."""

    name: str
    method: str
    path: str
    gives: str
    login: Login
    query: tuple[str, ...]
    body: tuple[type, ...]
    takes: str
    answer: Any
    kind: str
    statuses: tuple[int, ...]

    @property
    def address(self) -> str:
        """The path as people write it."""
        return re.sub(r":[a-z]+}", "}", self.path)


def call(
    method: str,
    path: str,
    gives: str,
    *,
    login: Login = "api",
    query: tuple[str, ...] = (),
    body: Types = (),
    takes: str = JSON,
    answer: Any = None,
    kind: str = "",
    statuses: tuple[int, ...] = (200,),
) -> Callable[[Method], Method]:
    """Make a route of a method. This line is also its row in docs/http.md and in the OpenAPI description.

    In a path, `{name:path}` is for names that may hold a slash: an encoded one is a slash again when it gets here.
    `gives` says in words what comes of it, `query` names the parameters, and `body` is the type that is sent, or
    those of which it is one. `answer` is the type that comes back (none: an object of which nothing more is said),
    with one of the `statuses`. Errors need no mention: they all look the same.
    """
    kind = kind or (PAGE if login == "page" else JSON)
    types = body if isinstance(body, tuple) else (body,)

    def named(endpoint: Method) -> Method:
        name = endpoint.__qualname__.replace("Api", "").replace(".", "_").lower()
        endpoint.__dict__["call"] = Call(
            name, method, path, gives, login, query, types, takes, answer, kind, statuses
        )
        return endpoint

    return named


def calls(*rooms: object) -> Iterable[tuple[Call, Endpoint]]:
    """Everything that can be asked of these objects, in the order in which they say it."""
    for room in rooms:
        for name, method in vars(type(room)).items():
            if hasattr(method, "call"):
                yield method.call, getattr(room, name)

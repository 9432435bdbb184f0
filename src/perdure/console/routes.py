"""What can be asked over HTTP: a line above each method that answers, and the routes made of them."""

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


class Call(Struct, frozen=True):
    """One thing that can be asked: how, what comes of it, and whether a login is needed."""

    method: str
    path: str
    gives: str  # in words: the row of docs/http.md
    login: Login

    @property
    def address(self) -> str:
        """The path as people write it."""
        return re.sub(r":[a-z]+}", "}", self.path)


def call(method: str, path: str, gives: str, *, login: Login = "api") -> Callable[[Method], Method]:
    """Make a route of a method. This line is also its row in the documentation.

    In a path, `{name:path}` is for names that may hold a slash: an encoded one is a slash again when it gets here.
    """

    def named(endpoint: Method) -> Method:
        endpoint.__dict__["call"] = Call(method, path, gives, login)
        return endpoint

    return named


def calls(*rooms: object) -> Iterable[tuple[Call, Endpoint]]:
    """Everything that can be asked of these objects, in the order in which they say it."""
    for room in rooms:
        for name, method in vars(type(room)).items():
            if hasattr(method, "call"):
                yield method.call, getattr(room, name)

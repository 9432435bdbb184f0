"""The routes of the gateway's HTTP API, and the login before them."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException

from perdure.console.answers import (
    Refusal,
    crashed,
    http_error,
    not_found,
    not_taken,
    refused,
    unavailable,
)
from perdure.console.chats import ChatApi
from perdure.console.gate import Gate
from perdure.console.health import Health
from perdure.console.hooks import HookApi
from perdure.console.pages import Pages
from perdure.console.people import PeopleApi, bad_person, too_many_tries
from perdure.console.processes import ProcessApi
from perdure.console.questions import QuestionApi
from perdure.console.routes import calls
from perdure.console.sessions import SessionApi
from perdure.errors import BadPerson, NotFound, NotTaken, TooManyTries, Unavailable
from perdure.platforms.web import WebAdapter
from perdure.runtime.gateway import Gateway


def create_app(gateway: Gateway, token: str) -> Starlette:
    """The application that serves one gateway."""
    gate = Gate(token)
    return Starlette(
        routes=gate.routes(calls(*rooms(gateway, gate))),
        exception_handlers={
            Refusal: refused,
            Unavailable: unavailable,
            NotTaken: not_taken,
            NotFound: not_found,
            BadPerson: bad_person,
            TooManyTries: too_many_tries,
            HTTPException: http_error,
            Exception: crashed,
        },
    )


def rooms(gateway: Gateway, gate: Gate) -> list[object]:
    """Who answers: each of their methods with a `@call` above it is a route."""
    web = next((adapter for adapter in gateway.adapters if isinstance(adapter, WebAdapter)), WebAdapter())
    return [
        ChatApi(gateway, web),
        QuestionApi(gateway),
        SessionApi(gateway),
        PeopleApi(gateway),
        ProcessApi(gateway),
        Pages(),
        gate,
        HookApi(gateway),
        Health(gateway),
    ]

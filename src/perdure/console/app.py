"""The routes of the gateway's HTTP API, and the login before them."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from perdure.console.answers import Refusal, answered_with, crashed, http_error, refused, unavailable
from perdure.console.chats import ChatApi
from perdure.console.configuration import ConfigurationApi
from perdure.console.demo import Demo, is_scripted
from perdure.console.desk import Desk
from perdure.console.files import FileApi
from perdure.console.gate import Gate
from perdure.console.headers import Headers
from perdure.console.health import Health
from perdure.console.hooks import HookApi
from perdure.console.metrics import Metrics
from perdure.console.openapi import Description
from perdure.console.overview import OverviewApi
from perdure.console.pages import Pages
from perdure.console.people import PeopleApi
from perdure.console.processes import ProcessApi
from perdure.console.questions import QuestionApi
from perdure.console.routes import calls
from perdure.console.sessions import SessionApi
from perdure.console.sites import Names
from perdure.console.talking import ChatPage
from perdure.console.talks import TalkApi
from perdure.console.turns import OutboxApi, TurnApi
from perdure.errors import BadPerson, NewerEntry, NotFound, NotTaken, TooManyTries, Unavailable
from perdure.platforms.web import WebAdapter
from perdure.runtime.gateway import Gateway


def create_app(gateway: Gateway, token: str, *, loopback: bool = True, supervised: bool = False) -> ASGIApp:
    """The application that serves one gateway, to this machine alone or to others too.

    `supervised` if somebody starts the gateway again when it dies.
    """
    gate = Gate(token, Names(gateway.settings.web.names, loopback=loopback))
    demo = loopback and is_scripted(gateway.settings)
    app = Starlette(
        routes=gate.routes(calls(*rooms(gateway, gate, demo=demo, supervised=supervised))),
        exception_handlers={
            Refusal: refused,
            Unavailable: unavailable,
            BadPerson: answered_with(400),
            NotTaken: answered_with(403),
            NotFound: answered_with(404),
            NewerEntry: answered_with(409),
            TooManyTries: answered_with(429),
            HTTPException: http_error,
            Exception: crashed,
        },
    )
    return Headers(app)


def rooms(gateway: Gateway, gate: Gate, *, demo: bool = True, supervised: bool = False) -> list[object]:
    """Who answers: each of their methods with a `@call` above it is a route."""
    web = next((adapter for adapter in gateway.adapters if isinstance(adapter, WebAdapter)), WebAdapter())
    rooms: list[object] = [
        TalkApi(gateway),
        ChatApi(gateway, web),
        FileApi(gateway),
        QuestionApi(gateway),
        SessionApi(gateway),
        PeopleApi(gateway),
        ProcessApi(gateway),
        ChatPage(gateway, demo=demo, supervised=supervised),
        TurnApi(gateway),
        OutboxApi(gateway),
        ConfigurationApi(gateway),
        OverviewApi(gateway),
        Desk(gateway),
        Pages(),
        gate,
        HookApi(gateway),
        Health(gateway),
        Metrics(gateway),
        *([Demo(gateway.settings.home)] if demo else []),
    ]
    return [*rooms, Description(each for each, _ in calls(*rooms))]

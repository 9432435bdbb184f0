"""The routes of the gateway's HTTP API, and the login before them."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from perdure.console.answers import (
    HttpRefusal,
    crash_response,
    error_responder,
    http_error_response,
    refusal_response,
    unavailable_response,
)
from perdure.console.chats import ChatApi
from perdure.console.configuration import ConfigurationApi
from perdure.console.demo import DemoApi, uses_only_offline_model
from perdure.console.desk import ConsolePages
from perdure.console.files import AttachmentApi
from perdure.console.gate import Authenticator
from perdure.console.headers import SecurityHeaders
from perdure.console.health import HealthApi
from perdure.console.hooks import WebhookApi
from perdure.console.metrics import MetricsApi
from perdure.console.openapi import DescriptionApi
from perdure.console.overview import OverviewApi
from perdure.console.pages import StaticFileApi
from perdure.console.people import PeopleApi
from perdure.console.processes import ProcessApi
from perdure.console.questions import QuestionApi
from perdure.console.routes import collect_routes
from perdure.console.sessions import SessionApi
from perdure.console.sites import HostNames
from perdure.console.talking import ChatPage
from perdure.console.talks import ChatListApi
from perdure.console.turns import OutboxApi, TurnApi
from perdure.errors import BadPerson, NewerEntry, NotFound, NotTaken, TooManyTries, Unavailable
from perdure.platforms.web import WebAdapter
from perdure.runtime.gateway import Gateway


def create_app(gateway: Gateway, token: str, *, loopback: bool = True, supervised: bool = False) -> ASGIApp:
    """The application that serves one gateway, to this machine alone or to others too.

    `supervised` if somebody starts the gateway again when it dies.
    """
    gate = Authenticator(token, HostNames(gateway.settings.web.names, loopback=loopback))
    demo = loopback and uses_only_offline_model(gateway.settings)
    app = Starlette(
        routes=gate.build_routes(
            collect_routes(*route_providers(gateway, gate, demo=demo, supervised=supervised))
        ),
        exception_handlers={
            HttpRefusal: refusal_response,
            Unavailable: unavailable_response,
            BadPerson: error_responder(400),
            NotTaken: error_responder(403),
            NotFound: error_responder(404),
            NewerEntry: error_responder(409),
            TooManyTries: error_responder(429),
            HTTPException: http_error_response,
            Exception: crash_response,
        },
    )
    return SecurityHeaders(app)


def route_providers(
    gateway: Gateway, authenticator: Authenticator, *, demo: bool = True, supervised: bool = False
) -> list[object]:
    """Who answers: each of their methods with a `@call` above it is a route."""
    web = next((adapter for adapter in gateway.adapters if isinstance(adapter, WebAdapter)), WebAdapter())
    rooms: list[object] = [
        ChatListApi(gateway),
        ChatApi(gateway, web),
        AttachmentApi(gateway),
        QuestionApi(gateway),
        SessionApi(gateway),
        PeopleApi(gateway),
        ProcessApi(gateway),
        ChatPage(gateway, demo=demo, supervised=supervised),
        TurnApi(gateway),
        OutboxApi(gateway),
        ConfigurationApi(gateway),
        OverviewApi(gateway),
        ConsolePages(gateway),
        StaticFileApi(),
        authenticator,
        WebhookApi(gateway),
        HealthApi(gateway),
        MetricsApi(gateway),
        *([DemoApi(gateway.settings.home)] if demo else []),
    ]
    return [*rooms, DescriptionApi(each for each, _ in collect_routes(*rooms))]

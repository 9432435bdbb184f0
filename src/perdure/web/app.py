"""The ASGI application: the HTTP API and the pages behind the login, and the webhooks of platforms."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from perdure.core import texts
from perdure.errors import BadPerson, NewerEntry, NotFound, NotTaken, TooManyTries, Unavailable
from perdure.platforms.web import WebAdapter
from perdure.runtime.gateway import Gateway
from perdure.web.api.attachments import AttachmentApi
from perdure.web.api.chats import ChatApi, ChatListApi
from perdure.web.api.gateway import ConfigurationApi, DemoApi, GatewaysApi, HealthApi, uses_only_offline_model
from perdure.web.api.metrics import MetricsApi
from perdure.web.api.overview import OverviewApi
from perdure.web.api.people import PeopleApi
from perdure.web.api.processes import ProcessApi
from perdure.web.api.sessions import OutboxApi, QuestionApi, SessionApi, TurnApi
from perdure.web.auth.login import Authenticator
from perdure.web.auth.origin import HostNames
from perdure.web.openapi import DescriptionApi
from perdure.web.pages.console import ConsolePages
from perdure.web.pages.rendering import ChatPage, StaticFileApi
from perdure.web.requests import read_body
from perdure.web.responses import (
    HttpRefusal,
    SecurityHeaders,
    crash_response,
    error_responder,
    http_error_response,
    refusal_response,
    unavailable_response,
)
from perdure.web.routes import GatewayApi, collect_routes, route


class WebhookApi(GatewayApi):
    @route(
        "POST",
        "/hooks/{platform}",
        "what a platform posts by itself, such as [Telegram](telegram.md#with-a-webhook)",
        login="no",
    )
    async def post(self, request: Request) -> Response:
        """Hand the request to its adapter, which reports success only after the update is stored."""
        name = request.path_params["platform"]
        adapter = next((each for each in self._gateway.adapters if each.name == name and each.takes_posts), None)
        if adapter is None:
            raise HttpRefusal(404, texts.http.unknown_webhook(request.url.path), texts.http.PATHS_HINT)
        answered = await adapter.take_post(dict(request.headers), await read_body(request))
        return Response(answered.body, answered.status, media_type=answered.media_type)


def create_app(gateway: Gateway, token: str, *, loopback: bool, supervised: bool = False) -> ASGIApp:
    """The application of one gateway, reachable from this machine alone (`loopback`) or from others too.

    `supervised` says that a supervisor restarts the gateway when its process dies.
    """
    authenticator = Authenticator(gateway, token, HostNames(gateway.settings.web.names, loopback=loopback))
    demo = loopback and uses_only_offline_model(gateway.settings)
    app = Starlette(
        routes=authenticator.build_routes(
            collect_routes(*route_providers(gateway, authenticator, demo=demo, supervised=supervised))
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
    gateway: Gateway, authenticator: Authenticator, *, demo: bool, supervised: bool = False
) -> list[object]:
    """The objects whose decorated methods are the endpoints; an earlier path matches before a later one."""
    web = next((adapter for adapter in gateway.adapters if isinstance(adapter, WebAdapter)), WebAdapter())
    providers: list[object] = [
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
        GatewaysApi(gateway),
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
    return [*providers, DescriptionApi(spec for spec, _ in collect_routes(*providers))]

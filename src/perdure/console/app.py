"""The routes of the gateway's HTTP API, and the login before them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from perdure.console.answers import (
    Refusal,
    answer,
    crashed,
    http_error,
    not_found,
    not_taken,
    refused,
    unavailable,
)
from perdure.console.chats import ChatApi
from perdure.console.files import FileApi
from perdure.console.people import PeopleApi, bad_person, too_many_tries
from perdure.console.processes import ProcessApi
from perdure.console.questions import QuestionApi
from perdure.console.sessions import SessionApi
from perdure.console.tokens import same_token
from perdure.errors import BadPerson, NotFound, NotTaken, TooManyTries, Unavailable
from perdure.platforms.web import WebAdapter
from perdure.runtime.gateway import Gateway, Phase

Endpoint = Callable[[Request], Awaitable[Response]]

WELCOME = (
    "Perdure is running.\n\n"
    "This version has no pages yet. Talk to it in a terminal with `perdure chat`,\n"
    "or over HTTP: docs/http.md shows how.\n"
)


def create_app(gateway: Gateway, token: str) -> Starlette:
    """The application that serves one gateway."""
    web = next((adapter for adapter in gateway.adapters if isinstance(adapter, WebAdapter)), WebAdapter())
    chats, sessions, questions = ChatApi(gateway, web), SessionApi(gateway), QuestionApi(gateway)
    processes, people, files = ProcessApi(gateway), PeopleApi(gateway), FileApi(gateway)

    def locked(endpoint: Endpoint) -> Endpoint:
        async def guarded(request: Request) -> Response:
            _check_token(request, token)
            return await endpoint(request)

        return guarded

    async def healthz(_: Request) -> Response:
        problem = gateway.store.problem
        return answer(
            {"healthy": problem is None, "reasons": [problem] if problem else []}, 503 if problem else 200
        )

    async def readyz(_: Request) -> Response:
        reasons = gateway.problems()
        if gateway.phase is not Phase.READY:
            reasons.append(f"the gateway is {gateway.phase}")
        return answer({"ready": not reasons, "reasons": reasons}, 503 if reasons else 200)

    return Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/login", _login(token)),
            # `path`, because a name may hold a slash, and an encoded one is a slash again when it gets here.
            Route("/api/chats/{chat:path}/messages", locked(chats.messages), methods=["GET", "POST"]),
            Route("/api/chats/{chat:path}/messages/{id:path}", locked(chats.message), methods=["PUT", "DELETE"]),
            Route("/api/chats/{chat:path}/events", locked(chats.events), methods=["GET"]),
            Route("/api/attachments", locked(files.upload), methods=["POST"]),
            Route("/api/attachments/{id}", locked(files.get), methods=["GET"]),
            Route("/api/questions/{id}/answer", locked(questions.answer), methods=["POST"]),
            Route("/api/approvals/{id}", locked(questions.judge), methods=["POST"]),
            Route("/api/status", locked(sessions.status), methods=["GET"]),
            Route("/api/resume", locked(sessions.resume_all), methods=["POST"]),
            Route("/api/processes", locked(processes.list), methods=["GET"]),
            Route("/api/people", locked(people.list), methods=["GET"]),
            Route("/api/people/{verb}", locked(people.act), methods=["POST"]),
            Route("/api/sessions", locked(sessions.list), methods=["GET"]),
            Route("/api/sessions/{session:path}", locked(sessions.get), methods=["GET"]),
            Route("/api/sessions/{session:path}/{verb}", locked(sessions.act), methods=["POST"]),
        ],
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


def _login(token: str) -> Endpoint:
    async def login(request: Request) -> Response:
        if not same_token(request.query_params.get("token", ""), token):
            raise Refusal(
                401, "this login link is not valid", "Take the one that the gateway printed at its start."
            )
        return PlainTextResponse(WELCOME)

    return login


def _check_token(request: Request, token: str) -> None:
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not same_token(given.strip(), token):
        raise Refusal(
            401, "a login token is needed", "Send the header `Authorization: Bearer …`; `perdure token` shows it."
        )

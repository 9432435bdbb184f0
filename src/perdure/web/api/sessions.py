"""The operator's side of the HTTP API: sessions, their recovery state, and the verbs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from perdure.core.session import SessionState
from perdure.core.turn import OPEN_STATES
from perdure.errors import StillRuns
from perdure.operations.inspect import explain_session, find_session, list_sessions, session_fields
from perdure.operations.timeline import list_turns
from perdure.runtime.gateway import Gateway
from perdure.store.ids import wall_clock
from perdure.store.sessions import Session, SessionFilter
from perdure.web.api.turns import read_after
from perdure.web.responses import HttpRefusal, json_response
from perdure.web.routes import route
from perdure.web.schemas.history import StatusResponse
from perdure.web.schemas.resources import (
    ResumeAllResponse,
    SessionListResponse,
    SessionResource,
    SessionVerbResponse,
)

PAGE_SIZE = 100


class SessionApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @route("GET", "/api/status", "how the gateway is", response_type=StatusResponse)
    async def status(self, _: Request) -> Response:
        return json_response(await gateway_status(self._gateway))

    @route(
        "GET",
        "/api/sessions",
        "sessions with their recovery state, see [below](#look-after-sessions); `after` pages by id",
        query=("state", "turn", "key", "order", "after"),
        response_type=SessionListResponse,
    )
    async def list(self, request: Request) -> Response:
        after, which = read_after(request, "session"), read_session_filter(request.query_params)
        found = await list_sessions(self._gateway.store, after, PAGE_SIZE + 1, which)
        return json_response({"sessions": found[:PAGE_SIZE], "more": len(found) > PAGE_SIZE})

    @route(
        "GET",
        "/api/sessions/{session:path}",
        "one session, by its id or key, why it stands as it does, and its turns",
        query=("after",),
        response_type=SessionResource,
    )
    async def get(self, request: Request) -> Response:
        store, session = self._gateway.store, await self._find_session(request)
        fields = await session_fields(store, session)
        turns = await list_turns(store, session.id, read_after(request, "turn"))
        return json_response(fields | {"why": await explain_session(store, session.id, wall_clock)} | turns)

    @route(
        "POST",
        "/api/sessions/{session:path}/{verb}",
        "`resume`, `drop`, `stop`, `suspend` or `erase` it",
        response_type=SessionVerbResponse,
    )
    async def act(self, request: Request) -> Response:
        """resume, drop, stop, suspend or erase."""
        operators = self._gateway.operator_verbs
        verbs: dict[str, Callable[[Session], Awaitable[bool]]] = {
            "resume": operators.resume,
            "drop": operators.drop,
            "stop": operators.stop,
            "suspend": operators.suspend,
        }
        verb = request.path_params["verb"]
        if verb == "erase":
            return await self._erase_session(request)
        if verb not in verbs:
            raise HttpRefusal(404, f"there is no verb {verb!r}", f"The verbs are: {', '.join(verbs)}, erase.")
        session = await self._find_session(request)
        return json_response({"session": session.id, "verb": verb, "done": await verbs[verb](session)})

    async def _erase_session(self, request: Request) -> Response:
        """Of an id, that session goes; of a key, all that it ever had."""
        name = read_session_name(request)
        try:
            erased = await self._gateway.operator_verbs.erase(name)
        except StillRuns as error:
            raise HttpRefusal(409, error.message, error.hint or "") from error
        return json_response({"session": name, "verb": "erase", "done": bool(erased), "erased": erased})

    @route("POST", "/api/resume", "lets go on what a crash loop has paused", response_type=ResumeAllResponse)
    async def resume_all(self, _: Request) -> Response:
        return json_response({"done": await self._gateway.operator_verbs.lift_recovery_pause()})

    async def _find_session(self, request: Request) -> Session:
        return await find_session(self._gateway.store, read_session_name(request))


async def gateway_status(gateway: Gateway) -> dict[str, Any]:
    """How the gateway is, under the names that its JSON has."""
    run = await gateway.store.runs.get(gateway.operator_verbs.run)
    return {
        "phase": gateway.phase,
        "run": gateway.operator_verbs.run,
        "started_at": run.started_at if run else None,
        "problems": gateway.problems() + gateway.warnings(),
        "platforms": sorted(gateway.loops.connections.connected),
        "running": len(gateway.loops.runner.running),
        "resume_paused": gateway.loops.recoverer.paused,
        "counts": await gateway.store.gauges.counts(),
        "summary": gateway.describe(),
    }


def read_session_filter(query: Mapping[str, str]) -> SessionFilter:
    """Which sessions are asked for, by `state`, `turn` (the state of what they have begun), `key` and `order`."""
    choices = {"state": tuple(SessionState), "turn": OPEN_STATES, "order": ("oldest", "newest")}
    for name, known in choices.items():
        if query.get(name, known[0]) not in known:
            raise HttpRefusal(
                400, f"{name}={query[name][:60]!r} is not known", f"Give one of: {', '.join(known)}."
            )
    key = query.get("key", "").replace("\0", "?")
    return SessionFilter(query.get("state", ""), query.get("turn", ""), key, query.get("order") == "newest")


def read_session_name(request: Request) -> str:
    """The id or key in the path."""
    name: str = request.path_params["session"]
    if "\0" in name:  # PostgreSQL could not even be asked for it
        raise HttpRefusal(404, f"no session is named {name!r}", "No name holds the character U+0000.")
    return name

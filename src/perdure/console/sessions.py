"""The operator's side of the HTTP API: sessions, their recovery state, and the verbs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from perdure.console.accounts import Situation
from perdure.console.answers import Refusal, answer
from perdure.console.routes import call
from perdure.console.shapes import ActedOn, Done, OneSession, Sessions
from perdure.console.turns import read_after
from perdure.core.session import SessionState
from perdure.core.turn import BEGUN
from perdure.errors import StillRuns
from perdure.operations.lives import past_turns
from perdure.operations.look import find_session, list_sessions, session_fields, why
from perdure.runtime.gateway import Gateway
from perdure.store.ids import wall_clock
from perdure.store.sessions import Session, Which

PAGE = 100


class SessionApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @call("GET", "/api/status", "how the gateway is", answer=Situation)
    async def status(self, _: Request) -> Response:
        return answer(await status(self._gateway))

    @call(
        "GET",
        "/api/sessions",
        "sessions with their recovery state, see [below](#look-after-sessions); `after` pages by id",
        query=("state", "turn", "key", "order", "after"),
        answer=Sessions,
    )
    async def list(self, request: Request) -> Response:
        after, which = read_after(request, "session"), wanted(request.query_params)
        found = await list_sessions(self._gateway.store, after, PAGE + 1, which)
        return answer({"sessions": found[:PAGE], "more": len(found) > PAGE})

    @call(
        "GET",
        "/api/sessions/{session:path}",
        "one session, by its id or key, why it stands as it does, and its turns",
        query=("after",),
        answer=OneSession,
    )
    async def get(self, request: Request) -> Response:
        store, session = self._gateway.store, await self._session(request)
        fields = await session_fields(store, session)
        turns = await past_turns(store, session.id, read_after(request, "turn"))
        return answer(fields | {"why": await why(store, session.id, wall_clock)} | turns)

    @call(
        "POST",
        "/api/sessions/{session:path}/{verb}",
        "`resume`, `drop`, `stop`, `suspend` or `erase` it",
        answer=ActedOn,
    )
    async def act(self, request: Request) -> Response:
        """resume, drop, stop, suspend or erase."""
        operators = self._gateway.operators
        verbs: dict[str, Callable[[Session], Awaitable[bool]]] = {
            "resume": operators.resume,
            "drop": operators.drop,
            "stop": operators.stop,
            "suspend": operators.suspend,
        }
        verb = request.path_params["verb"]
        if verb == "erase":
            return await self._erase(request)
        if verb not in verbs:
            raise Refusal(404, f"there is no verb {verb!r}", f"The verbs are: {', '.join(verbs)}, erase.")
        session = await self._session(request)
        return answer({"session": session.id, "verb": verb, "done": await verbs[verb](session)})

    async def _erase(self, request: Request) -> Response:
        """Of an id, that session goes; of a key, all that it ever had."""
        name = session_name(request)
        try:
            erased = await self._gateway.operators.erase(name)
        except StillRuns as error:
            raise Refusal(409, error.message, error.hint or "") from error
        return answer({"session": name, "verb": "erase", "done": bool(erased), "erased": erased})

    @call("POST", "/api/resume", "lets go on what a crash loop has paused", answer=Done)
    async def resume_all(self, _: Request) -> Response:
        return answer({"done": await self._gateway.operators.resume_all()})

    async def _session(self, request: Request) -> Session:
        return await find_session(self._gateway.store, session_name(request))


async def status(gateway: Gateway) -> dict[str, Any]:
    """How the gateway is, under the names that its JSON has."""
    run = await gateway.store.runs.get(gateway.operators.run)
    return {
        "phase": gateway.phase,
        "run": gateway.operators.run,
        "started_at": run.started_at if run else None,
        "problems": gateway.problems() + gateway.shortcomings(),
        "platforms": sorted(gateway.loops.connections.connected),
        "running": len(gateway.loops.runner.attempts),
        "resume_paused": gateway.loops.recoverer.paused,
        "counts": await gateway.store.overview.counts(),
        "summary": gateway.describe(),
    }


def wanted(query: Mapping[str, str]) -> Which:
    """Which sessions are asked for, by `state`, `turn` (the state of what they have begun), `key` and `order`."""
    choices = {"state": tuple(SessionState), "turn": BEGUN, "order": ("oldest", "newest")}
    for name, known in choices.items():
        if query.get(name, known[0]) not in known:
            raise Refusal(400, f"{name}={query[name][:60]!r} is not known", f"Give one of: {', '.join(known)}.")
    key = query.get("key", "").replace("\0", "?")
    return Which(query.get("state", ""), query.get("turn", ""), key, query.get("order") == "newest")


def session_name(request: Request) -> str:
    """The id or key in the path."""
    name: str = request.path_params["session"]
    if "\0" in name:  # PostgreSQL could not even be asked for it
        raise Refusal(404, f"no session is named {name!r}", "No name holds the character U+0000.")
    return name

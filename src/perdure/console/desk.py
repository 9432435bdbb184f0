"""The pages of the console: what the JSON beside each of them says, for people."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from perdure.console import acts
from perdure.console.answers import Refusal
from perdure.console.drawing import drawings
from perdure.console.overview import overview, question
from perdure.console.pages import page
from perdure.console.people import people_after
from perdure.console.processes import fields as process_fields
from perdure.console.processes import output_of
from perdure.console.routes import call
from perdure.console.sessions import session_name, wanted
from perdure.console.turns import decisions_after, our_id, read_after, wanted_states
from perdure.console.twin import rows
from perdure.core import notes
from perdure.core.delivery import Delivery
from perdure.errors import NotFound, Unavailable
from perdure.operations.configuration import effective
from perdure.operations.lives import decisions, past_turns, turn_life
from perdure.operations.look import find_session, list_sessions, session_fields, why
from perdure.operations.outbox import list_rows
from perdure.operations.people import Register
from perdure.runtime.gateway import Gateway

PAGE = 50
ROOMS = {"session": "sessions", "turn": "sessions", "process": "processes"}  # under whose name a page stands
Page = Callable[[Any, Request], Awaitable[Response]]


def for_people(endpoint: Page) -> Page:
    """What cannot be found or read, or makes no sense, is a page that says so."""

    @wraps(endpoint)
    async def shown(self: Any, request: Request) -> Response:
        try:
            return await endpoint(self, request)
        except (NotFound, Refusal, Unavailable) as error:
            status = 503 if isinstance(error, Unavailable) else getattr(error, "status", 404)
            values = {"here": "console", "room": "", "json": None, "counts": None, "error": error}
            return page("console/missing.html", status, heading=notes.NOT_SHOWN[status], **values)

    return shown


class Desk:
    """Pages for whoever runs the gateway. They change nothing: buttons post to the API."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @call("GET", "/console", "the console: how the gateway is, and what needs somebody", login="page")
    @for_people
    async def overview(self, _: Request) -> Response:
        return await self._page("overview", "/api/overview", **await overview(self._gateway))

    @call(
        "GET",
        "/console/sessions",
        "the sessions, newest first",
        login="page",
        query=("state", "turn", "key", "after"),
    )
    @for_people
    async def sessions(self, request: Request) -> Response:
        which = wanted(dict(request.query_params) | {"order": "newest"})
        found = await list_sessions(self._gateway.store, read_after(request, "session"), PAGE + 1, which)
        older = _more(request, found[PAGE - 1]["id"]) if len(found) > PAGE else None
        values = {"sessions": found[:PAGE], "which": which, "older": older}
        return await self._page("sessions", _json("/api/sessions", request, order="newest"), **values)

    @call("GET", "/console/sessions/{session:path}", "one session, and its turns", login="page", query=("after",))
    @for_people
    async def session(self, request: Request) -> Response:
        store = self._gateway.store
        session = await find_session(store, session_name(request))
        past = await past_turns(store, session.id, read_after(request, "turn"), PAGE)
        older = _more(request, past["turns"][-1]["id"]) if past["more"] else None
        values = {
            "session": await session_fields(store, session),
            "why": await why(store, session.id, self._gateway.operators.clock),
            "acts": acts.of_session(session, await store.turns.begun(session.key)),
            "turns": past["turns"],
            "older": older,
        }
        return await self._page("session", _json(f"/api/sessions/{session.id}", request), **values)

    @call("GET", "/console/turns/{id}", "the life of a turn, drawn to scale", login="page")
    @for_people
    async def turn(self, request: Request) -> Response:
        name = our_id(request, "id", "turn")
        life = await turn_life(self._gateway.store, name)
        turn = await self._gateway.store.turns.get(name)
        possible = acts.of_turn(turn, await question(self._gateway, turn)) if turn else []
        drawn = drawings(life, self._gateway.operators.clock())
        values = {"turn": life, "drawings": drawn, "rows": rows(life), "acts": possible}
        return await self._page("turn", f"/api/turns/{name}", **values)

    @call("GET", "/console/decisions", "what recovery decided, and why", login="page", query=("after",))
    @for_people
    async def decisions(self, request: Request) -> Response:
        found = await decisions(self._gateway.store, decisions_after(request), PAGE)
        older = _more(request, found["next"]) if found["next"] else None
        return await self._page("decisions", _json("/api/decisions", request), older=older, **found)

    @call("GET", "/console/outbox", "replies, and what to do about them", login="page", query=("state", "after"))
    @for_people
    async def outbox(self, request: Request) -> Response:
        states = wanted_states(request)
        found = await list_rows(self._gateway.store, states, read_after(request, "reply"), PAGE)
        rows = [row | {"acts": acts.of_reply(row)} for row in found["outbox"]]
        older = _more(request, found["next"]) if found["next"] else None
        values = {"rows": rows, "states": list(Delivery), "chosen": ",".join(states), "older": older}
        return await self._page("outbox", _json("/api/outbox", request), **values)

    @call("GET", "/console/processes", "processes in the background", login="page", query=("after",))
    @for_people
    async def processes(self, request: Request) -> Response:
        after = read_after(request, "process")
        found = await self._gateway.store.processes.page(after, PAGE + 1, newest=True)
        older = _more(request, found[PAGE - 1].id) if len(found) > PAGE else None
        shown = [process_fields(process) for process in found[:PAGE]]
        json = _json("/api/processes", request, order="newest")
        return await self._page("processes", json, processes=shown, older=older)

    @call("GET", "/console/processes/{id}", "one process, with its output as it comes", login="page")
    @for_people
    async def process(self, request: Request) -> Response:
        name = our_id(request, "id", "process")
        process = await self._gateway.store.processes.get(name)
        if process is None:
            raise NotFound(f"no process is named {name!r}", hint="The list of processes has those that there are.")
        files = self._gateway.settings.home / "keepers" / process.directory
        output = await asyncio.to_thread(output_of, files, None, final=process.state != "live")
        fields = process_fields(process) | output
        return await self._page("process", f"/api/processes/{name}", process=fields)

    @call("GET", "/console/people", "who may talk to the agent, and who asks to", login="page", query=("after",))
    @for_people
    async def people(self, request: Request) -> Response:
        register = Register(self._gateway.settings, self._gateway.store, self._gateway.operators.clock)
        found = {"configured": [], "requests": []} | await register.page(people_after(request))
        known = [each | {"acts": acts.of_person(each)} for each in found["people"]]
        further = _more(request, known[-1]["place"]) if found["more"] else None
        values = found | {"people": known, "further": further, "pairing": acts.act("pair", "/api/people/pair")}
        return await self._page("people", _json("/api/people", request), **values)

    @call("GET", "/console/config", "the settings in effect, without the secrets among them", login="page")
    @for_people
    async def config(self, _: Request) -> Response:
        settings = self._gateway.settings
        sections: dict[str, list[dict[str, Any]]] = {}
        found = effective(settings)
        for each in found:
            sections.setdefault(each["key"].rpartition(".")[0], []).append(each)
        changed = [each for each in found if each["changed"]]
        values = {"sections": sections, "changed": changed, "home": str(settings.home)}
        return await self._page("config", "/api/config", **values)

    async def _page(self, name: str, json: str, **values: Any) -> Response:
        """A page with what stands on each of them: the counts, and the JSON that says the same."""
        given: dict[str, Any] = {
            "here": "console",
            "room": ROOMS.get(name, name),
            "json": json,
            "counts": values.pop("counts", None) or await self._gateway.store.overview.counts(),
        }
        return page(f"console/{name}.html", **given, **values)


def _more(request: Request, after: str) -> str:
    """The address of the next page of the same list."""
    return "?" + urlencode(dict(request.query_params) | {"after": after})


def _json(path: str, request: Request, **query: str) -> str:
    """The address of the same as data."""
    asked = urlencode(dict(request.query_params) | query)
    return f"{path}?{asked}" if asked else path

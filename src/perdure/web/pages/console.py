"""The pages of the console: each shows the JSON of an endpoint to operators."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any
from urllib.parse import urlencode

from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response

from perdure.core import texts
from perdure.core.delivery import DeliveryState
from perdure.core.logins import Scope
from perdure.errors import NotFound, Unavailable
from perdure.operations.inspect import (
    effective_settings,
    explain_session,
    list_deliveries,
    list_sessions,
    session_resource,
)
from perdure.operations.resources import SettingResource, cut_page
from perdure.operations.timeline import list_decisions, list_turns
from perdure.web.api.gateway import read_gateways
from perdure.web.api.overview import pending_question, read_overview
from perdure.web.api.people import people_verbs
from perdure.web.api.processes import (
    find_own_process,
    list_own_processes,
    process_resource,
    read_process_output,
)
from perdure.web.api.sessions import find_own_session, read_own_turn
from perdure.web.auth.login import login_of
from perdure.web.pages import actions
from perdure.web.pages.rendering import render_page
from perdure.web.pages.timeline import timeline_diagrams, timeline_rows
from perdure.web.requests import (
    read_after,
    read_decisions_after,
    read_delivery_states,
    read_people_after,
    read_session_filter,
)
from perdure.web.responses import HttpRefusal
from perdure.web.routes import GatewayApi, route

PAGE_SIZE = 50
# The tab that is highlighted on a page without a tab of its own.
TAB_OF_PAGE = {"session": "sessions", "turn": "sessions", "process": "processes"}
PageEndpoint = Callable[[Any, Request], Awaitable[Response]]


def errors_as_page(endpoint: PageEndpoint) -> PageEndpoint:
    """Show a refused request, an unknown name or an unavailable store as a page of the console."""

    @wraps(endpoint)
    async def guarded(self: Any, request: Request) -> Response:
        try:
            return await endpoint(self, request)
        except (NotFound, HttpRefusal, Unavailable) as error:
            status = 503 if isinstance(error, Unavailable) else getattr(error, "status", 404)
            values: dict[str, Any] = {
                "area": "console",
                "tab": "",
                "json_url": None,
                "counts": None,
                "error": error,
            }
            values["for_owner"] = login_of(request).is_owner
            return render_page("console/error.html", status, heading=texts.console.ERROR_TITLES[status], **values)

    return guarded


class ConsolePages(GatewayApi):
    """The pages only read; their buttons post to the API."""

    @route(
        "GET",
        "/console",
        "the console: how the gateway is, and what needs somebody",
        login="page",
        scope=Scope.READ,
    )
    @errors_as_page
    async def overview(self, request: Request) -> Response:
        found = await read_overview(self._gateway, login_of(request))
        return await self._render(request, "overview", "/api/overview", **structs.asdict(found))

    @route(
        "GET",
        "/console/sessions",
        "the sessions, newest first",
        login="page",
        query=("state", "turn", "key", "after"),
        scope=Scope.READ,
        own=True,
    )
    @errors_as_page
    async def sessions(self, request: Request) -> Response:
        chosen = read_session_filter(dict(request.query_params) | {"order": "newest"}, login_of(request))
        found = await list_sessions(self._gateway.store, read_after(request, "session"), PAGE_SIZE + 1, chosen)
        sessions, more = cut_page(found, PAGE_SIZE)
        older = _next_page_url(request, sessions[-1].id) if more else None
        values = {"sessions": sessions, "chosen": chosen, "older_url": older}
        return await self._render(
            request, "sessions", _json_url("/api/sessions", request, order="newest"), **values
        )

    @route(
        "GET",
        "/console/sessions/{session:path}",
        "one session, and its turns",
        login="page",
        query=("after",),
        scope=Scope.READ,
        own=True,
    )
    @errors_as_page
    async def session(self, request: Request) -> Response:
        store = self._gateway.store
        session = await find_own_session(self._gateway, request)
        turns, more = await list_turns(store, session.id, read_after(request, "turn"), PAGE_SIZE)
        older = _next_page_url(request, turns[-1].id) if more else None
        possible = actions.session_actions(session, await store.turns.current(session.key))
        values = {
            "session": await session_resource(store, session),
            "why": await explain_session(store, session.id, self._gateway.operator_verbs.clock),
            "actions": actions.allowed_actions(possible, login_of(request)),
            "turns": turns,
            "older_url": older,
        }
        return await self._render(request, "session", _json_url(f"/api/sessions/{session.id}", request), **values)

    @route(
        "GET",
        "/console/turns/{id}",
        "the life of a turn, drawn to scale",
        login="page",
        scope=Scope.READ,
        own=True,
    )
    @errors_as_page
    async def turn(self, request: Request) -> Response:
        timeline = await read_own_turn(self._gateway, request)
        turn = await self._gateway.store.turns.get(timeline.id)
        possible = actions.turn_actions(turn, await pending_question(self._gateway, turn)) if turn else []
        values = {
            "turn": timeline,
            "diagrams": timeline_diagrams(timeline, self._gateway.operator_verbs.clock()),
            "rows": timeline_rows(timeline),
            "actions": actions.allowed_actions(possible, login_of(request)),
            "note": actions.approval_note(possible, login_of(request)),
        }
        return await self._render(request, "turn", f"/api/turns/{timeline.id}", **values)

    @route(
        "GET",
        "/console/decisions",
        "what recovery decided, and why",
        login="page",
        query=("after",),
        scope=Scope.READ,
    )
    @errors_as_page
    async def decisions(self, request: Request) -> Response:
        found = await list_decisions(self._gateway.store, read_decisions_after(request), PAGE_SIZE)
        older = _next_page_url(request, found.next) if found.next else None
        json_url = _json_url("/api/decisions", request)
        return await self._render(request, "decisions", json_url, decisions=found.decisions, older_url=older)

    @route(
        "GET",
        "/console/outbox",
        "replies, and what to do about them",
        login="page",
        query=("state", "after"),
        scope=Scope.READ,
    )
    @errors_as_page
    async def outbox(self, request: Request) -> Response:
        states = read_delivery_states(request)
        found = await list_deliveries(self._gateway.store, states, read_after(request, "reply"), PAGE_SIZE)
        login = login_of(request)
        rows = [(each, actions.allowed_actions(actions.delivery_actions(each), login)) for each in found.outbox]
        older = _next_page_url(request, found.next) if found.next else None
        values = {
            "rows": rows,
            "states": list(DeliveryState),
            "chosen_states": ",".join(states),
            "older_url": older,
        }
        return await self._render(request, "outbox", _json_url("/api/outbox", request), **values)

    @route(
        "GET",
        "/console/processes",
        "processes in the background",
        login="page",
        query=("after",),
        scope=Scope.READ,
        own=True,
    )
    @errors_as_page
    async def processes(self, request: Request) -> Response:
        after = read_after(request, "process")
        processes, more = await list_own_processes(self._gateway, request, after, PAGE_SIZE, newest=True)
        older = _next_page_url(request, processes[-1].id) if more else None
        shown = [process_resource(process) for process in processes]
        json_url = _json_url("/api/processes", request, order="newest")
        return await self._render(request, "processes", json_url, processes=shown, older_url=older)

    @route(
        "GET",
        "/console/processes/{id}",
        "one process, with its output as it comes",
        login="page",
        scope=Scope.READ,
        own=True,
    )
    @errors_as_page
    async def process(self, request: Request) -> Response:
        process = await find_own_process(self._gateway, request)
        found = await read_process_output(self._gateway, process, None)
        return await self._render(request, "process", f"/api/processes/{process.id}", process=found)

    @route(
        "GET",
        "/console/people",
        "who may talk to the agent, and who asks to",
        login="page",
        query=("after",),
        scope=Scope.READ,
    )
    @errors_as_page
    async def people(self, request: Request) -> Response:
        found, login = await people_verbs(self._gateway).page(read_people_after(request)), login_of(request)
        values = {
            "people": [
                (each, actions.allowed_actions(actions.person_actions(each), login)) for each in found.people
            ],
            "configured": found.configured or [],
            "requests": found.requests or [],
            "further_url": _next_page_url(request, found.people[-1].place) if found.more else None,
            "pair_actions": actions.allowed_actions([actions.make_action("pair", "/api/people/pair")], login),
        }
        return await self._render(request, "people", _json_url("/api/people", request), **values)

    @route(
        "GET",
        "/console/gateways",
        "the gateways that share the database",
        login="page",
        scope=Scope.READ,
    )
    @errors_as_page
    async def gateways(self, request: Request) -> Response:
        login = login_of(request)
        rows = [
            (each, actions.allowed_actions(actions.gateway_actions(each), login))
            for each in await read_gateways(self._gateway)
        ]
        return await self._render(request, "gateways", "/api/gateways", rows=rows)

    @route(
        "GET",
        "/console/config",
        "the settings in effect, without the secrets among them",
        login="page",
        scope=Scope.READ,
    )
    @errors_as_page
    async def config(self, request: Request) -> Response:
        settings = self._gateway.settings
        sections: dict[str, list[SettingResource]] = {}
        found = effective_settings(settings)
        for each in found:
            sections.setdefault(each.key.rpartition(".")[0], []).append(each)
        changed = [each for each in found if each.changed]
        values = {"sections": sections, "changed": changed, "home": str(settings.home)}
        return await self._render(request, "config", "/api/config", **values)

    async def _render(self, request: Request, name: str, json_url: str, **values: Any) -> Response:
        """Render a page with the values that every page has: the counts, and the address of its JSON."""
        given: dict[str, Any] = {
            "for_owner": login_of(request).is_owner,
            "area": "console",
            "tab": TAB_OF_PAGE.get(name, name),
            "json_url": json_url,
            "counts": values.pop("counts", None) or await self._gateway.store.gauges.counts(),
        }
        return render_page(f"console/{name}.html", **given, **values)


def _next_page_url(request: Request, after: str) -> str:
    """The address of the next page of the same list."""
    return "?" + urlencode(dict(request.query_params) | {"after": after})


def _json_url(path: str, request: Request, **query: str) -> str:
    """The address of the JSON that a page shows."""
    parameters = urlencode(dict(request.query_params) | query)
    return f"{path}?{parameters}" if parameters else path

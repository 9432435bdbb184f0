"""The overview over HTTP: the state of the gateway, and everything that needs a person, with actions."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import structs
from starlette.requests import Request

from perdure.core import texts
from perdure.core.delivery import DeliveryState
from perdure.core.entries import QuestionAsked
from perdure.core.journal import TurnView, fold
from perdure.core.logins import Login, Scope
from perdure.core.states import TurnState
from perdure.operations.inspect import delivery_resource
from perdure.operations.resources import DeliveryResource
from perdure.operations.timeline import list_decisions, turn_resource
from perdure.runtime.gateway import Gateway
from perdure.store.sessions import SessionFilter
from perdure.store.transitions import Turn
from perdure.version import __version__
from perdure.web.api.gateway import gateway_status, read_unserved
from perdure.web.api.people import people_verbs
from perdure.web.auth.login import login_of
from perdure.web.pages.actions import (
    allowed_actions,
    approval_note,
    delivery_actions,
    make_action,
    resume_actions,
    turn_actions,
)
from perdure.web.pages.rendering import chat_label
from perdure.web.routes import GatewayApi, json_route
from perdure.web.schemas import AttentionItem, OverviewResponse, PlatformStatusResource

MAX_ITEMS_PER_KIND = 20  # the lists of the console have the rest
RECENT_FAILURE_MS = 86_400_000
RECENT_DECISIONS = 5


class OverviewApi(GatewayApi):
    @json_route(
        "GET",
        "/api/overview",
        "how the gateway is, what needs somebody, and what to do about it",
        OverviewResponse,
        scope=Scope.READ,
    )
    async def get(self, request: Request) -> OverviewResponse:
        return await read_overview(self._gateway, login_of(request))


async def read_overview(gateway: Gateway, login: Login) -> OverviewResponse:
    """Everything that the first page of the console shows, with the actions that a login may take."""
    store = gateway.store
    running = await store.turns.open([TurnState.RUNNING, TurnState.QUEUED], MAX_ITEMS_PER_KIND)
    decisions = (await list_decisions(store, limit=RECENT_DECISIONS)).decisions
    return OverviewResponse(
        **structs.asdict(await gateway_status(gateway)),
        version=__version__,
        model=gateway.settings.model.name,
        adapters=_platform_statuses(gateway),
        well=texts.console.NOTHING_WAITS,
        attention=[_for_login(item, login) for item in await attention_items(gateway)],
        turns=[turn_resource(turn) for turn in running],
        decisions=decisions[:RECENT_DECISIONS],
    )


def _for_login(item: AttentionItem, login: Login) -> AttentionItem:
    """An item without the actions that the login may not take; of an approval, it says who may decide."""
    detail = f"{item.detail} {approval_note(item.acts, login)}".strip()
    return structs.replace(item, acts=allowed_actions(item.acts, login), detail=detail)


def _platform_statuses(gateway: Gateway) -> list[PlatformStatusResource]:
    problems, standing_by = gateway.loops.connections.problems, gateway.loops.connections.standing_by
    return [
        PlatformStatusResource(each.name, problems.get(each.name, ""), each.name in standing_by)
        for each in gateway.adapters
    ]


async def attention_items(gateway: Gateway) -> list[AttentionItem]:
    """Everything that does not go on without a person, the most urgent first."""
    found: list[AttentionItem] = []
    if gateway.loops.recoverer.paused:
        found.append(
            _attention_item("bad", texts.recovery.RESUME_PAUSED, acts=[make_action("resume_all", "/api/resume")])
        )
    found += _problem_items(gateway)
    found += await _stranded_items(gateway)
    found += await _pairing_items(gateway)
    found += [
        item
        for turn in await gateway.store.turns.open([TurnState.WAITING], MAX_ITEMS_PER_KIND)
        for item in await _question_items(gateway, turn)
    ]
    found += [
        await _interrupted_item(gateway, turn)
        for turn in await gateway.store.turns.open([TurnState.INTERRUPTED], MAX_ITEMS_PER_KIND)
    ]
    return found + await _suspended_items(gateway) + await _delivery_items(gateway)


def _problem_items(gateway: Gateway) -> list[AttentionItem]:
    away = gateway.loops.connections.problems
    stored = [_attention_item("bad", gateway.store.problem)] if gateway.store.problem else []
    platforms = [
        _attention_item("bad", texts.platforms.not_connected(name), texts.platforms.reconnecting(problem))
        for name, problem in away.items()
    ]
    return [*stored, *platforms, *(_attention_item("warn", each) for each in gateway.warnings())]


async def _stranded_items(gateway: Gateway) -> list[AttentionItem]:
    """Chats that no running gateway can serve, and turns of dead gateways that could not be taken over."""
    unserved = [
        _attention_item("bad", each.text, texts.platforms.UNSERVED_ADVICE) for each in await read_unserved(gateway)
    ]
    aside = await gateway.store.run_services.put_aside(MAX_ITEMS_PER_KIND)
    return [
        *unserved,
        *(_attention_item("bad", texts.platforms.not_taken_over(each.key, each.problem)) for each in aside),
    ]


def _attention_item(level: Literal["warn", "bad"], text: str, detail: str = "", **more: Any) -> AttentionItem:
    """An item without time, place and actions, unless `more` has them."""
    return structs.replace(AttentionItem(level, text, detail, None, None, None, []), **more)


def _turn_location(turn: Turn) -> dict[str, Any]:
    return {"at": turn.updated_at, "where": chat_label(turn.key), "link": f"/console/turns/{turn.id}"}


async def _pairing_items(gateway: Gateway) -> list[AttentionItem]:
    people = await people_verbs(gateway).page(limit=1)
    return [
        _attention_item(
            "warn",
            texts.console.PAIRING_REQUESTED,
            each.name,
            at=each.asked_at,
            where=each.who,
            link="/console/people",
        )
        for each in (people.requests or [])[:MAX_ITEMS_PER_KIND]
    ]


async def pending_question(gateway: Gateway, turn: Turn) -> QuestionAsked | None:
    """The question that a turn waits for, if it waits for a person."""
    return (await _read_turn_view(gateway, turn)).question if turn.state is TurnState.WAITING else None


async def _read_turn_view(gateway: Gateway, turn: Turn) -> TurnView:
    return fold(await gateway.store.journal.of_turn(turn.session, turn.id))


async def _question_items(gateway: Gateway, turn: Turn) -> list[AttentionItem]:
    asked = await pending_question(gateway, turn)
    if asked is None:
        return []
    by_words = texts.console.QUESTION_WAITS if asked.options else texts.console.QUESTION_WAITS_IN_CHAT
    text = texts.console.APPROVAL_WAITS if asked.approves else by_words
    return [_attention_item("warn", text, asked.text, acts=turn_actions(turn, asked), **_turn_location(turn))]


async def _interrupted_item(gateway: Gateway, turn: Turn) -> AttentionItem:
    decided = (await _read_turn_view(gateway, turn)).last_decision
    why = decided.why if decided else texts.console.NOT_DECIDED_YET
    return _attention_item(
        "warn", texts.console.TURN_INTERRUPTED, why, acts=turn_actions(turn, None), **_turn_location(turn)
    )


async def _suspended_items(gateway: Gateway) -> list[AttentionItem]:
    found = await gateway.store.sessions.page(
        limit=MAX_ITEMS_PER_KIND, matching=SessionFilter(state="suspended", newest=True)
    )
    return [
        _attention_item(
            "warn",
            texts.console.SESSION_SUSPENDED,
            texts.console.SESSION_SUSPENDED_ADVICE,
            at=session.updated_at,
            where=chat_label(session.key),
            link=f"/console/sessions/{session.id}",
            acts=resume_actions(session),
        )
        for session in found
    ]


async def _delivery_items(gateway: Gateway) -> list[AttentionItem]:
    """Replies of unknown outcome, and replies that failed within a day and were not sent again."""
    outbox = gateway.store.outbox
    unknown = (await outbox.page((DeliveryState.UNKNOWN,), limit=MAX_ITEMS_PER_KIND)).rows
    failed = (await outbox.page((DeliveryState.REFUSED, DeliveryState.EXPIRED), limit=MAX_ITEMS_PER_KIND)).rows
    since = gateway.operator_verbs.clock() - RECENT_FAILURE_MS
    lately = [row for row in failed if row.updated_at > since and await outbox.resent_id(row) is None]
    return [_delivery_item(delivery_resource(row)) for row in [*unknown, *lately]]


def _delivery_item(delivery: DeliveryResource) -> AttentionItem:
    unknown = delivery.state is DeliveryState.UNKNOWN
    return _attention_item(
        "warn",
        texts.console.REPLY_UNKNOWN if unknown else texts.console.REPLY_NOT_DELIVERED,
        f"“{texts.phrases.first_words(delivery.text, 60)}”: {delivery.problem or delivery.advice}",
        at=delivery.updated_at,
        where=chat_label(delivery.key),
        link=f"/console/outbox?state={delivery.state}",
        acts=delivery_actions(delivery),
    )

"""The overview: how the gateway is, and what needs somebody, with what to do about it."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from perdure.console.accounts import WholeSituation
from perdure.console.acts import act, of_reply, of_turn, resuming
from perdure.console.answers import answer
from perdure.console.routes import call
from perdure.console.sessions import status
from perdure.console.wording import place
from perdure.core import notes
from perdure.core.delivery import Delivery
from perdure.core.entries import Asked
from perdure.core.journal import TurnView, fold
from perdure.core.turn import State
from perdure.operations.lives import decisions, turn_fields
from perdure.operations.outbox import row_fields
from perdure.operations.people import Register
from perdure.runtime.gateway import Gateway
from perdure.store.moves import Turn
from perdure.store.sessions import Which
from perdure.version import __version__

MOST = 20  # of each kind: whoever has more goes through the lists
LATELY_MS = 86_400_000
FEW = 5


class OverviewApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @call(
        "GET",
        "/api/overview",
        "how the gateway is, what needs somebody, and what to do about it",
        answer=WholeSituation,
    )
    async def get(self, _: Request) -> Response:
        return answer(await overview(self._gateway))


async def overview(gateway: Gateway) -> dict[str, Any]:
    """All that the first page of the console shows."""
    store = gateway.store
    running = await store.turns.open([State.RUNNING, State.QUEUED], MOST)
    return await status(gateway) | {
        "version": __version__,
        "model": gateway.settings.model.name,
        "adapters": _adapters(gateway),
        "well": notes.ALL_IS_WELL,
        "attention": await attention(gateway),
        "turns": [turn_fields(turn) for turn in running],
        "decisions": (await decisions(store, limit=FEW))["decisions"][:FEW],
    }


def _adapters(gateway: Gateway) -> list[dict[str, str]]:
    problems = gateway.loops.connections.problems
    return [{"name": each.name, "problem": problems.get(each.name, "")} for each in gateway.adapters]


async def attention(gateway: Gateway) -> list[dict[str, Any]]:
    """Everything that does not go on by itself, the most pressing first."""
    found: list[dict[str, Any]] = []
    if gateway.loops.recoverer.paused:
        found.append(_item("bad", notes.RESUME_PAUSED, acts=[act("resume_all", "/api/resume")]))
    found += _problems(gateway)
    found += await _people(gateway)
    found += [
        item
        for turn in await gateway.store.turns.open([State.WAITING], MOST)
        for item in await _asked(gateway, turn)
    ]
    found += [
        await _interrupted(gateway, turn) for turn in await gateway.store.turns.open([State.INTERRUPTED], MOST)
    ]
    return found + await _suspended(gateway) + await _replies(gateway)


def _problems(gateway: Gateway) -> list[dict[str, Any]]:
    away = gateway.loops.connections.problems
    stored = [_item("bad", gateway.store.problem)] if gateway.store.problem else []
    platforms = [
        _item("bad", notes.not_connected(name), notes.tried_again(problem)) for name, problem in away.items()
    ]
    return [*stored, *platforms, *(_item("warn", each) for each in gateway.shortcomings())]


def _item(level: str, text: str, detail: str = "", **more: Any) -> dict[str, Any]:
    return {
        "level": level,
        "text": text,
        "detail": detail,
        "at": None,
        "where": None,
        "link": None,
        "acts": [],
    } | more


def _of_turn(turn: Turn) -> dict[str, Any]:
    return {"at": turn.updated_at, "where": place(turn.key), "link": f"/console/turns/{turn.id}"}


async def _people(gateway: Gateway) -> list[dict[str, Any]]:
    asking = (await Register(gateway.settings, gateway.store, gateway.operators.clock).page(limit=1))["requests"]
    return [
        _item(
            "warn",
            notes.SOMEBODY_ASKS,
            each["name"],
            at=each["asked_at"],
            where=each["who"],
            link="/console/people",
        )
        for each in asking[:MOST]
    ]


async def question(gateway: Gateway, turn: Turn) -> Asked | None:
    """What a turn waits for, if it waits for a person."""
    return (await _view(gateway, turn)).question if turn.state is State.WAITING else None


async def _view(gateway: Gateway, turn: Turn) -> TurnView:
    return fold(await gateway.store.journal.of_turn(turn.session, turn.id))


async def _asked(gateway: Gateway, turn: Turn) -> list[dict[str, Any]]:
    asked = await question(gateway, turn)
    if asked is None:
        return []
    by_words = notes.QUESTION_WAITS if asked.options else notes.QUESTION_WAITS_THERE
    text = notes.CALL_WAITS if asked.approves else by_words
    return [_item("warn", text, asked.text, acts=of_turn(turn, asked), **_of_turn(turn))]


async def _interrupted(gateway: Gateway, turn: Turn) -> dict[str, Any]:
    decided = (await _view(gateway, turn)).decided
    why = decided.why if decided else notes.NOT_DECIDED_YET
    return _item("warn", notes.NOT_GOING_ON, why, acts=of_turn(turn, None), **_of_turn(turn))


async def _suspended(gateway: Gateway) -> list[dict[str, Any]]:
    found = await gateway.store.sessions.page(limit=MOST, which=Which(state="suspended", newest=True))
    return [
        _item(
            "warn",
            notes.SET_ASIDE_HERE,
            notes.SET_ASIDE_MEANS,
            at=session.updated_at,
            where=place(session.key),
            link=f"/console/sessions/{session.id}",
            acts=resuming(session),
        )
        for session in found
    ]


async def _replies(gateway: Gateway) -> list[dict[str, Any]]:
    """Those of unknown outcome, and those that were lately given up, unless they were sent again."""
    outbox = gateway.store.outbox
    unknown = (await outbox.page((Delivery.UNKNOWN,), limit=MOST)).rows
    failed = (await outbox.page((Delivery.REFUSED, Delivery.EXPIRED), limit=MOST)).rows
    since = gateway.operators.clock() - LATELY_MS
    lately = [row for row in failed if row.updated_at > since and await outbox.again(row) is None]
    return [_reply(row_fields(row)) for row in [*unknown, *lately]]


def _reply(row: dict[str, Any]) -> dict[str, Any]:
    text = notes.SEND_UNKNOWN if row["state"] == Delivery.UNKNOWN else notes.SEND_FAILED
    where = {"at": row["updated_at"], "where": place(row["key"]), "link": "/console/outbox?state=" + row["state"]}
    detail = f"“{notes.beginning(row['text'], 60)}”: {row['problem'] or row['advice']}"
    return _item("warn", text, detail, acts=of_reply(row), **where)

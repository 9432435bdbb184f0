"""The life of a turn, the turns of a session, and the decisions about them, under the names of their JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.core.address import parse_session_key
from perdure.core.entries import Began, Decided, Joined
from perdure.core.explain import STATES, explain_decision
from perdure.core.lives import Cut, End, Line, line_of
from perdure.core.notes import CHOICES, RULES, beginning, cause_of, clipped, how_it_died
from perdure.errors import NotFound
from perdure.operations.look import received, turn_facts
from perdure.operations.outbox import row_fields
from perdure.store.api import Store
from perdure.store.decisions import Found
from perdure.store.lives import Past, Received, TurnLife
from perdure.store.moves import Turn
from perdure.store.runs import Run

MOST_LETTERS = 2_000
FIRST_WORDS = 120


async def turn_life(store: Store, name: str) -> dict[str, Any]:
    """All that is on record of a turn, with its times."""
    life = await store.lives.of_turn(name)
    if life is None:
        raise NotFound(
            f"no turn is named {name!r}",
            hint="The page of a session, and its JSON at `/api/sessions/{id}`, list its turns.",
        )
    line = line_of(life.records, {run.id: _end(run) for run in life.runs})
    return turn_fields(life.turn) | {
        "whole": life.whole,
        "messages": [_message(life, each) for each in life.messages],
        "attempts": msgspec.to_builtins(line.attempts),
        "steps": [msgspec.to_builtins(span) for span in line.spans if span.kind == "model"],
        "calls": [msgspec.to_builtins(span) for span in line.spans if span.kind == "tool"],
        "questions": [msgspec.to_builtins(span) for span in line.spans if span.kind == "person"],
        "interruptions": [_interruption(cut) for cut in line.cuts],
        "decisions": _decisions(line),
        "replies": [row_fields(row) for row in life.deliveries],
        "previews": msgspec.to_builtins(life.previews),
        "runs": [msgspec.to_builtins(run) | {"death": how_it_died(run.exit_code)} for run in life.runs],
        "facts": _facts(life),
    }


def _end(run: Run) -> End:
    """Until when the run was alive: its supervisor saw it die, or it was last seen by its heartbeat."""
    return End(run.heartbeat_at) if run.died_at is None else End(run.died_at, run.exit_code)


def _interruption(cut: Cut) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(cut)
    return fields | {"cause": cause_of(cut.reason), "death": how_it_died(cut.exit_code)}


def turn_fields(turn: Turn) -> dict[str, Any]:
    """A turn under the names that its JSON has."""
    return {
        "id": turn.id,
        "session": turn.session,
        "key": turn.key,
        "address": msgspec.to_builtins(parse_session_key(turn.key)[1]),
        "state": turn.state,
        "said": f"It {STATES[turn.state]}.",
        "attempt": turn.attempt,
        "generation": turn.generation,
        "began_at": turn.began_at,
        "updated_at": turn.updated_at,
    }


def _message(life: TurnLife, message: Received) -> dict[str, Any]:
    inbound = message.inbound
    return {
        "id": message.id,
        "event": message.event_key,
        "kind": message.kind,
        "state": message.state,
        "platform_id": inbound.message,
        "by": inbound.sender.name or inbound.sender.id,
        "text": clipped(inbound.text, MOST_LETTERS),
        "sent_at": message.sent_at,
        "received_at": message.received_at,
        "taken_at": _taken_at(life, message.id),
    }


def _taken_at(life: TurnLife, message: str) -> int | None:
    """When a message became part of the turn."""
    for record in life.records:
        entry = record.entry
        if isinstance(entry, Began | Joined) and any(cause.inbox == message for cause in entry.causes):
            return record.at
    return None


def _decisions(line: Line) -> list[dict[str, Any]]:
    found = []
    for judged in line.decisions:
        before = [cut for cut in line.cuts if cut.found_at <= judged.at]
        reason = before[-1].reason if before else ""
        found.append({"at": judged.at, **_decision(judged.decided, reason)})
    return found


def _decision(decided: Decided, reason: str) -> dict[str, Any]:
    return {
        "choice": decided.decision,
        "choice_in_words": CHOICES.get(decided.decision, decided.decision),
        "rule": decided.rule,
        "rule_in_words": RULES.get(decided.rule, decided.rule),
        "why": decided.why,
        "reason": reason,
        "evidence": decided.evidence,
        "words": explain_decision(decided, reason),
    }


def _facts(life: TurnLife) -> list[dict[str, Any]]:
    came = [received(one.received_at, one.kind, one.id, one.event_key, one.state) for one in life.messages]
    rest = turn_facts(life.records, life.previews, life.deliveries, life.runs)
    return sorted([*came, *rest], key=lambda fact: fact["at"])


# ── lists ───────────────────────────────────────────────────────────────────────────────────────────────────


async def past_turns(store: Store, session: str, after: str = "", limit: int = 50) -> dict[str, Any]:
    """The turns of a session, the newest first, with what each began with."""
    found = await store.lives.past(session, after, limit + 1)
    return {"turns": [_past(each) for each in found[:limit]], "more": len(found) > limit}


def _past(past: Past) -> dict[str, Any]:
    words = next((cause.text for cause in past.began.causes if cause.text.strip()), "")
    return turn_fields(past.turn) | {"words": beginning(words, FIRST_WORDS), "interruptions": past.interruptions}


async def decisions(store: Store, after: str = "", limit: int = 50) -> dict[str, Any]:
    """Decisions about interruptions, the newest first, in words; `next` is where to go on."""
    found, place = await store.decisions.page(after, limit)
    return {"decisions": [_listed(each) for each in found], "more": place is not None, "next": place}


def _listed(found: Found) -> dict[str, Any]:
    return {
        "at": found.record.at,
        "session": found.mark.session,
        "key": found.key,
        "turn": found.mark.turn,
        "interrupted_at": found.mark.record.at,
        **_decision(found.decided, found.reason),
    }

"""The life of a turn, the turns of a session, and the decisions about them, under the names of their JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.core import texts
from perdure.core.address import split_session_key
from perdure.core.entries import MessagesJoined, RecoveryDecided, TurnBegan
from perdure.core.texts.explanation import TURN_STATES, explain_decision
from perdure.core.timeline import InterruptionSpan, RunEnd, TurnTimeline, build_timeline
from perdure.errors import NotFound
from perdure.operations.inspect import received_fact, turn_facts
from perdure.operations.outbox import delivery_fields
from perdure.store.api import Store
from perdure.store.decisions import DecisionRecord
from perdure.store.runs import Run
from perdure.store.timeline import TurnHistory, TurnMessage, TurnSummary
from perdure.store.transitions import Turn

MAX_TEXT_CHARACTERS = 2_000
MAX_FIRST_WORDS_CHARACTERS = 120


async def turn_timeline(store: Store, name: str) -> dict[str, Any]:
    """All that is on record of a turn, with its times."""
    life = await store.timelines.of_turn(name)
    if life is None:
        raise NotFound(
            f"no turn is named {name!r}",
            hint="The page of a session, and its JSON at `/api/sessions/{id}`, list its turns.",
        )
    line = build_timeline(life.records, {run.id: _run_end(run) for run in life.runs})
    return turn_fields(life.turn) | {
        "whole": life.whole,
        "messages": [_message(life, each) for each in life.messages],
        "attempts": msgspec.to_builtins(line.attempts),
        "steps": [msgspec.to_builtins(span) for span in line.spans if span.kind == "model"],
        "calls": [msgspec.to_builtins(span) for span in line.spans if span.kind == "tool"],
        "questions": [msgspec.to_builtins(span) for span in line.spans if span.kind == "person"],
        "interruptions": [_interruption(cut) for cut in line.interruptions],
        "decisions": _decisions(line),
        "replies": [delivery_fields(row) for row in life.deliveries],
        "previews": msgspec.to_builtins(life.previews),
        "runs": [
            msgspec.to_builtins(run) | {"death": texts.recovery.process_exit(run.exit_code)} for run in life.runs
        ],
        "facts": _facts(life),
    }


def _run_end(run: Run) -> RunEnd:
    """Until when the run was alive: its supervisor saw it die, or it was last seen by its heartbeat."""
    return RunEnd(run.heartbeat_at) if run.died_at is None else RunEnd(run.died_at, run.exit_code)


def _interruption(cut: InterruptionSpan) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(cut)
    return fields | {
        "cause": texts.recovery.cause(cut.reason),
        "death": texts.recovery.process_exit(cut.exit_code),
    }


def turn_fields(turn: Turn) -> dict[str, Any]:
    """A turn under the names that its JSON has."""
    return {
        "id": turn.id,
        "session": turn.session,
        "key": turn.key,
        "address": msgspec.to_builtins(split_session_key(turn.key)[1]),
        "state": turn.state,
        "said": f"It {TURN_STATES[turn.state]}.",
        "attempt": turn.attempt,
        "generation": turn.generation,
        "began_at": turn.began_at,
        "updated_at": turn.updated_at,
    }


def _message(timeline: TurnHistory, message: TurnMessage) -> dict[str, Any]:
    inbound = message.inbound
    return {
        "id": message.id,
        "event": message.event_key,
        "kind": message.kind,
        "state": message.state,
        "platform_id": inbound.message,
        "by": inbound.sender.name or inbound.sender.id,
        "text": texts.phrases.clip(inbound.text, MAX_TEXT_CHARACTERS),
        "sent_at": message.sent_at,
        "received_at": message.received_at,
        "taken_at": _taken_at(timeline, message.id),
    }


def _taken_at(timeline: TurnHistory, message: str) -> int | None:
    """When a message became part of the turn."""
    for record in timeline.records:
        entry = record.entry
        if isinstance(entry, TurnBegan | MessagesJoined) and any(cause.inbox == message for cause in entry.causes):
            return record.at
    return None


def _decisions(timeline: TurnTimeline) -> list[dict[str, Any]]:
    found = []
    for judged in timeline.decisions:
        before = [cut for cut in timeline.interruptions if cut.found_at <= judged.at]
        reason = before[-1].reason if before else ""
        found.append({"at": judged.at, **_decision(judged.decided, reason)})
    return found


def _decision(decided: RecoveryDecided, reason: str) -> dict[str, Any]:
    return {
        "choice": decided.decision,
        "choice_in_words": texts.recovery.CHOICES.get(decided.decision, decided.decision),
        "rule": decided.rule,
        "rule_in_words": texts.recovery.RULES.get(decided.rule, decided.rule),
        "why": decided.why,
        "reason": reason,
        "evidence": decided.evidence,
        "words": explain_decision(decided, reason),
    }


def _facts(timeline: TurnHistory) -> list[dict[str, Any]]:
    came = [
        received_fact(one.received_at, one.kind, one.id, one.event_key, one.state) for one in timeline.messages
    ]
    rest = turn_facts(timeline.records, timeline.previews, timeline.deliveries, timeline.runs)
    return sorted([*came, *rest], key=lambda fact: fact["at"])


# ── lists ───────────────────────────────────────────────────────────────────────────────────────────────────


async def list_turns(store: Store, session: str, after: str = "", limit: int = 50) -> dict[str, Any]:
    """The turns of a session, the newest first, with what each began with."""
    found = await store.timelines.turns_of_session(session, after, limit + 1)
    return {"turns": [_past(each) for each in found[:limit]], "more": len(found) > limit}


def _past(past: TurnSummary) -> dict[str, Any]:
    words = next((cause.text for cause in past.began.causes if cause.text.strip()), "")
    return turn_fields(past.turn) | {
        "words": texts.phrases.first_words(words, MAX_FIRST_WORDS_CHARACTERS),
        "interruptions": past.interruptions,
    }


async def list_decisions(store: Store, after: str = "", limit: int = 50) -> dict[str, Any]:
    """Decisions about interruptions, the newest first, in words; `next` is where to go on."""
    found, place = await store.decisions.page(after, limit)
    return {"decisions": [_listed(each) for each in found], "more": place is not None, "next": place}


def _listed(found: DecisionRecord) -> dict[str, Any]:
    return {
        "at": found.record.at,
        "session": found.mark.session,
        "key": found.key,
        "turn": found.mark.turn,
        "interrupted_at": found.mark.record.at,
        **_decision(found.decision, found.reason),
    }

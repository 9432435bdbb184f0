"""Everything on record about a turn, the turns of a session, and the decisions of recovery, for operators."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.core import texts
from perdure.core.address import split_session_key
from perdure.core.entries import MessagesJoined, RecoveryDecided, TurnBegan
from perdure.core.texts.explanation import TURN_STATES, explain_decision
from perdure.core.timeline import InterruptionSpan, RunEnd, TurnTimeline, build_timeline
from perdure.errors import NotFound
from perdure.operations.inspect import delivery_resource, received_fact, turn_facts
from perdure.operations.resources import (
    DecisionListResponse,
    DecisionResource,
    FactResource,
    InterruptionResource,
    ListedDecisionResource,
    PastTurnResource,
    TurnMessageResource,
    TurnResource,
    TurnRunResource,
    TurnTimelineResponse,
    cut_page,
)
from perdure.store.api import Store
from perdure.store.decisions import DecisionRecord
from perdure.store.runs import Run
from perdure.store.timeline import TurnHistory, TurnMessage, TurnSummary
from perdure.store.transitions import Turn

MAX_TEXT_CHARACTERS = 2_000
MAX_FIRST_WORDS_CHARACTERS = 120


async def turn_timeline(store: Store, name: str) -> TurnTimelineResponse:
    """Everything on record about a turn, with its times."""
    history = await store.timelines.of_turn(name)
    if history is None:
        raise NotFound(
            f"no turn is named {name!r}",
            hint="The page of a session, and its JSON at `/api/sessions/{id}`, list its turns.",
        )
    timeline = build_timeline(history.records, {run.id: _run_end(run) for run in history.runs})
    return TurnTimelineResponse(
        **_turn_fields(history.turn),
        whole=history.whole,
        messages=[_message_resource(history, each) for each in history.messages],
        attempts=timeline.attempts,
        steps=[span for span in timeline.spans if span.kind == "model"],
        calls=[span for span in timeline.spans if span.kind == "tool"],
        questions=[span for span in timeline.spans if span.kind == "person"],
        interruptions=[_interruption_resource(each) for each in timeline.interruptions],
        decisions=_decision_resources(timeline),
        replies=[delivery_resource(row) for row in history.deliveries],
        previews=history.previews,
        runs=[_run_resource(run) for run in history.runs],
        facts=_facts(history),
    )


def _run_end(run: Run) -> RunEnd:
    """When the run ended: its supervisor saw the process exit, or its last heartbeat is the last sign of life."""
    return RunEnd(run.heartbeat_at) if run.died_at is None else RunEnd(run.died_at, run.exit_code)


def _run_resource(run: Run) -> TurnRunResource:
    return TurnRunResource(**msgspec.structs.asdict(run), death=texts.recovery.process_exit(run.exit_code))


def _interruption_resource(interruption: InterruptionSpan) -> InterruptionResource:
    return InterruptionResource(
        at=interruption.at,
        found_at=interruption.found_at,
        reason=interruption.reason,
        attempt=interruption.attempt,
        exit_code=interruption.exit_code,
        cause=texts.recovery.cause(interruption.reason),
        death=texts.recovery.process_exit(interruption.exit_code),
    )


def turn_resource(turn: Turn) -> TurnResource:
    return TurnResource(
        id=turn.id,
        session=turn.session,
        key=turn.key,
        address=split_session_key(turn.key)[1],
        state=turn.state,
        said=f"It {TURN_STATES[turn.state]}.",
        attempt=turn.attempt,
        generation=turn.generation,
        began_at=turn.began_at,
        updated_at=turn.updated_at,
    )


def _turn_fields(turn: Turn) -> dict[str, Any]:
    """The fields that every response about a turn has."""
    return msgspec.structs.asdict(turn_resource(turn))


def _message_resource(history: TurnHistory, message: TurnMessage) -> TurnMessageResource:
    inbound = message.inbound
    return TurnMessageResource(
        id=message.id,
        event=message.event_key,
        kind=message.kind,
        state=message.state,
        platform_id=inbound.message,
        by=inbound.sender.name or inbound.sender.id,
        text=texts.phrases.clip(inbound.text, MAX_TEXT_CHARACTERS),
        sent_at=message.sent_at,
        received_at=message.received_at,
        taken_at=_taken_at(history, message.id),
    )


def _taken_at(history: TurnHistory, message: str) -> int | None:
    """When a message became part of the turn."""
    for record in history.records:
        entry = record.entry
        if isinstance(entry, TurnBegan | MessagesJoined) and any(cause.inbox == message for cause in entry.causes):
            return record.at
    return None


def _decision_resources(timeline: TurnTimeline) -> list[DecisionResource]:
    """The decisions about a turn, each with the reason of the interruption before it."""
    found = []
    for point in timeline.decisions:
        reasons = [each.reason for each in timeline.interruptions if each.found_at <= point.at]
        found.append(_decision_resource(point.at, point.decided, reasons[-1] if reasons else ""))
    return found


def _decision_resource(at: int, decided: RecoveryDecided, reason: str) -> DecisionResource:
    return DecisionResource(
        at,
        choice=decided.decision,
        choice_in_words=texts.recovery.CHOICES.get(decided.decision, decided.decision),
        rule=decided.rule,
        rule_in_words=texts.recovery.RULES.get(decided.rule, decided.rule),
        why=decided.why,
        reason=reason,
        evidence=decided.evidence,
        words=explain_decision(decided, reason),
    )


def _facts(history: TurnHistory) -> list[FactResource]:
    received = [
        received_fact(each.received_at, each.kind, each.id, each.event_key, each.state)
        for each in history.messages
    ]
    recorded = turn_facts(history.records, history.previews, history.deliveries, history.runs)
    return sorted([*received, *recorded], key=lambda fact: fact.at)


# ── lists ───────────────────────────────────────────────────────────────────────────────────────────────────


async def list_turns(
    store: Store, session: str, after: str = "", limit: int = 50
) -> tuple[list[PastTurnResource], bool]:
    """A page of a session's turns, the newest first, and whether there are more."""
    found = await store.timelines.turns_of_session(session, after, limit + 1)
    turns, more = cut_page(found, limit)
    return [_past_turn(each) for each in turns], more


def _past_turn(summary: TurnSummary) -> PastTurnResource:
    text = next((cause.text for cause in summary.began.causes if cause.text.strip()), "")
    return PastTurnResource(
        **_turn_fields(summary.turn),
        words=texts.phrases.first_words(text, MAX_FIRST_WORDS_CHARACTERS),
        interruptions=summary.interruptions,
    )


async def list_decisions(store: Store, after: str = "", limit: int = 50) -> DecisionListResponse:
    """A page of decisions in words, the newest interruptions first; `next` is the cursor of the next page."""
    found, cursor = await store.decisions.page(after, limit)
    return DecisionListResponse([_listed_decision(each) for each in found], cursor is not None, cursor)


def _listed_decision(found: DecisionRecord) -> ListedDecisionResource:
    return ListedDecisionResource(
        session=found.mark.session,
        key=found.key,
        turn=found.mark.turn,
        interrupted_at=found.mark.record.at,
        **msgspec.structs.asdict(_decision_resource(found.record.at, found.decision, found.reason)),
    )

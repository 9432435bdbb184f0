"""A turn's timeline as rows of a table: the same facts as the diagram, for people who cannot see it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct, json

from perdure.core import texts
from perdure.core.timeline import Span
from perdure.operations.resources import DeliveryResource, TurnTimelineResponse


class TimelineRow(Struct, frozen=True):
    """One event of a turn: when it began and how long it took."""

    at: int
    what: str
    name: str = ""  # its id, as in the list of facts
    attempt: int | None = None
    took: int | None = None  # None: it goes on
    outcome: str = ""
    kind: str = ""  # the state that colours the badge, if `outcome` is another word
    detail: str = ""
    code: str = ""
    cut: bool = False


def timeline_rows(timeline: TurnTimelineResponse) -> list[TimelineRow]:
    """Everything in the diagram, in the order in which it began."""
    return sorted(_unsorted_rows(timeline), key=lambda row: row.at)


def _unsorted_rows(timeline: TurnTimelineResponse) -> Iterator[TimelineRow]:
    for message in timeline.messages:
        what, taken_at = f"message of {message.by}", message.taken_at or message.received_at
        yield _make_row(message.received_at, taken_at, what, message.state, message.text, name=message.id)
    for attempt in timeline.attempts:
        what, outcome = f"attempt {attempt.number}", attempt.ending or "goes on"
        yield _make_row(attempt.at, attempt.until, what, outcome, attempt=attempt.number)
    for span in [*timeline.steps, *timeline.calls, *timeline.questions]:
        yield _span_row(span)
    for each in timeline.interruptions:
        what, detail = f"interrupted: {each.cause}", texts.recovery.downtime(each.death, each.reason)
        yield _make_row(each.at, each.found_at, what, "cut", detail, attempt=each.attempt, cut=True)
    for decision in timeline.decisions:
        choice, why = decision.choice_in_words, f"{decision.rule_in_words}: {decision.why}."
        yield _make_row(decision.at, decision.at, "decision", choice, why, kind=decision.choice)
    for delivery in timeline.replies:
        yield _delivery_row(delivery)


def _delivery_row(delivery: DeliveryResource) -> TimelineRow:
    known = f"receipt {delivery.receipt}" if delivery.receipt else delivery.problem
    detail = f"{delivery.text} ({known})" if known else delivery.text
    what, state = f"reply, part {delivery.part + 1}", delivery.state
    return _make_row(delivery.created_at, delivery.updated_at, what, state, detail, name=delivery.id)


def _make_row(at: int, until: int | None, what: str, outcome: str, detail: str = "", **more: Any) -> TimelineRow:
    return TimelineRow(
        at, what, took=None if until is None else until - at, outcome=outcome, detail=detail, **more
    )


def _span_row(span: Span) -> TimelineRow:
    what = f"model {span.name}" if span.kind == "model" else span.name
    code = json.encode(span.arguments).decode() if span.arguments else ""
    outcome, more = span.outcome or "goes on", {"name": span.id, "attempt": span.attempt, "code": code}
    return _make_row(span.at, span.until, what, outcome, span.text, **more)

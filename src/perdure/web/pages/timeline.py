"""A turn's timeline on a page: bars to scale, and the same facts as rows of a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from msgspec import Struct, field, json

from perdure.core import texts
from perdure.core.delivery import OPEN_DELIVERY_STATES, DeliveryState
from perdure.core.timeline import AttemptSpan, Span, is_planned_stop
from perdure.operations.resources import (
    DecisionResource,
    DeliveryResource,
    InterruptionResource,
    TurnMessageResource,
    TurnTimelineResponse,
)
from perdure.web.pages.rendering import capitalised, duration

# In SVG units; the names of the lanes stand in the left margin.
WIDTH, LEFT_MARGIN, RIGHT_MARGIN = 1000.0, 92.0, 14.0
ROW_HEIGHT, TOP_MARGIN = 30.0, 26.0
MIN_BAR_WIDTH = 3.0  # keeps bars without duration visible
LETTER_WIDTH = 6.6  # on average
MAX_TICKS, MAX_TOOL_ROWS = 9, 8
CLOSE_UP_SHARE = 0.25  # an attempt with a smaller share of the turn gets a diagram of its own
TICK_STEPS_MS = [base * unit for unit, bases in (
    (1, (1, 2, 5, 10, 20, 50, 100, 200, 500)),
    (1_000, (1, 2, 5, 10, 15, 30)),
    (60_000, (1, 2, 5, 10, 15, 30)),
    (3_600_000, (1, 2, 6, 12)),
    (86_400_000, (1, 2, 7, 30, 90, 365)),
) for base in bases]  # fmt: skip


class TimelineBar(Struct):
    """A span of time. `kind` is its colour; `mark` is `cut` if it was interrupted, `open` if it goes on."""

    at: int
    until: int
    kind: str
    title: str
    text: str = ""
    mark: str = ""
    x: float = 0.0
    width: float = 0.0

    @property
    def label(self) -> str:
        """As much of the text as fits into the bar."""
        return (
            self.text
            if self.fits(self.text)
            else self.text[: self._letters_that_fit - 1] + "…"
            if self._letters_that_fit > 4
            else ""
        )

    def fits(self, text: str) -> bool:
        """Whether the whole text fits into the bar."""
        return len(text) <= self._letters_that_fit

    @property
    def _letters_that_fit(self) -> int:
        return int((self.width - 10) / LETTER_WIDTH)


class OutageBar(TimelineBar):
    """Time without a known running gateway; `death` says how its process ended, if a supervisor saw it."""

    death: str = ""


B = TypeVar("B", bound=TimelineBar)


class TimelineLane(Struct):
    name: str
    bars: list[TimelineBar]
    y: float = 0.0


class AxisTick(Struct, frozen=True):
    x: float
    text: str


class TimelineDiagram(Struct):
    name: str
    begin: int
    end: int
    lanes: list[TimelineLane]
    outages: list[OutageBar]  # from the end of a run, or its last heartbeat, to the recorded interruption
    ticks: list[AxisTick] = field(default_factory=list)

    @property
    def height(self) -> float:
        return TOP_MARGIN + ROW_HEIGHT * len(self.lanes) + 8


def timeline_diagrams(timeline: TurnTimelineResponse, now: int) -> list[TimelineDiagram]:
    """The diagram of the whole turn, and one of each attempt that is too short to see there."""
    lanes, outages = _lanes(timeline, now), _outage_bars(timeline)
    begin, end = _time_range([bar for lane in lanes for bar in lane.bars])
    whole = _lay_out("The whole turn", lanes, outages, begin, end)
    return [whole, *(_close_up_diagram(timeline, one, now) for one in _short_attempts(timeline, now, end - begin))]


def _short_attempts(timeline: TurnTimelineResponse, now: int, total: int) -> list[AttemptSpan]:
    if len(timeline.attempts) < 2 and not timeline.interruptions:
        return []
    return [one for one in timeline.attempts if (one.until or now) - one.at < CLOSE_UP_SHARE * total]


def _close_up_diagram(timeline: TurnTimelineResponse, attempt: AttemptSpan, now: int) -> TimelineDiagram:
    begin, end = attempt.at, max(attempt.until or now, attempt.at + 1)
    name = f"Attempt {attempt.number}, at its own scale"
    return _lay_out(name, _lanes(timeline, now), _outage_bars(timeline), begin, end)


def _lay_out(
    name: str, lanes: Sequence[TimelineLane], outages: Iterable[OutageBar], begin: int, end: int
) -> TimelineDiagram:
    end = max(end, begin + 1)
    placed = [TimelineLane(lane.name, _place_bars(lane.bars, begin, end)) for lane in lanes]
    visible = [lane for lane in placed if lane.bars]
    for row, lane in enumerate(visible):
        lane.y = TOP_MARGIN + ROW_HEIGHT * row
    return TimelineDiagram(name, begin, end, visible, _place_bars(outages, begin, end), _axis_ticks(begin, end))


def _place_bars(bars: Iterable[B], begin: int, end: int) -> list[B]:
    """The bars that overlap the time range, with their positions set."""
    found = []
    for bar in bars:
        if bar.until < begin or bar.at > end:
            continue
        left, right = (_x_position(min(max(at, begin), end), begin, end) for at in (bar.at, bar.until))
        width = max(right - left, MIN_BAR_WIDTH)
        bar.x, bar.width = round(min(left, WIDTH - RIGHT_MARGIN - width), 1), round(width, 1)
        found.append(bar)
    return found


def _x_position(at: int, begin: int, end: int) -> float:
    return LEFT_MARGIN + (at - begin) / (end - begin) * (WIDTH - LEFT_MARGIN - RIGHT_MARGIN)


def _axis_ticks(begin: int, end: int) -> list[AxisTick]:
    step = next((step for step in TICK_STEPS_MS if (end - begin) / step <= MAX_TICKS), TICK_STEPS_MS[-1])
    offsets = range(0, end - begin + 1, step)[: MAX_TICKS + 1]
    return [
        AxisTick(round(_x_position(begin + offset, begin, end), 1), duration(offset) if offset else "0")
        for offset in offsets
    ]


def _time_range(bars: Sequence[TimelineBar]) -> tuple[int, int]:
    return min((bar.at for bar in bars), default=0), max((bar.until for bar in bars), default=1)


# ── bars ────────────────────────────────────────────────────────────────────────────────────────────────────


def _lanes(timeline: TurnTimelineResponse, now: int) -> list[TimelineLane]:
    tools = _split_overlapping([_span_bar(each, now) for each in timeline.calls])
    return [
        TimelineLane("Messages", [_message_bar(each) for each in timeline.messages]),
        TimelineLane(
            "Attempts",
            [
                *(_attempt_bar(each, now) for each in timeline.attempts),
                *map(_decision_bar, timeline.decisions),
            ],
        ),
        TimelineLane("Model", [_span_bar(each, now) for each in timeline.steps]),
        *(TimelineLane("" if row else "Tools", bars) for row, bars in enumerate(tools)),
        TimelineLane("Person", [_span_bar(each, now) for each in timeline.questions]),
        TimelineLane("Replies", [_delivery_bar(each, now) for each in timeline.replies]),
    ]


def _message_bar(each: TurnMessageResource) -> TimelineBar:
    begin = min(each.sent_at or each.received_at, each.received_at)
    end = each.taken_at or each.received_at
    title = f"Message of {each.by}: stored, and taken {duration(end - each.received_at)} later"
    return TimelineBar(begin, end, "message", title)


def _attempt_bar(each: AttemptSpan, now: int) -> TimelineBar:
    end = each.until or now
    how = "goes on" if each.until is None else each.ending
    cause = f" by {texts.recovery.cause(each.reason)}" if each.reason else ""
    title = f"Attempt {each.number}: {duration(end - each.at)}, {how}{cause}"
    mark = "open" if each.until is None else "cut" if each.ending == "interrupted" else ""
    return TimelineBar(each.at, end, "attempt", title, f"attempt {each.number}", mark)


def _decision_bar(each: DecisionResource) -> TimelineBar:
    return TimelineBar(each.at, each.at, "decided", f"Decided: {each.choice_in_words}. {each.rule_in_words}.")


def _span_bar(each: Span, now: int) -> TimelineBar:
    end = each.until if each.until is not None else now
    outcome = each.outcome or "goes on"
    title = f"{each.name} ({each.id}): {duration(end - each.at)}, {outcome}"
    mark = {"cut": "cut", "unknown": "cut", None: "open"}.get(each.outcome, "")
    kind = f"{each.kind} failed" if each.outcome == "error" else each.kind
    return TimelineBar(each.at, end, kind, title, each.name, mark)


def _delivery_bar(each: DeliveryResource, now: int) -> TimelineBar:
    settled = each.state not in OPEN_DELIVERY_STATES
    end = each.updated_at if settled else max(now, each.created_at)
    title = f"Reply, part {each.part + 1}: {duration(end - each.created_at)}, {each.state}"
    kind = "reply" if each.state is DeliveryState.SENT else "reply failed" if settled else "reply"
    return TimelineBar(each.created_at, end, kind, title, each.state, "" if settled else "open")


def _outage_bars(timeline: TurnTimelineResponse) -> list[OutageBar]:
    """The times between a run's end, seen or assumed, and the recorded interruption."""
    return [_outage_bar(each) for each in timeline.interruptions]


def _outage_bar(each: InterruptionResource) -> OutageBar:
    death, text = (
        each.death or "",
        texts.recovery.WITHOUT_GATEWAY if each.death else texts.recovery.NO_SIGN_OF_LIFE,
    )
    lasted = f"{text} for {duration(each.found_at - each.at)}"
    title = (
        texts.recovery.downtime(death, each.reason)
        if is_planned_stop(each.reason)
        else f"{death}; {lasted}".lstrip("; ")
    )
    return OutageBar(each.at, each.found_at, "down", capitalised(title), text, death=death)


def _split_overlapping(bars: Sequence[TimelineBar]) -> list[list[TimelineBar]]:
    """Bars in rows without overlaps; from `MAX_TOOL_ROWS` on, bars share the last row."""
    rows: list[list[TimelineBar]] = []
    for bar in sorted(bars, key=lambda bar: bar.at):
        free = [row for row in rows if row[-1].until <= bar.at]
        if free:
            free[0].append(bar)
        elif len(rows) < MAX_TOOL_ROWS:
            rows.append([bar])
        else:
            rows[-1].append(bar)
    return rows


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
    detail = f"{span.text} (by {span.by})" if span.by else span.text
    return _make_row(span.at, span.until, what, outcome, detail, **more)

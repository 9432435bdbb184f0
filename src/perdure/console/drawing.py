"""A turn's life, drawn to scale: lanes of bars over one axis of time. Only geometry; the template draws it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from msgspec import Struct, field

from perdure.console.wording import length, sentence
from perdure.core.lives import is_planned
from perdure.core.notes import NO_GATEWAY_THEN, NO_SIGN_OF_LIFE, cause_of, until_found

WIDTH, LEFT, RIGHT = 1000.0, 92.0, 14.0  # units of the drawing; names of lanes stand on the left
ROW, TOP = 30.0, 26.0
THINNEST = 3.0  # what took no time is seen all the same
LETTER = 6.6  # about as wide as a letter
MOST_TICKS, MOST_ROWS = 9, 8
CLOSE_UP = 0.25  # an attempt that is a smaller share of the whole is also drawn on its own
STEPS = [base * unit for unit, bases in (
    (1, (1, 2, 5, 10, 20, 50, 100, 200, 500)),
    (1_000, (1, 2, 5, 10, 15, 30)),
    (60_000, (1, 2, 5, 10, 15, 30)),
    (3_600_000, (1, 2, 6, 12)),
    (86_400_000, (1, 2, 7, 30, 90, 365)),
) for base in bases]  # fmt: skip


class Bar(Struct):
    """Something that took time. `kind` is its colour, `mark` says that it was cut off or goes on."""

    at: int
    until: int
    kind: str
    title: str
    text: str = ""
    mark: str = ""
    x: float = 0.0
    width: float = 0.0

    @property
    def shown(self) -> str:
        """As much of its name as has room in it."""
        return self.text if self.holds(self.text) else self.text[: self._room - 1] + "…" if self._room > 4 else ""

    def holds(self, text: str) -> bool:
        """Whether the whole text has room in it."""
        return len(text) <= self._room

    @property
    def _room(self) -> int:
        return int((self.width - 10) / LETTER)


class Down(Bar):
    """Time without a gateway, as far as is known; `death` says how the last one died, if somebody saw it."""

    death: str = ""


B = TypeVar("B", bound=Bar)


class Lane(Struct):
    name: str
    bars: list[Bar]
    y: float = 0.0


class Tick(Struct, frozen=True):
    x: float
    text: str


class Drawing(Struct):
    name: str
    begin: int
    end: int
    lanes: list[Lane]
    downs: list[Down]  # from the death of a gateway, or its last sign of life, until that was found
    ticks: list[Tick] = field(default_factory=list)

    @property
    def height(self) -> float:
        return TOP + ROW * len(self.lanes) + 8


def drawings(life: dict[str, Any], now: int) -> list[Drawing]:
    """The whole life; and close-ups of attempts that would be too small to see in it."""
    lanes, downs = _lanes(life, now), _downs(life)
    begin, end = _extent([bar for lane in lanes for bar in lane.bars])
    whole = _draw("The whole turn", lanes, downs, begin, end)
    return [whole, *(_close_up(life, one, now) for one in _small(life, now, end - begin))]


def _small(life: dict[str, Any], now: int, total: int) -> list[dict[str, Any]]:
    if len(life["attempts"]) < 2 and not life["interruptions"]:
        return []
    return [one for one in life["attempts"] if (one["until"] or now) - one["at"] < CLOSE_UP * total]


def _close_up(life: dict[str, Any], attempt: dict[str, Any], now: int) -> Drawing:
    begin, end = attempt["at"], max(attempt["until"] or now, attempt["at"] + 1)
    name = f"Attempt {attempt['number']}, at its own scale"
    return _draw(name, _lanes(life, now), _downs(life), begin, end)


def _draw(name: str, lanes: Sequence[Lane], downs: Iterable[Down], begin: int, end: int) -> Drawing:
    end = max(end, begin + 1)
    kept = [Lane(lane.name, _placed(lane.bars, begin, end)) for lane in lanes]
    kept = [lane for lane in kept if lane.bars]
    for row, lane in enumerate(kept):
        lane.y = TOP + ROW * row
    return Drawing(name, begin, end, kept, _placed(downs, begin, end), _ticks(begin, end))


def _placed(bars: Iterable[B], begin: int, end: int) -> list[B]:
    """The bars that are to be seen between two moments, each in its place."""
    found = []
    for bar in bars:
        if bar.until < begin or bar.at > end:
            continue
        left, right = (_x(min(max(at, begin), end), begin, end) for at in (bar.at, bar.until))
        width = max(right - left, THINNEST)
        bar.x, bar.width = round(min(left, WIDTH - RIGHT - width), 1), round(width, 1)
        found.append(bar)
    return found


def _x(at: int, begin: int, end: int) -> float:
    return LEFT + (at - begin) / (end - begin) * (WIDTH - LEFT - RIGHT)


def _ticks(begin: int, end: int) -> list[Tick]:
    step = next((step for step in STEPS if (end - begin) / step <= MOST_TICKS), STEPS[-1])
    places = range(0, end - begin + 1, step)[: MOST_TICKS + 1]
    return [Tick(round(_x(begin + place, begin, end), 1), length(place) if place else "0") for place in places]


def _extent(bars: Sequence[Bar]) -> tuple[int, int]:
    return min((bar.at for bar in bars), default=0), max((bar.until for bar in bars), default=1)


# ── what there is to draw ───────────────────────────────────────────────────────────────────────────────────


def _lanes(life: dict[str, Any], now: int) -> list[Lane]:
    tools = _apart([_span(each, now) for each in life["calls"]])
    return [
        Lane("Messages", [_message(each) for each in life["messages"]]),
        Lane(
            "Attempts", [*(_attempt(each, now) for each in life["attempts"]), *map(_decision, life["decisions"])]
        ),
        Lane("Model", [_span(each, now) for each in life["steps"]]),
        *(Lane("" if row else "Tools", bars) for row, bars in enumerate(tools)),
        Lane("Person", [_span(each, now) for each in life["questions"]]),
        Lane("Replies", [_reply(each, now) for each in life["replies"]]),
    ]


def _message(each: dict[str, Any]) -> Bar:
    begin = min(each["sent_at"] or each["received_at"], each["received_at"])
    end = each["taken_at"] or each["received_at"]
    title = f"Message of {each['by']}: stored, and taken {length(end - each['received_at'])} later"
    return Bar(begin, end, "message", title)


def _attempt(each: dict[str, Any], now: int) -> Bar:
    end = each["until"] or now
    how = "goes on" if each["until"] is None else each["ending"]
    cause = f" by {cause_of(each['reason'])}" if each["reason"] else ""
    title = f"Attempt {each['number']}: {length(end - each['at'])}, {how}{cause}"
    mark = "open" if each["until"] is None else "cut" if each["ending"] == "interrupted" else ""
    return Bar(each["at"], end, "attempt", title, f"attempt {each['number']}", mark)


def _decision(each: dict[str, Any]) -> Bar:
    return Bar(each["at"], each["at"], "decided", f"Decided: {each['choice_in_words']}. {each['rule_in_words']}.")


def _span(each: dict[str, Any], now: int) -> Bar:
    end = each["until"] if each["until"] is not None else now
    outcome = each["outcome"] or "goes on"
    title = f"{each['name']} ({each['id']}): {length(end - each['at'])}, {outcome}"
    mark = {"cut": "cut", "unknown": "cut", None: "open"}.get(each["outcome"], "")
    kind = f"{each['kind']} failed" if each["outcome"] == "error" else each["kind"]
    return Bar(each["at"], end, kind, title, each["name"], mark)


def _reply(each: dict[str, Any], now: int) -> Bar:
    settled = each["state"] not in ("owed", "sending", "unknown")
    end = each["updated_at"] if settled else max(now, each["created_at"])
    title = f"Reply, part {each['part'] + 1}: {length(end - each['created_at'])}, {each['state']}"
    kind = "reply" if each["state"] == "sent" else "reply failed" if settled else "reply"
    return Bar(each["created_at"], end, kind, title, each["state"], "" if settled else "open")


def _downs(life: dict[str, Any]) -> list[Down]:
    """Where nothing is known to have been alive; where somebody saw the gateway die, none was there."""
    return [_down(each) for each in life["interruptions"]]


def _down(each: dict[str, Any]) -> Down:
    death, text = each["death"] or "", NO_GATEWAY_THEN if each["death"] else NO_SIGN_OF_LIFE
    lasted = f"{text} for {length(each['found_at'] - each['at'])}"
    title = until_found(death, each["reason"]) if is_planned(each["reason"]) else f"{death}; {lasted}".lstrip("; ")
    return Down(each["at"], each["found_at"], "down", sentence(title), text, death=death)


def _apart(bars: Sequence[Bar]) -> list[list[Bar]]:
    """Bars that overlap go into rows of their own; beyond a few rows, they share the last one."""
    rows: list[list[Bar]] = []
    for bar in sorted(bars, key=lambda bar: bar.at):
        free = [row for row in rows if row[-1].until <= bar.at]
        if free:
            free[0].append(bar)
        elif len(rows) < MOST_ROWS:
            rows.append([bar])
        else:
            rows[-1].append(bar)
    return rows

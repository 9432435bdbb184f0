"""The drawing of a turn as rows of a table: the same facts, in order, for whoever cannot or will not see it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct, json

from perdure.core import texts


class TimelineRow(Struct, frozen=True):
    """Something that happened, when, and how long it took."""

    at: int
    what: str
    name: str = ""  # ours, to find it in the facts
    attempt: int | None = None
    took: int | None = None  # none: it goes on
    outcome: str = ""
    kind: str = ""  # of outcome, if its own word is another
    detail: str = ""
    code: str = ""
    cut: bool = False


def timeline_rows(timeline: dict[str, Any]) -> list[TimelineRow]:
    """Everything that is drawn, in the order in which it began."""
    return sorted(_unsorted_rows(timeline), key=lambda row: row.at)


def _unsorted_rows(timeline: dict[str, Any]) -> Iterator[TimelineRow]:
    for each in timeline["messages"]:
        taken = each["taken_at"] or each["received_at"]
        yield _make_row(
            each["received_at"], taken, f"message of {each['by']}", each["state"], each["text"], name=each["id"]
        )
    for each in timeline["attempts"]:
        outcome = each["ending"] or "goes on"
        yield _make_row(each["at"], each["until"], f"attempt {each['number']}", outcome, attempt=each["number"])
    for each in [*timeline["steps"], *timeline["calls"], *timeline["questions"]]:
        yield _span_row(each)
    for each in timeline["interruptions"]:
        what, detail = f"cut off by {each['cause']}", texts.recovery.downtime(each["death"], each["reason"])
        yield _make_row(each["at"], each["found_at"], what, "cut", detail, attempt=each["attempt"], cut=True)
    for each in timeline["decisions"]:
        why = f"{each['rule_in_words']}: {each['why']}."
        yield _make_row(each["at"], each["at"], "decision", each["choice_in_words"], why, kind=each["choice"])
    for each in timeline["replies"]:
        yield _delivery_row(each)


def _delivery_row(each: dict[str, Any]) -> TimelineRow:
    known = f"receipt {each['receipt']}" if each["receipt"] else each["problem"]
    detail = f"{each['text']} ({known})" if known else each["text"]
    what = f"reply, part {each['part'] + 1}"
    return _make_row(each["created_at"], each["updated_at"], what, each["state"], detail, name=each["id"])


def _make_row(at: int, until: int | None, what: str, outcome: str, detail: str = "", **more: Any) -> TimelineRow:
    return TimelineRow(
        at, what, took=None if until is None else until - at, outcome=outcome, detail=detail, **more
    )


def _span_row(each: dict[str, Any]) -> TimelineRow:
    what = f"model {each['name']}" if each["kind"] == "model" else each["name"]
    code = json.encode(each["arguments"]).decode() if each["arguments"] else ""
    more = {"name": each["id"], "attempt": each["attempt"], "code": code}
    return _make_row(each["at"], each["until"], what, each["outcome"] or "goes on", each["text"], **more)

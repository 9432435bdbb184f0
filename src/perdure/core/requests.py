"""What a person asked of a turn and no attempt has taken up yet: an answer, an approval, or `/resume`."""

from __future__ import annotations

from msgspec import Struct

from perdure.core.journal import Answered, Asked, Claimed, Decided, TurnView
from perdure.core.messages import Sender
from perdure.core.people import Verb

BY_PERSON = "person"  # the rule of a decision that a person made, with `/resume`


class Request(Struct, frozen=True):
    """Who asked, when, which right that takes, and the question that it answers, if it answers one."""

    by: Sender
    at: int
    verb: Verb
    asked: Asked | None = None


def request_of(view: TurnView) -> Request | None:
    """The person's word that is newer than the turn's last claim, if there is one."""
    for record in reversed(view.records):
        match record.entry:
            case Claimed():
                return None
            case Answered(by=by):
                asked = view.question
                return Request(by, record.at, "approve" if asked and asked.approves else "talk", asked)
            case Decided(rule=rule, evidence={"by": str(person)}) if rule == BY_PERSON:
                return Request(Sender(person), record.at, "command")
    return None


def times_asked(view: TurnView, question: str) -> int:
    """How often a question was put."""
    entries = (record.entry for record in view.records)
    return sum(isinstance(entry, Asked) and entry.question == question for entry in entries)

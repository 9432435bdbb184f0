"""A person's request to a turn that no attempt has taken up yet: an answer, an approval, or `/resume`."""

from __future__ import annotations

from msgspec import Struct

from perdure.core.journal import QuestionAnswered, QuestionAsked, RecoveryDecided, TurnClaimed, TurnView
from perdure.core.messages import Sender
from perdure.core.roles import Right

PERSON_RULE = "person"  # the rule of a decision that a person made, with `/resume`


class PendingRequest(Struct, frozen=True):
    """Who requested it, when, the right that it needs, and the question that it answers, if any."""

    by: Sender
    at: int
    right: Right
    question: QuestionAsked | None = None


def pending_request(view: TurnView) -> PendingRequest | None:
    """The newest request of a person since the turn's last claim; None if there is none."""
    for record in reversed(view.records):
        match record.entry:
            case TurnClaimed():
                return None
            case QuestionAnswered(by=by):
                asked = view.question
                return PendingRequest(by, record.at, "approve" if asked and asked.approves else "talk", asked)
            case RecoveryDecided(rule=rule, evidence={"by": str(person)}) if rule == PERSON_RULE:
                return PendingRequest(Sender(person), record.at, "command")
    return None


def times_asked(view: TurnView, question: str) -> int:
    """How often a question was asked."""
    entries = (record.entry for record in view.records)
    return sum(isinstance(entry, QuestionAsked) and entry.question == question for entry in entries)

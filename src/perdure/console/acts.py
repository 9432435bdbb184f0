"""What can be done about each thing as it stands: buttons that post to the API once somebody has confirmed."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from perdure.console.accounts import Act
from perdure.console.wording import place
from perdure.core.entries import Asked
from perdure.core.notes import ASKED_BEFORE, beginning
from perdure.core.questions import question_name
from perdure.store.moves import Turn
from perdure.store.sessions import Session

DANGEROUS = ("drop", "drop_reply", "stop", "suspend", "deny", "remove")


def act(name: str, path: str, body: dict[str, Any] | None = None, about: str = "", label: str = "") -> Act:
    """One button. Its label is the usual one of what it does, unless another is given."""
    usual, question, means = ASKED_BEFORE[name]
    return Act(label or usual, question, means, path, body or {}, about, name in DANGEROUS)


def of_session(session: Session, begun: Turn | None) -> list[Act]:
    """`begun` is the turn that its chat is at, if there is one."""
    if session.state == "closed":
        back = act("bring_back", f"/api/sessions/{quote(session.id)}/resume", about=place(session.key))
        return [] if begun else [back]
    turn = begun.state if begun is not None and begun.session == session.id else None
    possible = {
        "resume": turn == "interrupted" or session.state == "suspended",
        "drop": turn == "interrupted",
        "stop": turn in ("queued", "running", "waiting"),
        "suspend": session.state == "open",
    }
    verbs = [verb for verb, can in possible.items() if can]
    return _verbs(session.id, session.key, *verbs)


def of_turn(turn: Turn, asked: Asked | None) -> list[Act]:
    """Of one that waits, also to answer what it `asked`."""
    if turn.state == "interrupted":
        return _verbs(turn.session, turn.key, "resume", "drop")
    if turn.state not in ("queued", "running", "waiting"):
        return []
    return [*(_answers(turn, asked) if asked else ()), *_verbs(turn.session, turn.key, "stop")]


def _answers(turn: Turn, asked: Asked) -> list[Act]:
    """The same as in the chat: a verdict, or one of the options."""
    if asked.approves:
        path = f"/api/approvals/{quote(question_name(turn.id, asked.approves), safe='')}"
        verdicts = {"approve": True, "deny": False}
        return [act(name, path, {"approve": approve}, asked.text) for name, approve in verdicts.items()]
    path = f"/api/questions/{quote(question_name(turn.id, asked.question), safe='')}/answer"
    return [act("answer", path, {"answer": each}, f"{asked.text} {each}", label=each) for each in asked.options]


def of_reply(row: dict[str, Any]) -> list[Act]:
    """By what its state allows."""
    names = {"resend": "resend", "drop": "drop_reply"}
    about = beginning(row["text"], 80)
    return [act(names[can], f"/api/outbox/{row['id']}/{can}", about=about) for can in row["can"]]


def of_person(person: dict[str, Any]) -> list[Act]:
    return [act("remove", "/api/people/remove", {"who": person["who"], "chat": person["chat"]}, person["who"])]


def resuming(session: Session) -> list[Act]:
    return _verbs(session.id, session.key, "resume")


def _verbs(session: str, key: str, *verbs: str) -> list[Act]:
    return [act(verb, f"/api/sessions/{quote(session)}/{verb}", about=place(key)) for verb in verbs]

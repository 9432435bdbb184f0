"""The actions on sessions, turns, replies and people: buttons that post to the API after a confirmation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from perdure.core import texts
from perdure.core.entries import QuestionAsked
from perdure.core.logins import Login, Scope
from perdure.core.messages import question_id
from perdure.core.states import SessionState, TurnState
from perdure.operations.gateways import GatewayResource
from perdure.operations.resources import DeliveryResource, PersonResource
from perdure.store.sessions import Session
from perdure.store.transitions import Turn
from perdure.web.pages.rendering import chat_label
from perdure.web.schemas import ActionResource

ACTION_SCOPES = {"approve": Scope.APPROVE, "deny": Scope.APPROVE, "answer": Scope.CHAT}  # others: `operate`
DANGEROUS_ACTIONS = ("drop", "drop_reply", "stop", "suspend", "deny", "remove", "drain")
_STOPPABLE_STATES = (TurnState.QUEUED, TurnState.RUNNING, TurnState.WAITING)


def make_action(
    name: str, path: str, body: dict[str, Any] | None = None, about: str = "", label: str = ""
) -> ActionResource:
    """One button, with the texts of its action; `label` replaces the usual label."""
    usual_label, question, means = texts.console.ACTIONS[name]
    return ActionResource(
        label or usual_label,
        question,
        means,
        path,
        body or {},
        about,
        name in DANGEROUS_ACTIONS,
        ACTION_SCOPES.get(name, Scope.OPERATE),
    )


def allowed_actions(actions: Iterable[ActionResource], login: Login) -> list[ActionResource]:
    """The actions that a login may take: no page shows a button that is refused."""
    return [action for action in actions if action.scope in login.scopes]


def approval_note(actions: Iterable[ActionResource], login: Login) -> str:
    """What stands in the place of the buttons of an approval, if the login may not press them."""
    decides = any(action.scope is Scope.APPROVE for action in actions)
    return texts.logins.WHO_MAY_APPROVE if decides and Scope.APPROVE not in login.scopes else ""


def session_actions(session: Session, open_turn: Turn | None) -> list[ActionResource]:
    """The verbs that a session allows; `open_turn` is the open turn of its chat, if there is one."""
    if session.state is SessionState.CLOSED:
        bring_back = make_action(
            "bring_back", f"/api/sessions/{quote(session.id)}/resume", about=chat_label(session.key)
        )
        return [] if open_turn else [bring_back]
    turn = open_turn.state if open_turn is not None and open_turn.session == session.id else None
    possible = {
        "resume": turn is TurnState.INTERRUPTED or session.state is SessionState.SUSPENDED,
        "drop": turn is TurnState.INTERRUPTED,
        "stop": turn in _STOPPABLE_STATES,
        "suspend": session.state is SessionState.OPEN,
    }
    verbs = [verb for verb, can in possible.items() if can]
    return _session_verb_actions(session.id, session.key, *verbs)


def turn_actions(turn: Turn, question: QuestionAsked | None) -> list[ActionResource]:
    """The verbs that a turn allows, and the answers to the question that it waits for."""
    if turn.state is TurnState.INTERRUPTED:
        return _session_verb_actions(turn.session, turn.key, "resume", "drop")
    if turn.state not in _STOPPABLE_STATES:
        return []
    return [
        *(_answer_actions(turn, question) if question else ()),
        *_session_verb_actions(turn.session, turn.key, "stop"),
    ]


def _answer_actions(turn: Turn, question: QuestionAsked) -> list[ActionResource]:
    """The answers that the chat offers too: approve or deny, or one of the options."""
    if question.approves:
        path = f"/api/approvals/{quote(question_id(turn.id, question.approves), safe='')}"
        verdicts = {"approve": True, "deny": False}
        return [make_action(name, path, {"approve": approve}, question.text) for name, approve in verdicts.items()]
    path = f"/api/questions/{quote(question_id(turn.id, question.question), safe='')}/answer"
    return [
        make_action("answer", path, {"answer": each}, f"{question.text} {each}", label=each)
        for each in question.options
    ]


def delivery_actions(delivery: DeliveryResource) -> list[ActionResource]:
    """The verbs that the state of a reply allows."""
    names = {"resend": "resend", "drop": "drop_reply"}
    about = texts.phrases.first_words(delivery.text, 80)
    return [make_action(names[can], f"/api/outbox/{delivery.id}/{can}", about=about) for can in delivery.can]


def gateway_actions(gateway: GatewayResource) -> list[ActionResource]:
    path, about = f"/api/gateways/{quote(gateway.id)}/drain", f"{gateway.home}, version {gateway.version}"
    return [] if gateway.draining else [make_action("drain", path, about=about)]


def person_actions(person: PersonResource) -> list[ActionResource]:
    return [make_action("remove", "/api/people/remove", {"who": person.who, "chat": person.chat}, person.who)]


def resume_actions(session: Session) -> list[ActionResource]:
    return _session_verb_actions(session.id, session.key, "resume")


def _session_verb_actions(session: str, key: str, *verbs: str) -> list[ActionResource]:
    return [make_action(verb, f"/api/sessions/{quote(session)}/{verb}", about=chat_label(key)) for verb in verbs]

"""Answers to questions and approvals: by a message, a button, a command or HTTP, all of them through `respond`."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from perdure.core import texts
from perdure.core.address import decode_session_key, parent_session_key
from perdure.core.journal import APPROVED, DENIED, TOO_LATE, QuestionAnswered, QuestionAsked
from perdure.core.messages import (
    Attachment,
    Inbound,
    Pick,
    Sender,
    Stored,
    is_id_of_question,
    question_id,
    question_reply_id,
    turn_of_question,
)
from perdure.core.queue import Fate
from perdure.core.states import TurnState
from perdure.store import erasure, inbox, transitions
from perdure.store.authorisation import MayJoin, beginner_of, everybody_may_join
from perdure.store.database import Database, Transaction, Tx
from perdure.store.transitions import Turn

_LAST_RECEIPT = "SELECT receipt FROM outbox WHERE turn = :turn AND reply = :reply ORDER BY part DESC LIMIT 1"


T = TypeVar("T")


class AnswerSource(Struct, frozen=True):
    """Where a verdict was given, or an answer over HTTP."""

    platform: str = ""
    message: str = ""  # the platform's id of the message or press by which it came
    login: str = ""  # over HTTP: the name of the login


IN_THE_CHAT = AnswerSource()  # an answer's message says where


class Response(Struct, frozen=True):
    """What a person says to a question or an approval."""

    by: Sender
    text: str = ""
    approve: bool | None = None  # None: words, which approve nothing
    message: str = ""  # the platform's id of the message
    inbox: str = ""  # the inbox row of the words; recorded if they join the turn instead of being the answer
    attachments: tuple[Attachment, ...] = ()
    given: AnswerSource = IN_THE_CHAT


class AnswerOutcome(StrEnum):
    """What came of a response. The values are words of the HTTP API and of the journal."""

    ANSWERED = "answered"
    APPROVED = APPROVED
    DENIED = DENIED
    LATE = TOO_LATE
    NOTHING = "nothing"  # no such question or approval waits


class Answers:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def answer_by_button(
        self,
        inbound: Inbound,
        pick: Pick,
        raw: str,
        key: str,
        now: int,
        *,
        resolve_key: Transaction[str | None],
        refuse: Transaction[T],
        may_join: MayJoin = everybody_may_join,
    ) -> Stored | T:
        """Answer the question that a button stands under, if `resolve_key` lets the sender in; else `refuse`.

        Whoever may not join the turn that asks is told that the question is not theirs.

        After return: the question is answered, or the press is on record as too late, which begins nothing.
        If we die inside: either, or nothing; a press that is delivered again acts once.
        """

        def transaction(tx: Tx) -> Stored | T:
            there = resolve_key(tx)
            return refuse(tx) if there is None else _answer_by_button(tx, inbound, pick, raw, there, may_join)

        return await self._database.write(transaction, key=key, at=now)


def waiting_question(tx: Tx, turn: Turn | None, name: str = "") -> QuestionAsked | None:
    """Return the question or approval that a turn waits with; with a name, only the one of that name."""
    if turn is None or turn.state is not TurnState.WAITING:
        return None
    asked = transitions.read_view(tx, turn).question
    if asked is None:
        return None
    if name and name != question_id(turn.id, asked.approves or asked.question):
        return None
    return asked


def respond(tx: Tx, turn: Turn, asked: QuestionAsked, response: Response) -> AnswerOutcome:
    """Record a response to the question or approval that a turn waits with, and queue the turn again."""
    if response.approve is None:
        outcome, answered = AnswerOutcome.ANSWERED, _answer_of_words(asked, response)
    else:
        late = 0 < asked.until < tx.time
        decided = AnswerOutcome.APPROVED if response.approve else AnswerOutcome.DENIED
        outcome = AnswerOutcome.LATE if late else decided
        answered = QuestionAnswered(asked.question, outcome.value, response.by)
    given = response.given
    answered = replace(answered, platform=given.platform, source=given.message, login=given.login)
    moved = transitions.transition(tx, turn, [answered], ())
    return outcome if moved is not None else AnswerOutcome.NOTHING


def _answer_of_words(asked: QuestionAsked, response: Response) -> QuestionAnswered:
    """Take words as one of the question's options, or as other words, which close the question."""
    same = (option for option in asked.options if option.lower() == response.text.strip().lower())
    chosen = None if asked.approves else next(same, None)  # a bare "yes" approves nothing
    fits = chosen is not None or not asked.options
    return QuestionAnswered(
        asked.question,
        chosen or response.text,
        response.by,
        response.message,
        chosen=fits,
        attachments=response.attachments,
        inbox="" if fits else response.inbox,
    )


# ── commands and HTTP ───────────────────────────────────────────────────────────────────────────────────────


def answer_question(
    key: str, by: Sender, text: str, *, name: str = "", given: AnswerSource = IN_THE_CHAT
) -> Transaction[bool]:
    """Answer the question of that name, or the one that waits, with one of its options or with other words.

    False: no such question waits.
    """

    def transaction(tx: Tx) -> bool:
        turn = transitions.current_turn(tx, key)
        asked = waiting_question(tx, turn, name)
        if turn is None or asked is None or asked.approves:
            return False
        return respond(tx, turn, asked, Response(by, text, given=given)) is not AnswerOutcome.NOTHING

    return transaction


def decide_approval(
    key: str, by: Sender, given: AnswerSource, *, approve: bool, name: str = "", bound: str | None = None
) -> Transaction[AnswerOutcome]:
    """Approve or deny the call that waits for approval; the journal says who did, and where.

    `name` is the name of an approval; without one, the approval of the bound turn is meant.
    """

    def transaction(tx: Tx) -> AnswerOutcome:
        turn = transitions.current_turn(tx, key)
        asked = waiting_question(tx, turn, name)
        if turn is None or asked is None or not asked.approves:
            return AnswerOutcome.NOTHING
        if not name and bound is not None and turn.id != bound:
            return AnswerOutcome.NOTHING
        return respond(tx, turn, asked, Response(by, approve=approve, given=given))

    return transaction


# ── buttons ─────────────────────────────────────────────────────────────────────────────────────────────────


def _answer_by_button(tx: Tx, inbound: Inbound, pick: Pick, raw: str, key: str, may_join: MayJoin) -> Stored:
    known = inbox.find(tx, inbound.event_key)
    if known is not None:
        return known
    if erasure.is_erased_event(tx, inbound.event_key):
        return Stored("", "", key, fresh=False, fate=Fate.ERASED)
    found = _find_question(tx, pick, key)
    if found is None:
        return _refuse(tx, inbound, raw, key, Fate.TOO_LATE)
    turn, asked = found
    if parent_session_key(turn.key) != key or not may_join(tx, key, beginner_of(tx, turn), inbound.sender):
        return _refuse(tx, inbound, raw, key, Fate.NOT_YOURS)
    return _store_answer(tx, _as_words(inbound, pick, asked), raw, key, turn, asked)


def _refuse(tx: Tx, inbound: Inbound, raw: str, key: str, fate: Fate) -> Stored:
    inbox.reject(tx, inbound.event_key, raw, texts.questions.BUTTON_REFUSALS[fate])
    return Stored("", "", key, fresh=False, fate=fate)


def _store_answer(tx: Tx, words: Inbound, raw: str, key: str, turn: Turn, asked: QuestionAsked) -> Stored:
    message = inbox.insert(tx, words, raw, key, turn.session, "message")
    if message is None:  # another gateway has stored the press meanwhile
        return inbox.find(tx, words.event_key) or Stored("", "", key, fresh=False)
    inbox.assign_to_turn(tx, message, turn.id)
    respond(tx, turn, asked, Response(words.sender, words.text, message=words.message))
    return Stored(message, turn.session, turn.key, fresh=True)


def _as_words(inbound: Inbound, pick: Pick, asked: QuestionAsked) -> Inbound:
    """Return the press as a message whose text is the option on the button."""
    named = pick.question and 0 <= pick.option < len(asked.options)
    return replace(inbound, text=asked.options[pick.option]) if named else inbound


def _find_question(tx: Tx, pick: Pick, key: str) -> tuple[Turn, QuestionAsked] | None:
    """Return the question under which the button stands, with its turn; None: the question waits no more."""
    named = transitions.get(tx, turn_of_question(pick.question)) if pick.question else None
    turn = named if pick.question else transitions.current_turn(tx, key)
    if turn is None or not _same_chat(turn.key, key):
        return None
    asked = waiting_question(tx, turn)
    if asked is None or asked.approves:
        return None
    return (turn, asked) if _is_this_question(tx, turn, asked, pick) else None


def _same_chat(one: str, other: str) -> bool:
    """Say whether two sessions are in one chat: in a group, several people may each have their own."""
    return decode_session_key(one).address == decode_session_key(other).address


def _is_this_question(tx: Tx, turn: Turn, asked: QuestionAsked, pick: Pick) -> bool:
    if pick.question:
        return is_id_of_question(pick.question, turn.id, asked.question)
    return _is_under_question(tx, turn, asked, pick)


def _is_under_question(tx: Tx, turn: Turn, asked: QuestionAsked, pick: Pick) -> bool:
    """Say whether the button's message is that question; if the question's receipt was lost, it may be."""
    row = tx.one(_LAST_RECEIPT, turn=turn.id, reply=question_reply_id(turn.id, asked.question))
    return row is not None and row[0] in (None, pick.under)

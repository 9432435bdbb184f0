"""Buttons under a question: a press answers that very question, in the transaction that stores it, or nothing."""

from __future__ import annotations

from typing import TypeVar

from msgspec.structs import replace

from perdure.core import texts
from perdure.core.address import decode_session_key, parent_session_key
from perdure.core.journal import QuestionAsked, fold
from perdure.core.messages import Inbound, Pick, Stored
from perdure.core.question_ids import is_id_of_question, question_reply_id, turn_of_question
from perdure.core.queue import Fate
from perdure.core.turn import TurnState
from perdure.store import inbox, journal, tombstones, transitions
from perdure.store.claims import answer_to
from perdure.store.database import Database, Transaction, Tx
from perdure.store.transitions import Turn

_LAST_RECEIPT = "SELECT receipt FROM outbox WHERE turn = :turn AND reply = :reply ORDER BY part DESC LIMIT 1"


T = TypeVar("T")


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
    ) -> Stored | T:
        """Answer the question that a button stands under, if the sender may come in, as with `Inbox.enter`.

        After return: the question is answered, or the press is on record as too late, which begins nothing.
        If we die inside: it is so or not; delivered again, it acts once.
        """

        def work(tx: Tx) -> Stored | T:
            there = resolve_key(tx)
            return refuse(tx) if there is None else _answer_by_button(tx, inbound, pick, raw, there)

        return await self._database.write(work, key=key, at=now)


def _answer_by_button(tx: Tx, inbound: Inbound, pick: Pick, raw: str, key: str) -> Stored:
    known = inbox.find(tx, inbound.event_key)
    if known is not None:
        return known
    if tombstones.is_erased_event(tx, inbound.event_key):
        return Stored("", "", key, fresh=False, fate=Fate.ERASED)
    found = _find_question(tx, pick, key)
    if found is None:
        return _refuse(tx, inbound, raw, key, Fate.TOO_LATE)
    turn, asked = found
    if parent_session_key(turn.key) != key:
        return _refuse(tx, inbound, raw, key, Fate.NOT_YOURS)
    return _store_answer(tx, _as_words(inbound, pick, asked), raw, key, turn, asked)


def _refuse(tx: Tx, inbound: Inbound, raw: str, key: str, fate: Fate) -> Stored:
    inbox.reject(tx, inbound.event_key, raw, texts.questions.BUTTON_REFUSALS[fate])
    return Stored("", "", key, fresh=False, fate=fate)


def _store_answer(tx: Tx, said: Inbound, raw: str, key: str, turn: Turn, asked: QuestionAsked) -> Stored:
    message = inbox.insert(tx, said, raw, key, turn.session, "message")
    if message is None:  # another gateway has taken it in meanwhile
        return inbox.find(tx, said.event_key) or Stored("", "", key, fresh=False)
    inbox.assign_to_turn(tx, message, turn.id)
    transitions.transition(tx, turn, [answer_to(asked, said.text, said.sender, said.message)], ())
    return Stored(message, turn.session, turn.key, fresh=True)


def _as_words(inbound: Inbound, pick: Pick, asked: QuestionAsked) -> Inbound:
    """The press as words, which the options of the question are."""
    named = pick.question and 0 <= pick.option < len(asked.options)
    return replace(inbound, text=asked.options[pick.option]) if named else inbound


def _find_question(tx: Tx, pick: Pick, key: str) -> tuple[Turn, QuestionAsked] | None:
    """The turn of this chat that waits with that question, and the question; None: it waits no more."""
    turn = (
        transitions.get(tx, turn_of_question(pick.question))
        if pick.question
        else transitions.current_turn(tx, key)
    )
    if turn is None or turn.state is not TurnState.WAITING or not _same_chat(turn.key, key):
        return None
    asked = fold(journal.read_turn(tx, turn.session, turn.id, turn.first_seq)).question
    if asked is None or asked.approves:
        return None
    return (turn, asked) if _is_this_question(tx, turn, asked, pick) else None


def _same_chat(one: str, other: str) -> bool:
    """Whether two conversations are in one chat: in a group, several people may have their own."""
    return decode_session_key(one).address == decode_session_key(other).address


def _is_this_question(tx: Tx, turn: Turn, asked: QuestionAsked, pick: Pick) -> bool:
    if pick.question:
        return is_id_of_question(pick.question, turn.id, asked.question)
    return _is_under_question(tx, turn, asked, pick)


def _is_under_question(tx: Tx, turn: Turn, asked: QuestionAsked, pick: Pick) -> bool:
    """Whether a message is that question. Of one whose receipt was lost nobody can tell, and it may be."""
    row = tx.one(_LAST_RECEIPT, turn=turn.id, reply=question_reply_id(turn.id, asked.question))
    return row is not None and row[0] in (None, pick.under)

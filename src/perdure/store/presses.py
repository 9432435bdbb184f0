"""Buttons under a question: a press answers that very question, in the transaction that stores it, or nothing."""

from __future__ import annotations

from typing import TypeVar

from msgspec.structs import replace

from perdure.core import notes
from perdure.core.address import home_of, read_session_key
from perdure.core.journal import Asked, fold
from perdure.core.messages import Inbound, Pick, Stored
from perdure.core.questions import asking_reply, names, turn_of
from perdure.core.queueing import Fate
from perdure.core.turn import State
from perdure.store import erased, inbox, journal, moves
from perdure.store.claims import answer_to
from perdure.store.database import Database, Tx, Work
from perdure.store.ids import Ids
from perdure.store.moves import Turn

_UNDER = "SELECT receipt FROM outbox WHERE turn = :turn AND reply = :reply ORDER BY part DESC LIMIT 1"


T = TypeVar("T")


class Presses:
    def __init__(self, database: Database, ids: Ids) -> None:
        self._database = database
        self._ids = ids

    async def answer(
        self,
        inbound: Inbound,
        pick: Pick,
        raw: str,
        key: str,
        now: int,
        *,
        door: Work[str | None],
        refuse: Work[T],
    ) -> Stored | T:
        """Answer the question that a button stands under, if the sender may come in, as with `Inbox.enter`.

        After return: the question is answered, or the press is on record as too late, which begins nothing.
        If we die inside: it is so or not; delivered again, it acts once.
        """

        def work(tx: Tx) -> Stored | T:
            there = door(tx)
            return refuse(tx) if there is None else _press(tx, self._ids, inbound, pick, raw, there, now)

        return await self._database.write(work, key=key)


def _press(tx: Tx, ids: Ids, inbound: Inbound, pick: Pick, raw: str, key: str, now: int) -> Stored:
    known = inbox.find(tx, inbound.event_key)
    if known is not None:
        return known
    if erased.is_event(tx, inbound.event_key):
        return Stored("", "", key, fresh=False, fate=Fate.ERASED)
    found = _waiting(tx, pick, key)
    if found is None:
        return _refuse(tx, ids, inbound, raw, key, Fate.TOO_LATE, now)
    turn, asked = found
    if home_of(turn.key) != key:
        return _refuse(tx, ids, inbound, raw, key, Fate.NOT_YOURS, now)
    return _answer(tx, ids, _said(inbound, pick, asked), raw, key, turn, asked, now)


def _refuse(tx: Tx, ids: Ids, inbound: Inbound, raw: str, key: str, fate: Fate, now: int) -> Stored:
    inbox.reject(tx, ids, inbound.event_key, raw, notes.PRESS_REFUSED[fate], now)
    return Stored("", "", key, fresh=False, fate=fate)


def _answer(tx: Tx, ids: Ids, said: Inbound, raw: str, key: str, turn: Turn, asked: Asked, now: int) -> Stored:
    message = inbox.put(tx, ids, said, raw, key, turn.session, now, "message")
    if message is None:  # another gateway has taken it in meanwhile
        return inbox.find(tx, said.event_key) or Stored("", "", key, fresh=False)
    inbox.take(tx, message, turn.id)
    moves.move(tx, ids, turn, [answer_to(asked, said.text, said.sender, said.message)], (), now)
    return Stored(message, turn.session, turn.key, fresh=True)


def _said(inbound: Inbound, pick: Pick, asked: Asked) -> Inbound:
    """The press as words, which the options of the question are."""
    named = pick.question and 0 <= pick.option < len(asked.options)
    return replace(inbound, text=asked.options[pick.option]) if named else inbound


def _waiting(tx: Tx, pick: Pick, key: str) -> tuple[Turn, Asked] | None:
    """The turn of this chat that waits with that question, and the question; None: it waits no more."""
    turn = moves.get(tx, turn_of(pick.question)) if pick.question else moves.begun(tx, key)
    if turn is None or turn.state is not State.WAITING or not _same_chat(turn.key, key):
        return None
    asked = fold(journal.read_turn(tx, turn.session, turn.id, turn.first_seq)).question
    if asked is None or asked.approves:
        return None
    return (turn, asked) if _is_meant(tx, turn, asked, pick) else None


def _same_chat(one: str, other: str) -> bool:
    """Whether two conversations are in one chat: in a group, several people may have their own."""
    return read_session_key(one).address == read_session_key(other).address


def _is_meant(tx: Tx, turn: Turn, asked: Asked, pick: Pick) -> bool:
    if pick.question:
        return names(pick.question, turn.id, asked.question)
    return _stands_under(tx, turn, asked, pick)


def _stands_under(tx: Tx, turn: Turn, asked: Asked, pick: Pick) -> bool:
    """Whether a message is that question. Of one whose receipt was lost nobody can tell, and it may be."""
    row = tx.one(_UNDER, turn=turn.id, reply=asking_reply(turn.id, asked.question))
    return row is not None and row[0] in (None, pick.under)

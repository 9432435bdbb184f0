"""The rights of a turn: those of the person whose words began it, and whose words may join it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

from perdure.core.journal import Cause, TurnBegan
from perdure.core.messages import Inbound, Sender
from perdure.store.database import Row, Tx
from perdure.store.transitions import Turn

_BEGAN = (
    "SELECT j.body, j.seq, t.key FROM journal j JOIN turns t ON t.id = j.turn "
    "WHERE j.session = :session AND j.seq <= :seq AND j.kind = 'began' ORDER BY j.seq DESC LIMIT 1"
)


class Beginner(Struct, frozen=True):
    """The person whose words began a turn, and the key of the chat in which they said them."""

    person: Sender
    key: str  # another one than the turn's, if its session was moved since


MayJoin = Callable[[Tx, str, Beginner | None, Sender], bool]  # gets the key, who began the turn, and who wrote


def beginner_of(tx: Tx, turn: Turn) -> Beginner | None:
    """Return who began a turn; None: it was imported without any words.

    A turn that somebody only asked to go on has the words, and the right, of the turn before it.
    """
    seq, asked = turn.first_seq, None
    while (row := tx.one(_BEGAN, session=turn.session, seq=seq)) is not None:
        causes = msgspec.json.decode(row[0], type=TurnBegan).causes
        found = beginner_of_causes(causes)
        if found is not None:
            return Beginner(found, row[2])
        asked = asked or next((Beginner(cause.sender, row[2]) for cause in causes), None)
        seq = row[1] - 1
    return asked


def beginner_of_causes(causes: Sequence[Cause]) -> Sender | None:
    """Return the person whose words stand first; without words, whose process is reported. None: neither."""
    written = [cause for cause in causes if not (cause.note or cause.wish)]
    told = [cause for cause in causes if cause.note] if not any(cause.wish for cause in causes) else []
    return next((cause.sender for cause in (*written, *told)), None)


def rows_that_may_join(
    tx: Tx, rows: Sequence[Row], key: str, beginner: Beginner | None, may_join: MayJoin
) -> list[Row]:
    """Return the rows of the inbox, (id, body, …), whose senders may add to a turn that somebody began."""
    return [row for row in rows if may_join(tx, key, beginner, sender_of(row))]


def sender_of(row: Row) -> Sender:
    return msgspec.json.decode(row[1], type=Inbound).sender

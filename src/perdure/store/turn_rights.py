"""The rights of a turn: those of the person whose words began it, and whose words may join it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from perdure.core.journal import Cause, TurnBegan
from perdure.core.messages import Inbound, Sender
from perdure.store.database import Row, Tx
from perdure.store.transitions import Turn

MayJoin = Callable[[Tx, str, Sender | None, Sender], bool]  # gets the key, who began the turn, and who wrote
_BEGAN = (
    "SELECT body, seq FROM journal WHERE session = :session AND seq <= :seq AND kind = 'began' "
    "ORDER BY seq DESC LIMIT 1"
)


def everybody_may_join(_tx: Tx, _key: str, _beginner: Sender | None, _sender: Sender) -> bool:
    """The rule of callers that know no people."""
    return True


def beginner_of(tx: Tx, turn: Turn) -> Sender | None:
    """Return the person whose words began a turn; None: it was imported without any.

    A turn that somebody only asked to go on has the words, and the right, of the turn before it.
    """
    seq, asked = turn.first_seq, None
    while (row := tx.one(_BEGAN, session=turn.session, seq=seq)) is not None:
        causes = msgspec.json.decode(row[0], type=TurnBegan).causes
        found = beginner_of_causes(causes)
        if found is not None:
            return found
        asked = asked or next((cause.sender for cause in causes), None)
        seq = row[1] - 1
    return asked


def beginner_of_causes(causes: Sequence[Cause]) -> Sender | None:
    """Return the person whose words stand first; without words, whose process is reported. None: neither."""
    written = [cause for cause in causes if not (cause.note or cause.wish)]
    told = [cause for cause in causes if cause.note] if not any(cause.wish for cause in causes) else []
    return next((cause.sender for cause in (*written, *told)), None)


def rows_that_may_join(
    tx: Tx, rows: Sequence[Row], key: str, beginner: Sender | None, may_join: MayJoin
) -> list[Row]:
    """Return the rows of the inbox, (id, body, …), whose senders may add to a turn that somebody began."""
    return [row for row in rows if may_join(tx, key, beginner, sender_of(row))]


def sender_of(row: Row) -> Sender:
    return msgspec.json.decode(row[1], type=Inbound).sender

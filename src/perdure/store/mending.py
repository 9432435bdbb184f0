"""Mending: what an operator does about a row of the outbox, as the table `core.delivery.MENDS` allows it.

What has failed stays on record as it is: sent again, it is a row of its own, once, which names the first one.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from perdure.core import notes
from perdure.core.delivery import MENDS, OPEN_DELIVERIES, Delivery, Mend, delivery_key
from perdure.core.messages import Button
from perdure.store import outbox, previews
from perdure.store.database import Tx, Work
from perdure.store.ids import Ids
from perdure.store.outbox import Delivering, Owed


class Mended(Struct, frozen=True):
    """What came of it. `what` is hurried, due, again, before, dropped, refused or unknown."""

    what: str
    row: Delivering | None = None  # as it was
    again: str | None = None  # the row that goes out in its place

    @property
    def done(self) -> bool:
        return self.what in ("hurried", "again", "dropped")


def resend(ids: Ids, name: str, now: int, *, certain: bool) -> Work[Mended]:
    """Send a row again. `certain`: its platform can tell whether it is there, so that no duplicate is feared."""

    def work(tx: Tx) -> Mended:
        row = outbox.get(tx, name, hold=True)
        if row is None or Mend.RESEND not in MENDS[row.state]:
            return Mended("unknown" if row is None else "refused", row)
        if row.state is Delivery.OWED or (row.state is Delivery.UNKNOWN and certain):
            return _hurry(tx, row, now)
        return _again(tx, ids, row, now)

    return work


def drop(ids: Ids, name: str, now: int) -> Work[Mended]:
    """Give up a row that was not sent, or of which nobody knows: its lane is free."""

    def work(tx: Tx) -> Mended:
        row = outbox.get(tx, name, hold=True)
        if row is None or Mend.DROP not in MENDS[row.state]:
            return Mended("unknown" if row is None else "refused", row)
        _withdraw(tx, row, notes.DROPPED_BY_OPERATOR, now)
        if row.edits is not None and row.turn is not None:
            previews.say_ended(tx, ids, row.key, row.turn, row.edits, now)
        return Mended("dropped", row)

    return work


def _hurry(tx: Tx, row: Delivering, now: int) -> Mended:
    """Try it now, and not when its pause is over; what its platform can tell is asked first, as always."""
    sql = "UPDATE outbox SET due_at = :now WHERE id = :id AND due_at > :now"
    return Mended("hurried" if tx.run(sql, now=now, id=row.id) else "due", row)


def _again(tx: Tx, ids: Ids, row: Delivering, now: int) -> Mended:
    """Owe the same words as a row of its own; if an earlier try may have arrived, they say so."""
    name = outbox.again_name(row)
    key = delivery_key(name, 0)
    if known := tx.one("SELECT id FROM outbox WHERE delivery_key = :key", key=key):
        return Mended("before", row, known[0])
    buttons = msgspec.json.decode(row.buttons, type=tuple[Button, ...]) if row.buttons else ()
    text = notes.maybe_duplicate(row.text).strip() if row.attempts else row.text
    owed = Owed(row.address, name, (text,), row.reply_to, buttons, file=row.sends)
    outbox.owe(tx, ids, row.key, row.turn, owed, now)
    made = tx.one("SELECT id FROM outbox WHERE delivery_key = :key", key=key)
    assert made is not None, f"no row {key} right after making it"
    if row.state in OPEN_DELIVERIES:
        _withdraw(tx, row, notes.resent_as(made[0]), now)
    return Mended("again", row, made[0])


def _withdraw(tx: Tx, row: Delivering, problem: str, now: int) -> None:
    tx.run(
        "UPDATE outbox SET state = 'withdrawn', run = NULL, problem = :problem, updated_at = :now WHERE id = :id",
        problem=problem,
        now=now,
        id=row.id,
    )

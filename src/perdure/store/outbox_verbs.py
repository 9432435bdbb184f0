"""Mending: what an operator does about a row of the outbox, as the table `core.delivery.MENDS` allows it.

What has failed stays on record as it is: sent again, it is a row of its own, once, which names the first one.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from perdure.core import texts
from perdure.core.delivery import OPEN_DELIVERY_STATES, OUTBOX_VERBS, DeliveryState, OutboxVerb, delivery_key
from perdure.core.messages import Button
from perdure.store import outbox, previews
from perdure.store.database import Transaction, Tx
from perdure.store.outbox import OutboxDelivery, OutboxReply


class OutboxVerbResult(Struct, frozen=True):
    """What came of it. `what` is hurried, due, again, before, dropped, refused or unknown."""

    outcome: str
    row: OutboxDelivery | None = None  # as it was
    again: str | None = None  # the row that goes out in its place

    @property
    def done(self) -> bool:
        return self.outcome in ("hurried", "again", "dropped")


def resend(name: str, *, can_verify: bool) -> Transaction[OutboxVerbResult]:
    """Send a row again. `certain`: its platform can tell whether it is there, so that no duplicate is feared."""

    def transaction(tx: Tx) -> OutboxVerbResult:
        row = outbox.get(tx, name, for_update=True)
        if row is None or OutboxVerb.RESEND not in OUTBOX_VERBS[row.state]:
            return OutboxVerbResult("unknown" if row is None else "refused", row)
        if row.state is DeliveryState.OWED or (row.state is DeliveryState.UNKNOWN and can_verify):
            return _send_now(tx, row)
        return _enqueue_copy(tx, row)

    return transaction


def drop(name: str) -> Transaction[OutboxVerbResult]:
    """Give up a row that was not sent, or of which nobody knows: its lane is free."""

    def transaction(tx: Tx) -> OutboxVerbResult:
        row = outbox.get(tx, name, for_update=True)
        if row is None or OutboxVerb.DROP not in OUTBOX_VERBS[row.state]:
            return OutboxVerbResult("unknown" if row is None else "refused", row)
        _withdraw(tx, row, texts.delivery.DROPPED_BY_OPERATOR)
        if row.edits is not None and row.turn is not None:
            previews.enqueue_ended_notice(tx, row.key, row.turn, row.edits)
        return OutboxVerbResult("dropped", row)

    return transaction


def _send_now(tx: Tx, row: OutboxDelivery) -> OutboxVerbResult:
    """Try it now, and not when its pause is over; what its platform can tell is asked first, as always."""
    sql = "UPDATE outbox SET due_at = :now WHERE id = :id AND due_at > :now"
    return OutboxVerbResult("hurried" if tx.run(sql, now=tx.time, id=row.id) else "due", row)


def _enqueue_copy(tx: Tx, row: OutboxDelivery) -> OutboxVerbResult:
    """Owe the same words as a row of its own; if an earlier try may have arrived, they say so."""
    name = outbox.resent_reply_name(row)
    key = delivery_key(name, 0)
    if known := tx.one("SELECT id FROM outbox WHERE delivery_key = :key", key=key):
        return OutboxVerbResult("before", row, known[0])
    buttons = msgspec.json.decode(row.buttons, type=tuple[Button, ...]) if row.buttons else ()
    text = texts.delivery.maybe_duplicate(row.text).strip() if row.attempts else row.text
    owed = OutboxReply(row.address, name, (text,), row.reply_to, buttons, file=row.sent_file)
    outbox.enqueue(tx, row.key, row.turn, owed)
    made = tx.one("SELECT id FROM outbox WHERE delivery_key = :key", key=key)
    assert made is not None, f"no row {key} right after making it"
    if row.state in OPEN_DELIVERY_STATES:
        _withdraw(tx, row, texts.delivery.resent_as(made[0]))
    return OutboxVerbResult("again", row, made[0])


def _withdraw(tx: Tx, row: OutboxDelivery, problem: str) -> None:
    tx.run(
        f"UPDATE outbox SET state = '{DeliveryState.WITHDRAWN}', run = NULL, problem = :problem, "
        "updated_at = :now WHERE id = :id",
        problem=problem,
        now=tx.time,
        id=row.id,
    )

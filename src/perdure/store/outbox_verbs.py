"""Outbox verbs: an operator resends or drops a row of the outbox, as `core.delivery.OUTBOX_VERBS` allows.

A failed row stays on record as it is: its resend is one row of its own, whose name contains the first one's id.
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
    """The result of a verb. `outcome` is hurried, due, again, before, dropped, refused or unknown."""

    outcome: str
    row: OutboxDelivery | None = None  # as it was before the verb
    again: str | None = None  # the id of the row that is sent instead

    @property
    def done(self) -> bool:
        return self.outcome in ("hurried", "again", "dropped")


def resend(name: str, *, can_verify: bool) -> Transaction[OutboxVerbResult]:
    """Send a row again. `can_verify`: the platform can tell whether it has arrived, so there is no duplicate."""

    def transaction(tx: Tx) -> OutboxVerbResult:
        row = outbox.get(tx, name, for_update=True)
        if row is None or OutboxVerb.RESEND not in OUTBOX_VERBS[row.state]:
            return OutboxVerbResult("unknown" if row is None else "refused", row)
        if row.state is DeliveryState.OWED or (row.state is DeliveryState.UNKNOWN and can_verify):
            return _send_now(tx, row)
        return _enqueue_copy(tx, row)

    return transaction


def drop(name: str) -> Transaction[OutboxVerbResult]:
    """Give up a row that was not sent, or whose outcome is unknown; its lane becomes free."""

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
    """Make the row due now; the platform is still asked first whether an unknown send has arrived."""
    sql = "UPDATE outbox SET due_at = :now WHERE id = :id AND due_at > :now"
    return OutboxVerbResult("hurried" if tx.run(sql, now=tx.time, id=row.id) else "due", row)


def _enqueue_copy(tx: Tx, row: OutboxDelivery) -> OutboxVerbResult:
    """Enqueue the same text as a row of its own; if an earlier send may have arrived, the text says so."""
    name = outbox.resent_reply_name(row)
    key = delivery_key(name, 0)
    if known := tx.one("SELECT id FROM outbox WHERE delivery_key = :key", key=key):
        return OutboxVerbResult("before", row, known[0])
    buttons = msgspec.json.decode(row.buttons, type=tuple[Button, ...]) if row.buttons else ()
    text = texts.delivery.maybe_duplicate(row.text).strip() if row.attempts else row.text
    copy = OutboxReply(row.address, name, (text,), row.reply_to, buttons, file=row.sent_file)
    outbox.enqueue(tx, row.key, row.turn, copy)
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

"""What operators and the sender do to a delivery: send it again, drop it, split a long notice.

The verbs are those of `core.delivery.OUTBOX_VERBS`. A failed row stays on record as it is: its resend is one row
of its own, whose name contains the first one's id.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from perdure.core import texts
from perdure.core.delivery import OPEN_DELIVERY_STATES, OUTBOX_VERBS, DeliveryState, OutboxVerb, delivery_key
from perdure.core.messages import Button
from perdure.store import outbox, previews
from perdure.store.database import Transaction, Tx
from perdure.store.ids import id_after
from perdure.store.outbox import INSERT_DELIVERY, OutboxDelivery, OutboxReply


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


_SHORTEN_FIRST_PART = (
    "UPDATE outbox SET text = :text, buttons = NULL, due_at = :now, updated_at = :now "
    f"WHERE id = :id AND state = '{DeliveryState.OWED}' AND part = 0 AND edits IS NULL AND file IS NULL "
    "AND text = :whole AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.delivery_key = :second)"
)


def split_notice(row: OutboxDelivery, parts: Sequence[str]) -> Transaction[bool]:
    """Split an owed row that is the whole of its reply into parts. False: the row has changed meanwhile.

    After return: the row is the first part, and the others stand right behind it in its lane.
    If we die inside: the row is still whole, or completely split.
    """

    def transaction(tx: Tx) -> bool:
        second = delivery_key(row.reply, 1)
        if not tx.run(_SHORTEN_FIRST_PART, text=parts[0], now=tx.time, id=row.id, whole=row.text, second=second):
            return False
        for part in range(1, len(parts)):
            _insert_part(tx, row, part, parts[part], last=part == len(parts) - 1)
        return True

    return transaction


def _insert_part(tx: Tx, row: OutboxDelivery, part: int, text: str, *, last: bool) -> None:
    tx.run(
        INSERT_DELIVERY,
        id=id_after(row.id, part),
        delivery_key=delivery_key(row.reply, part),
        lane=row.lane,
        key=row.key,
        turn=row.turn,
        reply=row.reply,
        part=part,
        text=text,
        reply_to=None,
        buttons=row.buttons if last else None,
        edits=None,
        file=None,
        since=row.created_at,
        now=tx.time,
    )

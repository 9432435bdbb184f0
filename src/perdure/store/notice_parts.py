"""Splits a notice into parts once its platform's maximum length is known; replies are split earlier."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.core.delivery import DeliveryState, delivery_key
from perdure.store.database import Transaction, Tx
from perdure.store.ids import id_after
from perdure.store.outbox import INSERT_DELIVERY, OutboxDelivery

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

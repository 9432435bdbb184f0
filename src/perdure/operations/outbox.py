"""The outbox, for whoever runs the gateway: what is owed, what became of it, and what can be done about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perdure.core import texts
from perdure.core.delivery import OUTBOX_VERBS, DeliveryState
from perdure.errors import NotFound
from perdure.store.api import Store
from perdure.store.outbox import OutboxDelivery
from perdure.store.outbox_verbs import OutboxVerbResult

DELIVERY_IDS_HINT = "`GET /api/outbox` lists the replies and their ids."


async def find_delivery(store: Store, name: str) -> OutboxDelivery:
    row = await store.outbox.get(name)
    if row is None:
        raise NotFound(f"no reply is named {name!r}", hint=DELIVERY_IDS_HINT)
    return row


async def list_deliveries(
    store: Store, states: Sequence[DeliveryState] = (), after: str = "", limit: int = 100
) -> dict[str, Any]:
    """Replies in these states, or in any, the newest first; `next` is where to go on."""
    page = await store.outbox.page(states or tuple(DeliveryState), after, limit)
    return {
        "outbox": [delivery_fields(row) for row in page.rows],
        "more": page.after is not None,
        "next": page.after,
    }


def delivery_fields(row: OutboxDelivery) -> dict[str, Any]:
    """A row of the outbox under the names that its JSON has."""
    names = ("id", "key", "lane", "turn", "reply", "part", "state", "attempts")
    times = ("due_at", "created_at", "updated_at", "receipt", "problem")
    shown = {name: getattr(row, name) for name in (*names, *times)}
    file = row.sent_file.name if row.sent_file is not None else None
    shown |= {"text": row.public_text, "file": file}
    return shown | {"can": list(OUTBOX_VERBS[row.state]), "advice": texts.delivery.STATE_ADVICE[row.state]}


def verb_result_fields(result: OutboxVerbResult) -> dict[str, Any]:
    """What came of mending it."""
    row = result.row
    if row is None:
        raise NotFound("that reply is gone", hint=DELIVERY_IDS_HINT)
    return {
        "id": row.id,
        "done": result.done,
        "said": texts.delivery.verb_result(result.outcome, row.state, result.again),
        "again": result.again,
    }

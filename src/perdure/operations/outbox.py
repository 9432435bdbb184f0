"""The outbox, for whoever runs the gateway: what is owed, what became of it, and what can be done about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perdure.core.delivery import MENDS, Delivery
from perdure.core.notes import DELIVERIES, mended
from perdure.errors import NotFound
from perdure.store.api import Store
from perdure.store.mending import Mended
from perdure.store.outbox import Delivering

ROW_NAMES = "`GET /api/outbox` lists the replies and their ids."


async def find_row(store: Store, name: str) -> Delivering:
    row = await store.outbox.get(name)
    if row is None:
        raise NotFound(f"no reply is named {name!r}", hint=ROW_NAMES)
    return row


async def list_rows(
    store: Store, states: Sequence[Delivery] = (), after: str = "", limit: int = 100
) -> dict[str, Any]:
    """Replies in these states, or in any, the newest first; `next` is where to go on."""
    page = await store.outbox.page(states or tuple(Delivery), after, limit)
    return {"outbox": [row_fields(row) for row in page.rows], "more": page.after is not None, "next": page.after}


def row_fields(row: Delivering) -> dict[str, Any]:
    """A row of the outbox under the names that its JSON has."""
    names = ("id", "key", "lane", "turn", "reply", "part", "state", "attempts")
    times = ("due_at", "created_at", "updated_at", "receipt", "problem")
    shown = {name: getattr(row, name) for name in (*names, *times)}
    file = row.sends.name if row.sends is not None else None
    shown |= {"text": row.shown, "file": file}
    return shown | {"can": list(MENDS[row.state]), "advice": DELIVERIES[row.state]}


def mended_fields(done: Mended) -> dict[str, Any]:
    """What came of mending it."""
    row = done.row
    if row is None:
        raise NotFound("that reply is gone", hint=ROW_NAMES)
    return {"id": row.id, "done": done.done, "said": mended(done.what, row.state, done.again), "again": done.again}

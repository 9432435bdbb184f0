"""Replies in the outbox for operators: find them, list them, and report what a verb did."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.core import texts
from perdure.core.delivery import OUTBOX_VERBS, DeliveryState, OutboxVerb
from perdure.errors import NotFound
from perdure.operations.resources import DeliveryResource, OutboxResponse, OutboxVerbResponse
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
) -> OutboxResponse:
    """A page of replies in these states, or in any, the newest first; `next` is the cursor of the next page."""
    page = await store.outbox.page(states or tuple(DeliveryState), after, limit)
    return OutboxResponse([delivery_resource(row) for row in page.rows], page.after is not None, page.after)


def delivery_resource(row: OutboxDelivery) -> DeliveryResource:
    return DeliveryResource(
        id=row.id,
        key=row.key,
        lane=row.lane,
        turn=row.turn,
        reply=row.reply,
        part=row.part,
        state=row.state,
        attempts=row.attempts,
        due_at=row.due_at,
        created_at=row.created_at,
        updated_at=row.updated_at,
        receipt=row.receipt,
        problem=row.problem,
        text=row.public_text,
        file=row.sent_file.name if row.sent_file is not None else None,
        can=list(OUTBOX_VERBS[row.state]),
        advice=texts.delivery.STATE_ADVICE[row.state],
    )


def outbox_verb_response(verb: OutboxVerb, result: OutboxVerbResult) -> OutboxVerbResponse:
    """The result of a verb in words; a reply that is gone meanwhile is not found."""
    row = result.row
    if row is None:
        raise NotFound("that reply is gone", hint=DELIVERY_IDS_HINT)
    said = texts.delivery.verb_result(result.outcome, row.state, result.again)
    return OutboxVerbResponse(row.id, result.done, said, result.again, verb)

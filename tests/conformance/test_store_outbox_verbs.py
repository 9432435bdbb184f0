"""What an operator does about a row of the outbox: once, and only what its state allows.

Drives `store/outbox_verbs`.
"""

from __future__ import annotations

import pytest

from perdure.core import texts
from perdure.core.delivery import OUTBOX_VERBS, DeliveryState, OutboxVerb
from perdure.store import outbox_verbs
from perdure.store.outbox import PAIRING_PREFIX, OutboxDelivery, OutboxReply
from perdure.store.outbox_verbs import OutboxVerbResult
from support.store_gateway import StoreGateway, chat_address, key_of

pytestmark = pytest.mark.anyio


async def owes(gateway: StoreGateway, reply: str = "hello") -> OutboxDelivery:
    await gateway.finishes_turn(await gateway.begins_turn(f"ask {reply}"), reply)
    return (await gateway.outbox_heads())[-1]


async def resends(gateway: StoreGateway, row: OutboxDelivery, *, certain: bool = False) -> OutboxVerbResult:
    work = outbox_verbs.resend(row.id, can_verify=certain)
    return await gateway.store.outbox.execute_verb(row.key, work, at=gateway.now())


async def drops(gateway: StoreGateway, row: OutboxDelivery) -> OutboxVerbResult:
    return await gateway.store.outbox.execute_verb(row.key, outbox_verbs.drop(row.id), at=gateway.now())


async def comes_to(gateway: StoreGateway, state: DeliveryState) -> OutboxDelivery:
    """A reply in that state, reached as the sender reaches it."""
    row, outbox = await owes(gateway), gateway.store.outbox
    if state is DeliveryState.WITHDRAWN:
        await drops(gateway, row)
    elif state is DeliveryState.EXPIRED:
        await outbox.expire(row, gateway.now(), problem="too old")
    elif state is not DeliveryState.OWED:
        await gateway.starts_delivery(row)
    if state is DeliveryState.SENT:
        await outbox.record_sent(row, "receipt", gateway.now())
    elif state is DeliveryState.UNKNOWN:
        await outbox.record_unknown(row, 10**15, gateway.now(), problem="time-out")
    elif state is DeliveryState.REFUSED:
        await outbox.record_refused(row, gateway.now(), problem="blocked")
    found = await outbox.get(row.id)
    assert found is not None and found.state is state
    return found


@pytest.mark.parametrize("state", DeliveryState)
async def test_mends_are_those_of_the_table(gateway: StoreGateway, state: DeliveryState) -> None:
    row = await comes_to(gateway, state)
    dropped = await drops(gateway, row)
    assert (dropped.outcome != "refused") == (OutboxVerb.DROP in OUTBOX_VERBS[state])
    after = await gateway.store.outbox.get(row.id)
    assert after is not None and after.state == ("withdrawn" if dropped.done else state)
    resent = await resends(gateway, after)
    assert (resent.outcome != "refused") == (OutboxVerb.RESEND in OUTBOX_VERBS[after.state])


@pytest.mark.parametrize("state", [DeliveryState.REFUSED, DeliveryState.EXPIRED, DeliveryState.WITHDRAWN])
async def test_row_that_is_resent_goes_out_once_and_its_first_one_stays_as_it_was(
    gateway: StoreGateway, state: DeliveryState
) -> None:
    row = await comes_to(gateway, state)
    first, second = await resends(gateway, row), await resends(gateway, row)
    assert (first.outcome, second.outcome, second.again) == ("again", "before", first.again)
    assert await gateway.delivers() == ["hello"]
    assert await gateway.outbox_heads() == []
    assert await gateway.store.outbox.get(row.id) == row
    assert [one.id for one in await gateway.store.outbox.of_turn(row.turn or "")] == [row.id, first.again]


async def test_b74_unknown_row_says_that_it_may_be_a_duplicate_when_nobody_can_tell(gateway: StoreGateway) -> None:
    row = await comes_to(gateway, DeliveryState.UNKNOWN)
    mended = await resends(gateway, row)
    assert mended.outcome == "again"
    assert await gateway.delivers() == [texts.delivery.maybe_duplicate("hello")]
    first = await gateway.store.outbox.get(row.id)
    assert first is not None and (first.state, first.problem) == (
        "withdrawn",
        texts.delivery.resent_as(mended.again or ""),
    )


async def test_b74_unknown_row_waits_no_longer_when_its_platform_can_tell(gateway: StoreGateway) -> None:
    row = await comes_to(gateway, DeliveryState.UNKNOWN)
    assert (await resends(gateway, row, certain=True)).outcome == "hurried"
    (head,) = await gateway.outbox_heads()
    assert (head.id, head.state, head.due_at < gateway.now()) == (row.id, "unknown", True)
    assert (await resends(gateway, row, certain=True)).outcome == "due"


async def test_b103_code_that_is_resent_is_still_not_shown(gateway: StoreGateway) -> None:
    await gateway.receives("hello")
    await gateway.store.outbox.enqueue(
        key_of(), OutboxReply(chat_address("c1"), f"{PAIRING_PREFIX}1", ("ABCD-EFGH",)), gateway.now()
    )
    (row,) = await gateway.outbox_heads()
    await drops(gateway, row)
    mended = await resends(gateway, row)
    again = await gateway.store.outbox.get(mended.again or "")
    assert again is not None and again.text == "ABCD-EFGH" != again.public_text


async def test_unknown_row_that_is_dropped_frees_its_lane(gateway: StoreGateway) -> None:
    row = await comes_to(gateway, DeliveryState.UNKNOWN)
    await owes(gateway, "next")
    assert (await drops(gateway, row)).done
    assert await gateway.delivers() == ["next"]


async def test_row_that_is_on_its_way_is_left_alone(gateway: StoreGateway) -> None:
    row = await comes_to(gateway, DeliveryState.SENDING)
    assert [(await resends(gateway, row)).outcome, (await drops(gateway, row)).outcome] == ["refused", "refused"]
    assert await gateway.store.outbox.record_sent(row, "receipt", gateway.now())


async def test_nobody_mends_what_is_not_there(gateway: StoreGateway) -> None:
    row = await owes(gateway)
    works = [
        outbox_verbs.resend("out_0", can_verify=True),
        outbox_verbs.drop("out_0"),
    ]
    assert [
        (await gateway.store.outbox.execute_verb(row.key, work, at=gateway.now())).outcome for work in works
    ] == [
        "unknown",
        "unknown",
    ]


# ── pages ───────────────────────────────────────────────────────────────────────────────────────────────────


PAGES = [((DeliveryState.OWED,), "fdb"), ((DeliveryState.EXPIRED,), "eca"), (tuple(DeliveryState), "fedcba")]


@pytest.mark.parametrize(("states", "expected"), PAGES)
async def test_pages_give_every_row_of_these_states_once_newest_first(
    gateway: StoreGateway, states: tuple[DeliveryState, ...], expected: str
) -> None:
    await gateway.finishes_turn(await gateway.begins_turn("ask"), *"abcdef")
    rows = await gateway.store.outbox.of_turn((await gateway.outbox_heads())[0].turn or "")
    for row in rows[::2]:
        await gateway.store.outbox.expire(row, gateway.now(), problem="too old")
    seen, after = "", ""
    while True:
        page = await gateway.store.outbox.page(states, after, 2)
        seen += "".join(row.text for row in page.rows)
        if page.after is None:
            break
        after = page.after
    assert seen == expected

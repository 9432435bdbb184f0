"""What an operator does about a row of the outbox: once, and only what its state allows."""

from __future__ import annotations

import pytest

from perdure.core.delivery import MENDS, Delivery, Mend
from perdure.core.notes import maybe_duplicate, resent_as
from perdure.store import mending
from perdure.store.mending import Mended
from perdure.store.outbox import CODE, Delivering, Owed
from support.stores import Gateway, chat, key_of

pytestmark = pytest.mark.anyio


async def owes(gateway: Gateway, reply: str = "hello") -> Delivering:
    await gateway.finishes(await gateway.begins(f"ask {reply}"), reply)
    return (await gateway.heads())[-1]


async def resends(gateway: Gateway, row: Delivering, *, certain: bool = False) -> Mended:
    work = mending.resend(gateway.store.ids, row.id, gateway.now(), certain=certain)
    return await gateway.store.outbox.mend(row.key, work)


async def drops(gateway: Gateway, row: Delivering) -> Mended:
    return await gateway.store.outbox.mend(row.key, mending.drop(gateway.store.ids, row.id, gateway.now()))


async def comes_to(gateway: Gateway, state: Delivery) -> Delivering:
    """A reply in that state, reached as the sender reaches it."""
    row, outbox = await owes(gateway), gateway.store.outbox
    if state is Delivery.WITHDRAWN:
        await drops(gateway, row)
    elif state is Delivery.EXPIRED:
        await outbox.expire(row, gateway.now(), problem="too old")
    elif state is not Delivery.OWED:
        await gateway.starts(row)
    if state is Delivery.SENT:
        await outbox.sent(row, "receipt", gateway.now())
    elif state is Delivery.UNKNOWN:
        await outbox.unknown(row, 10**15, gateway.now(), problem="time-out")
    elif state is Delivery.REFUSED:
        await outbox.refuse(row, gateway.now(), problem="blocked")
    found = await outbox.get(row.id)
    assert found is not None and found.state is state
    return found


@pytest.mark.parametrize("state", Delivery)
async def test_mends_are_those_of_the_table(gateway: Gateway, state: Delivery) -> None:
    row = await comes_to(gateway, state)
    dropped = await drops(gateway, row)
    assert (dropped.what != "refused") == (Mend.DROP in MENDS[state])
    after = await gateway.store.outbox.get(row.id)
    assert after is not None and after.state == ("withdrawn" if dropped.done else state)
    resent = await resends(gateway, after)
    assert (resent.what != "refused") == (Mend.RESEND in MENDS[after.state])


@pytest.mark.parametrize("state", [Delivery.REFUSED, Delivery.EXPIRED, Delivery.WITHDRAWN])
async def test_row_that_is_resent_goes_out_once_and_its_first_one_stays_as_it_was(
    gateway: Gateway, state: Delivery
) -> None:
    row = await comes_to(gateway, state)
    first, second = await resends(gateway, row), await resends(gateway, row)
    assert (first.what, second.what, second.again) == ("again", "before", first.again)
    assert await gateway.delivers() == ["hello"]
    assert await gateway.heads() == []
    assert await gateway.store.outbox.get(row.id) == row
    assert [one.id for one in await gateway.store.outbox.of_turn(row.turn or "")] == [row.id, first.again]


async def test_b74_unknown_row_says_that_it_may_be_a_duplicate_when_nobody_can_tell(gateway: Gateway) -> None:
    row = await comes_to(gateway, Delivery.UNKNOWN)
    mended = await resends(gateway, row)
    assert mended.what == "again"
    assert await gateway.delivers() == [maybe_duplicate("hello")]
    first = await gateway.store.outbox.get(row.id)
    assert first is not None and (first.state, first.problem) == ("withdrawn", resent_as(mended.again or ""))


async def test_b74_unknown_row_waits_no_longer_when_its_platform_can_tell(gateway: Gateway) -> None:
    row = await comes_to(gateway, Delivery.UNKNOWN)
    assert (await resends(gateway, row, certain=True)).what == "hurried"
    (head,) = await gateway.heads()
    assert (head.id, head.state, head.due_at < gateway.now()) == (row.id, "unknown", True)
    assert (await resends(gateway, row, certain=True)).what == "due"


async def test_b103_code_that_is_resent_is_still_not_shown(gateway: Gateway) -> None:
    await gateway.hears("hello")
    await gateway.store.outbox.owe(key_of(), Owed(chat("c1"), f"{CODE}1", ("ABCD-EFGH",)), gateway.now())
    (row,) = await gateway.heads()
    await drops(gateway, row)
    mended = await resends(gateway, row)
    again = await gateway.store.outbox.get(mended.again or "")
    assert again is not None and again.text == "ABCD-EFGH" != again.shown


async def test_unknown_row_that_is_dropped_frees_its_lane(gateway: Gateway) -> None:
    row = await comes_to(gateway, Delivery.UNKNOWN)
    await owes(gateway, "next")
    assert (await drops(gateway, row)).done
    assert await gateway.delivers() == ["next"]


async def test_row_that_is_on_its_way_is_left_alone(gateway: Gateway) -> None:
    row = await comes_to(gateway, Delivery.SENDING)
    assert [(await resends(gateway, row)).what, (await drops(gateway, row)).what] == ["refused", "refused"]
    assert await gateway.store.outbox.sent(row, "receipt", gateway.now())


async def test_nobody_mends_what_is_not_there(gateway: Gateway) -> None:
    row = await owes(gateway)
    works = [
        mending.resend(gateway.store.ids, "out_0", 1, certain=True),
        mending.drop(gateway.store.ids, "out_0", 1),
    ]
    assert [(await gateway.store.outbox.mend(row.key, work)).what for work in works] == ["unknown", "unknown"]


# ── pages ───────────────────────────────────────────────────────────────────────────────────────────────────


PAGES = [((Delivery.OWED,), "fdb"), ((Delivery.EXPIRED,), "eca"), (tuple(Delivery), "fedcba")]


@pytest.mark.parametrize(("states", "expected"), PAGES)
async def test_pages_give_every_row_of_these_states_once_newest_first(
    gateway: Gateway, states: tuple[Delivery, ...], expected: str
) -> None:
    await gateway.finishes(await gateway.begins("ask"), *"abcdef")
    rows = await gateway.store.outbox.of_turn((await gateway.heads())[0].turn or "")
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

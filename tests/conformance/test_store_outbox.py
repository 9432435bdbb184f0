"""The outbox: one lane per address, in order, each row sent for good once.

Drives `store/outbox`.
"""

from __future__ import annotations

import asyncio
import itertools

import pytest

from perdure.core.delivery import DeliveryState
from perdure.core.messages import Button
from perdure.store.outbox import OutboxDelivery, OutboxReply
from perdure.store.outbox_verbs import split_notice
from support.store_gateway import PLATFORM, DatabaseLocation, StoreGateway, chat_address, key_of

pytestmark = pytest.mark.anyio


async def owes(gateway: StoreGateway, *replies: str, chat_name: str = "c1") -> None:
    """Owe replies of one part each, every one at the end of a turn of its own."""
    for reply in replies:
        await gateway.finishes_turn(
            await gateway.begins_turn(f"ask {reply}", chat_name=chat_name), reply, chat_name=chat_name
        )


async def head(gateway: StoreGateway) -> OutboxDelivery:
    (row,) = await gateway.outbox_heads()
    return row


async def states(gateway: StoreGateway) -> list[tuple[str, str]]:
    return [(text, state) for text, state in await gateway.query("SELECT text, state FROM outbox ORDER BY id")]


# ── lanes ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_b75_lane_gives_its_rows_one_by_one_in_order(gateway: StoreGateway) -> None:
    await gateway.finishes_turn(await gateway.begins_turn("one"), "1a", "1b", "1c")
    await owes(gateway, "2", "3")
    await gateway.reopen()
    sent = []
    for _ in range(5):
        row = await head(gateway)
        assert await gateway.starts_delivery(row)
        assert (await head(gateway)).id == row.id
        assert await gateway.store.outbox.record_sent(row, "r", gateway.now())
        sent.append(row.text)
        await gateway.reopen()
    assert sent == ["1a", "1b", "1c", "2", "3"]
    assert await gateway.outbox_heads() == []


async def test_b75_lanes_of_different_addresses_do_not_wait_for_each_other(gateway: StoreGateway) -> None:
    for name in ("a", "b", "c"):
        await owes(gateway, f"{name}1", f"{name}2", chat_name=name)
    assert [row.text for row in await gateway.outbox_heads()] == ["a1", "b1", "c1"]
    row = (await gateway.outbox_heads())[1]
    await gateway.starts_delivery(row)
    await gateway.store.outbox.record_sent(row, "r", gateway.now())
    assert sorted(row.text for row in await gateway.outbox_heads()) == ["a1", "b2", "c1"]


async def test_b79_threads_are_lanes_of_their_own(gateway: StoreGateway) -> None:
    await gateway.receives("hello")
    for thread in (None, "1", "2"):
        await gateway.store.outbox.enqueue(
            key_of(), OutboxReply(chat_address("c1", thread), f"to {thread}", ("hi",)), gateway.now()
        )
    rows = await gateway.outbox_heads()
    assert [row.address for row in rows] == [chat_address("c1"), chat_address("c1", "1"), chat_address("c1", "2")]


async def test_heads_are_those_of_the_connected_platforms(gateway: StoreGateway) -> None:
    await owes(gateway, "reply")
    heads = gateway.store.outbox.lane_heads
    assert await heads(gateway.run, []) == []
    assert await heads(gateway.run, ["other"]) == []
    assert len(await heads(gateway.run, ["other", PLATFORM])) == 1


async def test_b79_first_part_carries_what_it_replies_to(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("hello")
    owed = OutboxReply(chat_address(), turn.id, ("one", "two"), "m1")
    await gateway.store.outbox.enqueue(turn.key, owed, gateway.now())
    rows = await gateway.store.outbox.open_deliveries()
    assert [(row.part, row.reply_to, row.outbound().reply_to) for row in rows] == [
        (0, "m1", "m1"),
        (1, None, None),
    ]
    assert len({row.delivery_key for row in rows}) == 2
    assert rows[0].outbound().address == chat_address()


async def test_b75_lane_keeps_its_order_when_the_clock_goes_back_between_two_runs(place: DatabaseLocation) -> None:
    gateway = StoreGateway(place)
    for text, now in (("first", 2_000_000), ("second", 1_000_000), ("third", 1_500_000)):
        gateway.clock = itertools.repeat(now).__next__
        await gateway.open()
        await owes(gateway, text)
        await gateway.crash()
    await gateway.open()
    assert await gateway.delivers(3) == ["first", "second", "third"]
    await gateway.crash()


async def test_b75_turns_of_many_chats_ending_at_once_keep_each_lane_in_order(gateway: StoreGateway) -> None:
    await asyncio.gather(*(owes(gateway, *(f"{name}{n}" for n in range(5)), chat_name=name) for name in "abcd"))
    texts: dict[str, list[str]] = {name: [] for name in "abcd"}
    for text in await gateway.delivers(20):
        texts[text[0]].append(text)
    assert texts == {name: [f"{name}{n}" for n in range(5)] for name in "abcd"}


# ── owing ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_owing_the_same_reply_again_changes_nothing(gateway: StoreGateway) -> None:
    await gateway.receives("hello")
    owed = OutboxReply(chat_address(), "notice-1", ("you are told once",))
    await gateway.store.outbox.enqueue(key_of(), owed, gateway.now())
    before = await gateway.all_rows()
    await gateway.store.outbox.enqueue(key_of(), owed, gateway.now())
    assert await gateway.all_rows() == before
    await gateway.delivers()
    await gateway.reopen()
    await gateway.store.outbox.enqueue(key_of(), owed, gateway.now())
    assert await gateway.outbox_heads() == []


async def test_notice_is_sent_when_its_key_never_had_a_message(gateway: StoreGateway) -> None:
    await gateway.store.outbox.enqueue(
        key_of("stranger"), OutboxReply(chat_address("stranger"), "code", ("1234",)), gateway.now()
    )
    assert await gateway.delivers() == ["1234"]
    assert [one.text for one in await gateway.store.inbox.chat_messages(key_of("stranger"), 0)] == ["1234"]


async def test_notice_belongs_to_no_turn(gateway: StoreGateway) -> None:
    await gateway.receives("hello")
    await gateway.store.outbox.enqueue(key_of(), OutboxReply(chat_address(), "notice", ("hi",)), gateway.now())
    assert (await head(gateway)).turn is None


async def test_b75_notice_that_is_cut_into_parts_keeps_its_place_in_the_lane(gateway: StoreGateway) -> None:
    await gateway.receives("hello")
    yes = Button("Yes", "/yes")
    for name, text, buttons in (("n1", "one two three", (yes,)), ("n2", "after", ())):
        await gateway.store.outbox.enqueue(
            key_of(), OutboxReply(chat_address(), name, (text,), "m1", buttons), gateway.now()
        )
    row, parts = await head(gateway), ("one", "two", "three")
    mend = gateway.store.outbox.execute_verb
    assert await mend(row.key, split_notice(row, parts), at=gateway.now())
    assert not await mend(row.key, split_notice(row, parts), at=gateway.now()), "it was cut already"
    await gateway.reopen()
    found = [await _sent(gateway) for _ in range(4)]
    assert [(each.text, each.part, each.reply_to, each.outbound().buttons) for each in found] == [
        ("one", 0, "m1", ()),
        ("two", 1, None, ()),
        ("three", 2, None, (yes,)),
        ("after", 0, "m1", ()),
    ]
    assert len({each.delivery_key for each in found}) == 4


async def _sent(gateway: StoreGateway) -> OutboxDelivery:
    row = await head(gateway)
    assert await gateway.starts_delivery(row)
    assert await gateway.store.outbox.record_sent(row, "r", gateway.now())
    return row


async def test_what_is_being_sent_is_not_cut_into_parts(gateway: StoreGateway) -> None:
    await gateway.receives("hello")
    await gateway.store.outbox.enqueue(key_of(), OutboxReply(chat_address(), "n1", ("one two",)), gateway.now())
    row = await head(gateway)
    assert await gateway.starts_delivery(row)
    assert not await gateway.store.outbox.execute_verb(
        row.key, split_notice(row, ("one", "two")), at=gateway.now()
    )
    assert await states(gateway) == [("one two", "sending")]


async def test_rows_of_a_turn_and_open_rows_are_listed_in_order(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("one")
    await gateway.finishes_turn(turn, "a", "b", "c")
    await gateway.delivers()
    assert [row.text for row in await gateway.store.outbox.of_turn(turn.id)] == ["a", "b", "c"]
    assert [row.text for row in await gateway.store.outbox.open_deliveries()] == ["b", "c"]
    assert [row.text for row in await gateway.store.outbox.open_deliveries(limit=1)] == ["b"]


# ── sending ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_sent_row_has_its_receipt_and_its_place_for_good(gateway: StoreGateway) -> None:
    await owes(gateway, "reply")
    row = await head(gateway)
    assert await gateway.starts_delivery(row)
    assert await gateway.store.outbox.record_sent(row, "receipt", gateway.now())
    before = await gateway.all_rows()
    outbox = gateway.store.outbox
    assert not await outbox.record_sent(row, "another", gateway.now())
    assert not await gateway.starts_delivery(row)
    assert not await outbox.retry_later(row, 9, gateway.now(), problem="no", counts=True)
    assert not await outbox.record_unknown(row, 9, gateway.now(), problem="no")
    assert not await outbox.record_refused(row, gateway.now(), problem="no")
    assert not await outbox.expire(row, gateway.now(), problem="no")
    assert await gateway.all_rows() == before
    await gateway.reopen()
    rows = await gateway.query("SELECT state, receipt, position, problem, run FROM outbox")
    assert rows == [("sent", "receipt", 2, None, None)]


async def test_start_is_given_once(gateway: StoreGateway) -> None:
    await owes(gateway, "reply")
    row = await head(gateway)
    started = await asyncio.gather(*(gateway.starts_delivery(row) for _ in range(5)))
    assert sorted(started) == [False] * 4 + [True]
    assert (await head(gateway)).state is DeliveryState.SENDING


async def test_start_is_refused_when_another_gateway_has_the_session(
    two_gateways: tuple[StoreGateway, StoreGateway],
) -> None:
    one, two = two_gateways
    await owes(one, "reply")
    row = await head(one)
    before = await one.all_rows()
    assert not await two.starts_delivery(row)
    assert await one.all_rows() == before
    assert await one.starts_delivery(row)


async def test_start_is_given_once_when_two_gateways_race_for_a_dead_ones_reply(
    postgres_place: DatabaseLocation,
) -> None:
    dead = await StoreGateway(postgres_place, "dead").open()
    for name in "abcdef":
        await owes(dead, name, chat_name=name)
    await dead.stop()
    gateways = [await StoreGateway(postgres_place, name).open() for name in ("one", "two")]
    for row in await gateways[0].outbox_heads():
        assert sorted(await asyncio.gather(*(gateway.starts_delivery(row) for gateway in gateways))) == [
            False,
            True,
        ]
    for gateway in gateways:
        await gateway.crash()


async def test_b75_back_off_holds_the_lane_and_counts_when_it_was_tried(gateway: StoreGateway) -> None:
    await owes(gateway, "first", "second")
    row = await head(gateway)
    for tries, counts in ((1, True), (1, False), (2, True)):
        tried = await head(gateway)
        assert await gateway.starts_delivery(tried)
        assert await gateway.store.outbox.retry_later(
            tried, 5_000 + tries, gateway.now(), problem="busy", counts=counts
        )
        await gateway.reopen()
        held = await head(gateway)
        assert (held.id, held.state, held.attempts, held.due_at) == (
            row.id,
            DeliveryState.OWED,
            tries,
            5_000 + tries,
        )
        assert held.problem == "busy"


async def test_put_back_does_nothing_when_the_row_is_not_being_sent(gateway: StoreGateway) -> None:
    await owes(gateway, "reply")
    row = await head(gateway)
    before = await gateway.all_rows()
    assert not await gateway.store.outbox.retry_later(row, 9, gateway.now(), problem="no", counts=True)
    assert not await gateway.store.outbox.record_unknown(row, 9, gateway.now(), problem="no")
    assert await gateway.all_rows() == before


async def test_b75_refusal_drops_the_rest_of_that_reply_only_and_frees_the_lane(gateway: StoreGateway) -> None:
    await gateway.finishes_turn(await gateway.begins_turn("one"), "1a", "1b", "1c")
    await owes(gateway, "2")
    await gateway.delivers()
    row = await head(gateway)
    assert await gateway.starts_delivery(row)
    assert await gateway.store.outbox.record_refused(row, gateway.now(), problem="too rude")
    await gateway.reopen()
    assert await states(gateway) == [("1a", "sent"), ("1b", "refused"), ("1c", "refused"), ("2", "owed")]
    assert (await head(gateway)).text == "2"
    problems = await gateway.query("SELECT DISTINCT problem FROM outbox WHERE state = 'refused'")
    assert problems == [("too rude",)]


async def test_b75_expired_row_stays_on_record_and_frees_the_lane(gateway: StoreGateway) -> None:
    await owes(gateway, "old", "new")
    assert await gateway.store.outbox.expire(await head(gateway), gateway.now(), problem="older than a day")
    assert await states(gateway) == [("old", "expired"), ("new", "owed")]
    assert (await head(gateway)).text == "new"


async def test_sending_a_dead_runs_reply_does_not_hide_its_lost_turn(gateway: StoreGateway) -> None:
    """The turn must be found by the recoverer, whether the sender or the recoverer looks first."""
    await owes(gateway, "reply")
    row = await head(gateway)
    lost = await gateway.begins_turn("cut off")
    await gateway.reopen()
    assert await gateway.outbox_heads() == []
    assert not await gateway.starts_delivery(row)
    assert [turn.id for turn in await gateway.lost_turns()] == [lost.id]
    assert await gateway.interrupts_turn(lost) is not None
    assert await gateway.delivers() == ["reply"]


# ── unknown ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_b74_unknown_send_holds_its_lane_until_it_is_resolved(gateway: StoreGateway) -> None:
    await owes(gateway, "first", "second")
    row = await head(gateway)
    await gateway.starts_delivery(row)
    assert await gateway.store.outbox.record_unknown(row, 7_000, gateway.now(), problem="the answer was lost")
    await gateway.reopen()
    held = await head(gateway)
    assert (held.text, held.state, held.attempts, held.due_at) == ("first", DeliveryState.UNKNOWN, 1, 7_000)
    assert await gateway.starts_delivery(held)
    assert await gateway.store.outbox.record_sent(held, "found it", gateway.now())
    assert (await head(gateway)).text == "second"


async def test_b74_send_of_a_dead_run_becomes_unknown(gateway: StoreGateway) -> None:
    await owes(gateway, "first", "second")
    row = await head(gateway)
    assert await gateway.starts_delivery(row)
    assert await gateway.store.outbox.mark_orphans_unknown(gateway.now()) == 0
    await gateway.reopen()
    assert await gateway.store.outbox.mark_orphans_unknown(gateway.now()) == 1
    held = await head(gateway)
    assert (held.id, held.state, held.attempts) == (row.id, DeliveryState.UNKNOWN, 1)
    assert held.problem == "the gateway died while sending"
    assert await gateway.store.outbox.mark_orphans_unknown(gateway.now()) == 0


async def test_b74_receipt_that_comes_late_is_taken_when_the_send_counted_as_unknown(
    gateway: StoreGateway,
) -> None:
    await owes(gateway, "reply")
    row = await head(gateway)
    await gateway.starts_delivery(row)
    await gateway.reopen()
    await gateway.store.outbox.mark_orphans_unknown(gateway.now())
    assert await gateway.store.outbox.record_sent(row, "it was there all the time", gateway.now())
    assert await states(gateway) == [("reply", "sent")]


async def sending_was_taken_over(one: StoreGateway, two: StoreGateway) -> tuple[OutboxDelivery, OutboxDelivery]:
    """One gateway freezes while sending, is declared dead, and the other sends the same row again."""
    await owes(one, "reply")
    row = await head(one)
    assert await one.starts_delivery(row)
    assert await two.declares_dead(one)
    assert await two.store.outbox.mark_orphans_unknown(two.now()) == 1
    again = await head(two)
    assert await two.starts_delivery(again)
    return row, again


async def test_b74_frozen_gateway_cannot_put_back_what_another_is_sending(
    two_gateways: tuple[StoreGateway, StoreGateway],
) -> None:
    one, two = two_gateways
    row, again = await sending_was_taken_over(one, two)
    before = await two.all_rows()
    assert not await one.store.outbox.retry_later(row, 9, one.now(), problem="not connected", counts=False)
    assert not await one.store.outbox.record_unknown(row, 9, one.now(), problem="cut off")
    assert await two.all_rows() == before
    assert await two.store.outbox.record_sent(again, "r", two.now())


async def test_b74_frozen_gateway_starts_no_send_when_its_run_was_declared_dead(
    two_gateways: tuple[StoreGateway, StoreGateway],
) -> None:
    one, two = two_gateways
    await owes(one, "reply")
    row = await head(one)
    assert await two.declares_dead(one)
    assert not await one.starts_delivery(row)
    assert await two.starts_delivery(row)

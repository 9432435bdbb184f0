"""The inbox: what is received is stored once, keeps its order, and is never lost.

Drives `store/inbox`.
"""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import msgspec
import pytest

from perdure.core.messages import Attachment, Inbound, Sender
from support.store_gateway import (
    DatabaseLocation,
    StoreGateway,
    chat_address,
    everybody_may_join,
    key_of,
    message,
    python_child,
)
from support.waiting import wait_for

pytestmark = pytest.mark.anyio

WORDS = ["plain", "Grüße, 世界 👋🏽", "tab\tnew\nline", "'quotes' \"and\" :names %s %(x)s \\", " "]


async def test_receive_stores_the_message_with_its_raw_event(gateway: StoreGateway) -> None:
    stored = await gateway.receives("hello")
    assert stored.fresh
    assert stored.key == key_of()
    await gateway.reopen()
    rows = await gateway.query("SELECT id, event_key, key, session, state, turn, body, raw, problem FROM inbox")
    inbound = message("hello")
    body = msgspec.json.encode(inbound).decode()
    assert rows == [
        (stored.message, inbound.event_key, key_of(), stored.session, "waiting", None, body, "raw hello", None)
    ]


async def test_b71_same_event_twice_acts_once(gateway: StoreGateway) -> None:
    first = await gateway.receives("hello")
    before = await gateway.all_rows()
    second = await gateway.receives("hello")
    assert second == msgspec.structs.replace(first, fresh=False)
    assert await gateway.all_rows() == before


async def test_b71_same_event_acts_once_when_reopened_in_between(gateway: StoreGateway) -> None:
    first = await gateway.receives("hello")
    await gateway.reopen()
    assert await gateway.receives("hello") == msgspec.structs.replace(first, fresh=False)
    assert await gateway.store.inbox.count_waiting(key_of()) == 1


async def test_b71_same_event_starts_no_second_turn_when_the_first_is_done(gateway: StoreGateway) -> None:
    await gateway.finishes_turn(await gateway.begins_turn("hello"), "hi")
    await gateway.reopen()
    assert not (await gateway.receives("hello")).fresh
    assert await gateway.claims() is None
    assert await gateway.store.turns.claimable_keys(gateway.run) == []


async def test_b71_same_event_acts_once_when_it_comes_many_times_at_once(gateway: StoreGateway) -> None:
    stored = await asyncio.gather(*(gateway.receives("hello") for _ in range(10)))
    assert sorted(one.fresh for one in stored) == [False] * 9 + [True]
    assert len({one.message for one in stored}) == 1


async def test_b71_same_event_acts_once_when_two_gateways_receive_it_at_once(
    two_gateways: tuple[StoreGateway, StoreGateway],
) -> None:
    for number in range(10):
        stored = await asyncio.gather(*(gateway.receives(f"m{number}") for gateway in two_gateways))
        assert sorted(one.fresh for one in stored) == [False, True]
        assert stored[0].message == stored[1].message
    assert await two_gateways[0].store.inbox.count_waiting(key_of()) == 10


async def test_b71_event_is_another_one_when_account_chat_or_id_differs(gateway: StoreGateway) -> None:
    receive, sender = gateway.store.inbox.receive, Sender("ada")
    events = [
        (Inbound(chat_address("a"), "1", sender, "hi"), key_of("a")),
        (Inbound(chat_address("a"), "2", sender, "hi"), key_of("a")),
        (Inbound(chat_address("b"), "1", sender, "hi"), key_of("b")),
        (Inbound(chat_address("a"), "1", sender, "hi", account="other"), key_of("a")),
    ]
    assert all(
        [
            (await receive(inbound, "", key, gateway.now(), may_join=everybody_may_join)).fresh
            for inbound, key in events
        ]
    )


async def test_b70_event_that_cannot_be_read_is_kept_once_as_rejected(gateway: StoreGateway) -> None:
    for _ in range(2):
        await gateway.store.inbox.reject("web:default:message:c1:9", "{broken", "it is not JSON", gateway.now())
        await gateway.reopen()
    rows = await gateway.query("SELECT state, key, body, raw, problem, position FROM inbox")
    assert rows == [("rejected", None, None, "{broken", "it is not JSON", None)]
    assert await gateway.store.turns.claimable_keys(gateway.run) == []


async def test_b70_event_that_was_rejected_is_taken_in_when_it_can_be_read_later(gateway: StoreGateway) -> None:
    inbound = message("hello")
    await gateway.store.inbox.reject(inbound.event_key, "raw hello", "an older version could not read it", 1)
    stored = await gateway.receives("hello")
    assert stored.key == key_of()
    claim = await gateway.claims()
    assert claim is not None
    assert [cause.text for cause in (await gateway.view(claim.turn)).causes] == ["hello"]


async def test_b70_event_that_was_taken_in_stays_so_when_it_is_rejected_later(gateway: StoreGateway) -> None:
    await gateway.receives("hello")
    before = await gateway.all_rows()
    await gateway.store.inbox.reject(message("hello").event_key, "raw hello", "cannot be read any more", 1)
    assert await gateway.all_rows() == before


async def test_b70_attachments_are_stored_as_references_in_order(gateway: StoreGateway) -> None:
    files = (Attachment("a.txt", "ref-a", "text/plain", 3), Attachment("b.bin", "ref-b"))
    inbound = Inbound(chat_address(), "1", Sender("ada"), "look at these", attachments=files, sent_at=77)
    for _ in range(2):
        await gateway.store.inbox.receive(inbound, "raw", key_of(), gateway.now(), may_join=everybody_may_join)
    rows = await gateway.query(
        "SELECT ordinal, name, reference, media_type, size, state, path FROM attachments ORDER BY ordinal"
    )
    assert rows == [
        (0, "a.txt", "ref-a", "text/plain", 3, "referenced", None),
        (1, "b.bin", "ref-b", "application/octet-stream", None, "referenced", None),
    ]
    claim = await gateway.claims()
    assert claim is not None
    (cause,) = (await gateway.view(claim.turn)).causes
    assert (cause.attachments, cause.sent_at, cause.sender) == (files, 77, Sender("ada"))


async def test_positions_count_per_key_and_are_shared_by_both_sides_of_the_chat(gateway: StoreGateway) -> None:
    first = await gateway.begins_turn("one")
    await gateway.receives("elsewhere", chat_name="c2")
    await gateway.receives("two")
    await gateway.finishes_turn(first, "answer", "and more")
    await gateway.delivers(2)
    await gateway.reopen()
    await gateway.receives("three")
    seen = await gateway.store.inbox.chat_messages(key_of(), 0)
    assert [(one.position, one.author, one.text) for one in seen] == [
        (1, "user", "one"),
        (2, "user", "two"),
        (3, "agent", "answer"),
        (4, "agent", "and more"),
        (5, "user", "three"),
    ]
    assert [one.turn for one in seen] == [first.id, None, first.id, first.id, None]
    assert [one.text for one in await gateway.store.inbox.chat_messages(key_of("c2"), 0)] == ["elsewhere"]


async def test_seen_begins_behind_a_place_and_ends_at_its_limit(gateway: StoreGateway) -> None:
    for number in range(6):
        await gateway.receives(f"m{number}")
    seen = await gateway.store.inbox.chat_messages(key_of(), 2, limit=3)
    assert [one.text for one in seen] == ["m2", "m3", "m4"]
    assert await gateway.store.inbox.chat_messages(key_of(), 6) == []


async def test_reply_is_seen_only_when_it_was_sent(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("one")
    await gateway.finishes_turn(turn, "answer")
    (row,) = await gateway.outbox_heads()
    inbox = gateway.store.inbox
    assert [one.author for one in await inbox.chat_messages(key_of(), 0)] == ["user"]
    assert await inbox.position_of(key_of(), row.id) is None
    await gateway.delivers()
    assert [one.id for one in await inbox.chat_messages(key_of(), 1)] == [row.id]
    assert await inbox.position_of(key_of(), row.id) == 2


async def test_place_is_known_for_messages_of_the_key_alone(gateway: StoreGateway) -> None:
    stored = await gateway.receives("one")
    assert await gateway.store.inbox.position_of(key_of(), stored.message) == 1
    assert await gateway.store.inbox.position_of(key_of("c2"), stored.message) is None
    assert await gateway.store.inbox.position_of(key_of(), "in_unknown") is None


async def test_texts_of_every_kind_come_back_as_they_went_in(gateway: StoreGateway) -> None:
    for number, words in enumerate([*WORDS, "long " * 50_000]):
        stored = await gateway.receives(words, id=str(number))
        turn = (await gateway.claims() or pytest.fail("nothing to claim")).turn
        assert (await gateway.view(turn)).causes[0].text == words
        assert await gateway.finishes_turn(turn, words) is not None
        assert await gateway.delivers() == [words]
        assert [one.text for one in await gateway.store.inbox.chat_messages(stored.key, 2 * number)] == [
            words,
            words,
        ]


async def test_text_with_a_nul_character_stops_nothing(gateway: StoreGateway) -> None:
    """B14: PostgreSQL has no place for it, so both databases hold what stands for it."""
    words, cleaned = "nul\x00 here", "nul\N{REPLACEMENT CHARACTER} here"
    await gateway.store.inbox.reject("event", words, words, gateway.now())
    await gateway.store.inbox.receive(message(words), words, key_of(), gateway.now(), may_join=everybody_may_join)
    claim = await gateway.claims()
    assert claim is not None
    assert (await gateway.view(claim.turn)).causes[0].text == cleaned
    assert await gateway.finishes_turn(claim.turn, words) is not None
    assert await gateway.delivers() == [cleaned]


CHILD = """
import asyncio, sys
from pathlib import Path
from support.store_gateway import DatabaseLocation, StoreGateway

async def receive() -> None:
    gateway = await StoreGateway(DatabaseLocation(sys.argv[1], Path(sys.argv[2]))).open()
    for number in range(100_000):
        await gateway.receives(f"m{number}")
        print(number, flush=True)

asyncio.run(receive())
"""


def last_number(said: Path) -> int:
    """The newest number that the child has said in full."""
    lines = said.read_text().splitlines(keepends=True)
    return max((int(line) for line in lines if line.endswith("\n")), default=-1)


async def test_b70_crash_right_after_receiving_loses_nothing(place: DatabaseLocation) -> None:
    """A real process is killed while it receives: whatever it has acknowledged is there."""
    said = place.folder / "said"
    with said.open("wb") as out, python_child(CHILD, place.url, str(place.folder), stdout=out) as child:
        wait_for("the child has received fifty messages", lambda: last_number(said) >= 50)
        child.send_signal(signal.SIGKILL)
    acknowledged = last_number(said)
    gateway = await StoreGateway(place).open()
    seen = [one.text for one in await gateway.store.inbox.chat_messages(key_of(), 0, limit=100_000)]
    assert seen == [f"m{number}" for number in range(len(seen))]
    assert len(seen) in (acknowledged + 1, acknowledged + 2)
    await gateway.crash()

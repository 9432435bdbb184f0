"""Pairing codes, on both databases: told seldom, bounded in number, good once and for an hour.

Drives `store/pairings`.
"""

from __future__ import annotations

import pytest

from perdure.core import texts
from perdure.core.address import Address, session_key
from perdure.core.messages import Inbound, Sender
from perdure.store.inbox import MAX_REJECTED_EVENTS
from perdure.store.pairings import (
    CODE_INTERVAL_MS,
    CODE_LIFETIME_MS,
    MAX_OPEN_CODES,
    MAX_RAW_CHARACTERS,
    MAX_WRONG_CODES,
    WRONG_CODES_WINDOW_MS,
    PairingRefusal,
    code_digest,
    new_code,
    reject_unknown_person,
)
from perdure.store.people import Person
from support.store_gateway import StoreGateway

pytestmark = pytest.mark.anyio

CODE = "ABCD-EFGH"
START = 10_000_000


async def writes(
    gateway: StoreGateway,
    person: str = "eve",
    code: str | None = CODE,
    *,
    at: int = START,
    text: str = "hi",
    raw: str = "raw",
    platform: str = "web",
) -> PairingRefusal:
    """A stranger writes to us alone."""
    address = Address(platform, "dm", f"with {person}")
    inbound = Inbound(address, f"{text} {at}", Sender(person, person.title()), text)
    key = session_key("main", address)
    make_code = None if code is None else lambda: code
    work = reject_unknown_person(inbound.event_key, raw, inbound, key, "unknown", make_code=make_code)
    return await gateway.store.chat_commands.execute_verb(key, work, at=at)


async def told(gateway: StoreGateway) -> list[str]:
    return [row.text for row in await gateway.store.outbox.open_deliveries()]


async def test_b100_stranger_is_told_a_code_that_lets_them_in_once(gateway: StoreGateway) -> None:
    assert await writes(gateway) == "told"
    assert await told(gateway) == [texts.people.pairing_code(CODE)]
    await gateway.reopen()
    [request] = await gateway.store.pairings.open_requests(START)
    assert (request.platform, request.person, request.name) == ("web", "eve", "Eve")
    paired = await gateway.store.pairings.pair("abcdefgh", "member", START + 5)
    assert paired.person == Person("web", "eve", "Eve", "member", START + 5)
    assert await gateway.store.people.find("web", "eve") == paired.person
    assert await told(gateway) == [texts.people.pairing_code(CODE), texts.people.PAIRED]
    assert await gateway.store.pairings.open_requests(START) == []
    assert (await gateway.store.pairings.pair(CODE, "owner", START + 6)).outcome == "wrong", "it is spent"


async def test_b100_person_may_be_let_in_to_their_chat_alone(gateway: StoreGateway) -> None:
    await writes(gateway)
    paired = await gateway.store.pairings.pair(CODE, "guest", START, here=True)
    assert paired.person == Person("web", "eve", "Eve", "guest", START, "with eve")
    assert await gateway.store.people.find("web", "eve") is None


async def test_b100_code_is_kept_only_as_a_digest(gateway: StoreGateway) -> None:
    await writes(gateway)
    everything = repr({name: rows for name, rows in (await gateway.all_rows()).items() if name != "outbox"})
    assert code_digest(CODE) in everything
    assert CODE not in everything
    assert CODE.replace("-", "") not in everything


async def test_b100_code_expires_after_an_hour(gateway: StoreGateway) -> None:
    await writes(gateway)
    assert (await gateway.store.pairings.pair(CODE, "member", START + CODE_LIFETIME_MS)).outcome == "expired"
    assert await gateway.store.pairings.open_requests(START + CODE_LIFETIME_MS) == []
    assert await gateway.store.people.page() == []
    assert await gateway.query("SELECT * FROM pair_tries") == [], "nobody has guessed"
    assert (await gateway.store.pairings.pair(CODE, "member", START + CODE_LIFETIME_MS - 1)).outcome == "paired"


async def test_b100_person_is_told_a_code_once_in_a_while_however_often_they_write(gateway: StoreGateway) -> None:
    assert await writes(gateway) == "told"
    for number in range(1, 5):
        assert await writes(gateway, code=new_code(), at=START + number) == "quiet"
    assert await writes(gateway, code="WXYZ-2345", at=START + CODE_INTERVAL_MS) == "told"
    assert await told(gateway) == [texts.people.pairing_code(CODE), texts.people.pairing_code("WXYZ-2345")]
    assert len(await gateway.store.pairings.open_requests(START)) == 1
    assert (await gateway.store.pairings.pair(CODE, "member", START + CODE_INTERVAL_MS)).outcome == "wrong", (
        "one is open"
    )
    assert (await gateway.store.pairings.pair("WXYZ-2345", "member", START + CODE_INTERVAL_MS)).outcome == "paired"


async def test_b89_codes_from_before_the_clock_was_set_back_are_open_for_an_hour_and_no_longer(
    gateway: StoreGateway,
) -> None:
    """Their hour begins again: until it is over they are good, and then strangers are told codes again."""
    before = START - 86_400_000
    for number in range(MAX_OPEN_CODES):
        assert await writes(gateway, f"p{number}", new_code()) == "told"
    assert await writes(gateway, "p1", new_code(), at=before) == "quiet"
    assert await writes(gateway, "p1", new_code(), at=before + CODE_INTERVAL_MS) == "told"
    assert await writes(gateway, "late", at=before + CODE_INTERVAL_MS) == "full"
    assert await writes(gateway, "late", at=before + CODE_LIFETIME_MS) == "told"


async def test_b100_same_event_again_is_told_nothing(gateway: StoreGateway) -> None:
    assert await writes(gateway) == "told"
    before = await gateway.all_rows()
    assert await writes(gateway, code=new_code()) == "again"
    assert await gateway.all_rows() == before


async def test_b100_platform_has_a_limited_number_of_open_codes(gateway: StoreGateway) -> None:
    for number in range(MAX_OPEN_CODES):
        assert await writes(gateway, f"p{number}", new_code()) == "told"
    assert await writes(gateway, "late") == "full"
    assert await writes(gateway, "other", platform="irc") == "told", "each platform by itself"
    assert await writes(gateway, "p3", new_code(), at=START + CODE_INTERVAL_MS) == "told", (
        "who has one may have another"
    )
    assert await writes(gateway, "late", at=START + CODE_LIFETIME_MS) == "told", "the others have expired"
    for hour in range(2, 5):
        await writes(gateway, "again", new_code(), at=START + hour * CODE_LIFETIME_MS)
    [(count,)] = await gateway.query("SELECT count(*) FROM pairings")
    assert count <= 2, "what has expired goes"


async def test_b100_wrong_codes_are_limited_also_after_a_restart(gateway: StoreGateway) -> None:
    await writes(gateway, at=START + WRONG_CODES_WINDOW_MS)
    now = START + WRONG_CODES_WINDOW_MS
    for number in range(MAX_WRONG_CODES):
        assert (await gateway.store.pairings.pair("WRON-GWRO", "member", now + number)).outcome == "wrong"
    await gateway.reopen()
    limited = await gateway.store.pairings.pair(CODE, "member", now + 20)
    assert (limited.outcome, limited.again_at) == ("limited", now + WRONG_CODES_WINDOW_MS), (
        "not even the right one"
    )
    assert await gateway.store.people.page() == []
    assert (await gateway.store.pairings.pair(CODE, "member", limited.again_at)).outcome == "paired"


async def test_b100_strangers_cannot_fill_the_database(gateway: StoreGateway) -> None:
    for number in range(MAX_REJECTED_EVENTS + 30):
        work = writes(gateway, f"p{number}", new_code(), text=f"spam {number}", raw="x" * 10_000)
        assert await work in ("told", "full")
    [(count, longest)] = await gateway.query("SELECT count(*), max(length(raw)) FROM inbox")
    assert (count, longest) == (MAX_REJECTED_EVENTS, MAX_RAW_CHARACTERS)
    newest = await gateway.query("SELECT event_key FROM inbox ORDER BY id DESC LIMIT 1")
    assert f"{MAX_REJECTED_EVENTS + 29}" in newest[0][0]
    assert len(await told(gateway)) == MAX_OPEN_CODES

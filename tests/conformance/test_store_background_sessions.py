"""Work in the background, in the store: sessions of their own, whose words are the chat's.

Drives `store/background_sessions`.
"""

from __future__ import annotations

import asyncio

import pytest

from perdure.core.address import background_number, background_session_key, parent_session_key
from perdure.core.journal import TurnFinished
from perdure.core.states import TurnState
from perdure.store import session_verbs
from perdure.store.background_sessions import begin_background_session
from perdure.store.outbox import OutboxReply
from perdure.store.transitions import Turn
from support.store_gateway import StoreGateway, chat_address, key_of, message

pytestmark = pytest.mark.anyio


async def asks(gateway: StoreGateway, text: str, *, chat_name: str = "c1", most: int = 100) -> int | None:
    said = message(text, chat_name=chat_name)
    work = begin_background_session(key_of(chat_name), said, f"background:{text}", most)
    return await gateway.store.chat_commands.execute_verb(key_of(chat_name), work, at=gateway.now())


async def begins(gateway: StoreGateway, number: int) -> Turn:
    claim = await gateway.store.turns.claim(background_session_key(key_of(), number), gateway.run, gateway.now())
    assert claim is not None
    return claim.turn


async def test_b86_works_of_a_chat_are_numbered_one_by_one(gateway: StoreGateway) -> None:
    await gateway.receives("hello")
    assert [await asks(gateway, f"work {number}") for number in range(1, 12)] == list(range(1, 12))
    await gateway.receives("hello", chat_name="c2")
    assert await asks(gateway, "other", chat_name="c2") == 1


async def test_b86_works_that_are_begun_at_once_have_different_numbers(gateway: StoreGateway) -> None:
    await gateway.receives("hello")
    numbers = await asyncio.gather(*(asks(gateway, f"work {number}") for number in range(10)))
    assert sorted(filter(None, numbers)) == list(range(1, 11))


async def test_b86_no_more_works_go_on_in_a_chat_than_may(gateway: StoreGateway) -> None:
    await gateway.receives("hello")
    numbers = await asyncio.gather(*(asks(gateway, f"work {number}", most=3) for number in range(6)))
    assert sorted(filter(None, numbers)) == [1, 2, 3]
    await gateway.receives("hello", chat_name="c2")
    assert await asks(gateway, "other", chat_name="c2", most=3) == 1
    await gateway.finishes_turn(await begins(gateway, 2), "done")
    assert await asks(gateway, "one more", most=3) == 4


async def test_b86_work_is_claimed_beside_its_chat_and_listed(gateway: StoreGateway) -> None:
    await gateway.begins_turn("hello")
    for text in ("one", "two", "three"):
        await asks(gateway, text)
    turn = await begins(gateway, 2)
    await gateway.finishes_turn(await begins(gateway, 3), "done")
    going = await gateway.store.background_sessions.unfinished(key_of())
    assert [(work.number, work.state, work.turn, work.text) for work in going] == [
        (1, TurnState.QUEUED, None, "one"),
        (2, TurnState.RUNNING, turn.id, "two"),
    ]
    assert await gateway.store.background_sessions.exists(background_session_key(key_of(), 3))
    assert not await gateway.store.background_sessions.exists(background_session_key(key_of(), 4))


async def test_b86_answer_of_a_work_is_seen_in_its_chat(gateway: StoreGateway) -> None:
    await gateway.receives("hello")
    await asks(gateway, "one")
    await gateway.finishes_turn(await begins(gateway, 1), "the answer")
    assert await gateway.delivers() == ["the answer"]
    assert [(seen.author, seen.text) for seen in await gateway.store.inbox.chat_messages(key_of(), 0)] == [
        ("user", "hello"),
        ("agent", "the answer"),
    ]


@pytest.mark.parametrize(
    ("stopped", "left"), [(key_of(), ["of the work"]), (background_session_key(key_of(), 1), ["own"])]
)
async def test_b86_stop_withdraws_what_its_own_turns_have_to_say(
    gateway: StoreGateway, stopped: str, left: list[str]
) -> None:
    own = await gateway.begins_turn("hello")
    await asks(gateway, "one")
    work = await begins(gateway, 1)
    for turn, text in ((own, "own"), (work, "of the work")):
        owed = [OutboxReply(chat_address(), turn.id, (text,))]
        await gateway.store.turns.append(turn, [TurnFinished(text)], gateway.now(), replies=owed)
    done = await gateway.store.chat_commands.execute_verb(
        stopped, session_verbs.stop(stopped, None, everything=True), at=gateway.now()
    )
    assert done.withdrawn == 1
    assert [row.text for row in await gateway.store.outbox.open_deliveries()] == left


def test_key_of_a_work_leads_to_its_chat_and_no_other_key_does() -> None:
    home = key_of("a~1")
    assert (
        parent_session_key(background_session_key(home, 12)),
        background_number(background_session_key(home, 12)),
    ) == (home, 12)
    assert (parent_session_key(home), background_number(home)) == (home, None)
    strange = home.replace("agent:main", "agent:main~x")
    assert (parent_session_key(strange), background_number(strange)) == (strange, None)

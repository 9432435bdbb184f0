"""People: a small table with one promise per verb.

Drives `store/people` and `store/authorisation`.
"""

from __future__ import annotations

import pytest

from perdure.core.messages import Inbound, Sender, Stored
from perdure.core.roles import DEFAULT_TOOLS_BY_ROLE, OPERATOR, AllowLists
from perdure.store.authorisation import Authorisation
from perdure.store.goals import set_goal
from perdure.store.inbox import InboxKind
from perdure.store.people import Person, roles
from perdure.store.processes import ProcessEnd, ProcessRequest
from support.store_gateway import StoreGateway, chat_address, everybody_may_join, key_of

pytestmark = pytest.mark.anyio


async def test_person_is_known_when_admitted_and_unknown_when_removed(gateway: StoreGateway) -> None:
    people, ada = gateway.store.people, Person("web", "ada", "Ada", "owner", 5)
    assert await people.find("web", "ada") is None
    await people.admit(ada)
    await gateway.reopen()
    people = gateway.store.people
    assert await people.find("web", "ada") == ada
    assert await people.find("other", "ada") is None
    assert await people.remove("web", "ada")
    assert not await people.remove("web", "ada")
    assert await people.find("web", "ada") is None


async def test_person_has_the_newest_role_and_name_and_the_first_date(gateway: StoreGateway) -> None:
    await gateway.store.people.admit(Person("web", "ada", "Ada", "guest", 5))
    await gateway.store.people.admit(Person("web", "ada", "Ada L.", "member", 9))
    assert await gateway.store.people.find("web", "ada") == Person("web", "ada", "Ada L.", "member", 5)


async def test_person_has_a_role_per_chat_and_one_everywhere(gateway: StoreGateway) -> None:
    people = gateway.store.people
    here, anywhere = Person("web", "ada", "Ada", "owner", 5, "7"), Person("web", "ada", "Ada", "guest", 6)
    for person in (here, anywhere, Person("web", "ada", "Ada", "member", 7, "8")):
        await people.admit(person)
    found = await gateway.store.database.read(lambda tx: roles(tx, "web", "ada", "7"))
    assert found == {"7": "owner", "": "guest"}
    assert (await people.find("web", "ada", "7"), await people.find("web", "ada")) == (here, anywhere)
    assert await people.remove("web", "ada", "8")
    assert await people.remove("web", "ada"), "wherever they are known"
    assert await people.page() == []


async def test_people_are_listed_in_pages(gateway: StoreGateway) -> None:
    known = [Person("irc", "x", "", "guest", 1), *(Person("web", f"p{n}", "", "member", n) for n in range(5))]
    for person in reversed(known):
        await gateway.store.people.admit(person)
    seen: list[Person] = []
    while page := await gateway.store.people.page(place(seen[-1]) if seen else ("", "", ""), 2):
        seen += page
    assert seen == known


def place(person: Person) -> tuple[str, str, str]:
    return person.platform, person.person, person.chat


# ── what waits of people who may no longer talk ─────────────────────────────────────────────────────────────


def admission(*owners: str) -> Authorisation:
    return Authorisation(
        lambda _: AllowLists(frozenset(owners)), per_person=False, tools=lambda _: DEFAULT_TOOLS_BY_ROLE
    )


async def hears(gateway: StoreGateway, text: str, kind: InboxKind = "message", sender: str = "eve") -> Stored:
    inbound = Inbound(chat_address(), f"{sender}: {text}", Sender(sender), text)
    return await gateway.store.inbox.receive(
        inbound, "raw", key_of(), gateway.now(), kind, may_join=everybody_may_join
    )


async def states(gateway: StoreGateway) -> dict[str, str]:
    rows = await gateway.query("SELECT event_key, state FROM inbox ORDER BY position")
    return {row[0].rpartition("%20")[2]: row[1] for row in rows}


async def test_b101_removal_puts_away_what_waits_in_the_same_transaction(gateway: StoreGateway) -> None:
    await gateway.store.people.admit(Person("web", "eve", "", "member", 1))
    await hears(gateway, "hers")
    await hears(gateway, "/order", "command")
    await hears(gateway, "his", sender="ann")
    goal = Inbound(chat_address(), "goal", Sender("eve"), "tidy up")
    await gateway.store.chat_commands.execute_verb(key_of(), set_goal(key_of(), goal, 5), at=gateway.now())
    sweep = admission("ann").reject_unauthorised()
    assert await gateway.store.database.write(sweep) == 0, "she is known"
    assert await gateway.store.people.remove("web", "eve", None, sweep)
    assert await states(gateway) == {"hers": "rejected", "/order": "rejected", "his": "waiting"}
    assert await gateway.store.database.read(lambda tx: tx.all("SELECT 1 FROM goals WHERE state = 'active'")) == []
    claim = await gateway.claims()
    assert claim is not None
    assert [cause.text for cause in (await gateway.view(claim.turn)).causes] == ["his"]


async def test_b101_news_of_a_removed_persons_process_begins_no_turn(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")  # of ada's
    wish = ProcessRequest(turn.id, "c1", "there", "make tea")
    process = await gateway.store.processes.record(wish, gateway.run, gateway.now())
    await gateway.finishes_turn(turn)
    assert (
        await gateway.store.processes.record_end(
            process, ProcessEnd(exit_code=0), lambda _: "tea", gateway.now(), starter_allowed=True
        )
        == "report"
    )
    await gateway.store.database.write(admission("ann").reject_unauthorised(), at=gateway.now())
    assert await gateway.claims() is None
    assert await gateway.store.outbox.open_deliveries() == [], "nobody else is in a direct chat"
    ended = await gateway.store.processes.get(process.id)
    assert ended is not None
    assert ended.told == "nobody"


async def test_b101_process_that_ends_after_the_removal_is_told_to_nobody_in_a_direct_chat(
    gateway: StoreGateway,
) -> None:
    turn = await gateway.begins_turn("work")
    wish = ProcessRequest(turn.id, "c1", "there", "make tea")
    process = await gateway.store.processes.record(wish, gateway.run, gateway.now())
    await gateway.finishes_turn(turn)
    end = gateway.store.processes.record_end(
        process, ProcessEnd(exit_code=0), lambda _: "tea", gateway.now(), starter_allowed=False
    )
    assert await end == "nobody"
    assert await gateway.claims() is None


@pytest.mark.parametrize("held", [True, False])
async def test_b101_operators_wish_needs_no_role(gateway: StoreGateway, held: bool) -> None:
    person = OPERATOR if held else Sender("eve")
    wish = Inbound(chat_address(), "wish", person, "")
    await gateway.store.inbox.receive(wish, "", key_of(), gateway.now(), "wish", may_join=everybody_may_join)
    await gateway.store.database.write(admission("ann").reject_unauthorised(), at=gateway.now())
    assert list((await states(gateway)).values()) == ["waiting" if held else "rejected"]

"""People: a small table with one promise per verb."""

from __future__ import annotations

import pytest

from perdure.store.people import Person
from support.stores import Gateway

pytestmark = pytest.mark.anyio


async def test_person_is_known_when_admitted_and_unknown_when_removed(gateway: Gateway) -> None:
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


async def test_person_has_the_newest_role_and_name_and_the_first_date(gateway: Gateway) -> None:
    await gateway.store.people.admit(Person("web", "ada", "Ada", "guest", 5))
    await gateway.store.people.admit(Person("web", "ada", "Ada L.", "member", 9))
    assert await gateway.store.people.find("web", "ada") == Person("web", "ada", "Ada L.", "member", 5)

"""People and processes: small tables with one promise per verb."""

from __future__ import annotations

import pytest

from perdure.store.people import Person
from perdure.store.processes import Process
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


async def test_process_is_live_until_its_end_is_recorded_once(gateway: Gateway) -> None:
    turn = await gateway.begins("run it")
    first = Process("p_1", turn.session, turn.id, "a", "/keepers/1", "sleep 1", started_at=3)
    second = Process("p_2", turn.session, turn.id, "b", "/keepers/2", "sleep 2", started_at=4)
    for process in (first, second):
        await gateway.store.processes.record(process)
    await gateway.reopen()
    processes = gateway.store.processes
    assert await processes.live() == [first, second]
    assert await processes.end("p_1", 0, 10)
    assert not await processes.end("p_1", 1, 11)
    assert await processes.end("p_2", None, 12)
    assert not await processes.end("p_unknown", 0, 13)
    assert await processes.live() == []
    rows = await gateway.rows("SELECT id, state, exit_code, ended_at FROM processes ORDER BY id")
    assert rows == [("p_1", "ended", 0, 10), ("p_2", "lost", None, 12)]

"""What is exported of one session, or of one person: theirs, and nobody else's.

Drives `operations/personal_data`.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure.core.address import Address, ChatKind, session_key
from perdure.core.messages import Attachment, Inbound, Sender
from perdure.errors import BadPerson, NotFound
from perdure.operations.personal_data import export_named, export_person
from perdure.operations.transfer import import_sessions
from perdure.store import session_verbs
from perdure.store.background_sessions import begin_background_session
from perdure.store.people import Person
from support.store_gateway import StoreGateway

pytestmark = pytest.mark.anyio

FILE = Attachment("photo.png", "ref-1", "image/png", 3)


async def says(
    gateway: StoreGateway, sender: str, text: str, chat: str, *, kind: ChatKind = "dm", platform: str = "telegram"
) -> str:
    """Somebody writes with a file, and is answered; the key of the conversation."""
    address = Address(platform, kind, chat)
    key = session_key("main", address)
    inbound = Inbound(address, text, Sender(sender, sender.title()), text, attachments=(FILE,))
    await gateway.store.inbox.receive(inbound, f"raw {text}", key, gateway.now())
    claim = await gateway.store.turns.claim(key, gateway.run, gateway.now())
    assert claim is not None
    await gateway.finishes_turn(claim.turn)
    return key


def read(found: tuple[str, int]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(found[0])
    assert len(document["sessions"]) == found[1]
    return document


async def fills(gateway: StoreGateway) -> None:
    await says(gateway, "ann", "mine", "1")
    await says(gateway, "bob", "his", "2")
    await says(gateway, "ann", "to all", "g", kind="group")
    await says(gateway, "bob", "to ann", "g", kind="group")
    await says(gateway, "ann", "elsewhere", "1", platform="web")


async def test_person_gets_their_own_sessions_whole_and_of_groups_their_own_words(gateway: StoreGateway) -> None:
    await fills(gateway)
    await gateway.store.people.admit(Person("telegram", "ann", "Ann", "member", 1))
    document = read(await export_person(gateway.store, "telegram:ann"))
    [session] = document["sessions"]
    assert session["key"] == "agent:main:telegram:dm:1"
    assert session["turns"][0]["journal"][0]["body"]["causes"][0]["text"] == "mine"
    assert session["inbox"][0]["attachments"][0]["name"] == "photo.png"
    [message] = document["messages"]
    assert (message["text"], message["key"]) == ("to all", "agent:main:telegram:group:g")
    assert message["attachments"][0]["media_type"] == "image/png"
    assert document["person"] == "telegram:ann"
    assert [(known["name"], known["role"]) for known in document["known"]] == [("Ann", "member")]
    assert not [word for word in ("his", "to ann", "elsewhere") if f'"{word}"' in json.dumps(document)]


async def test_work_in_the_background_of_a_persons_chat_is_theirs(gateway: StoreGateway) -> None:
    key = await says(gateway, "ann", "mine", "1")
    said = Inbound(Address("telegram", "dm", "1"), "w", Sender("ann"), "beside")
    await gateway.store.chat_commands.execute_verb(
        key, begin_background_session(key, said, "background:1", 9), at=gateway.now()
    )
    assert len(read(await export_person(gateway.store, "telegram:ann"))["sessions"]) == 2
    assert len(read(await export_named(gateway.store, key))["sessions"]) == 2


async def test_one_session_is_exported_by_its_id_and_all_of_a_chat_by_its_key(gateway: StoreGateway) -> None:
    key = await says(gateway, "ann", "one", "1")
    await gateway.store.chat_commands.execute_verb(key, session_verbs.renew(key), at=gateway.now())
    await says(gateway, "ann", "two", "1")
    old, new = await gateway.store.sessions.of_key(key)
    assert [one["id"] for one in read(await export_named(gateway.store, key))["sessions"]] == [old.id, new.id]
    assert [one["id"] for one in read(await export_named(gateway.store, old.id))["sessions"]] == [old.id]


async def test_export_of_a_person_is_readable_and_can_be_imported(gateway: StoreGateway) -> None:
    await fills(gateway)
    text, _ = await export_person(gateway.store, "telegram:ann")
    assert text.startswith('{\n  "perdure": {\n')
    [session] = json.loads(text)["sessions"]
    await gateway.store.erasure.begin(session["id"], gateway.now())
    await gateway.store.erasure.finish(session["id"], gateway.now())
    await gateway.stop()
    await gateway.open()
    await gateway.store.runs.end(gateway.run)
    report = await import_sessions(gateway.store, text)
    assert (report.imported, report.problems) == (1, [])
    assert await gateway.store.sessions.get(session["id"]) is not None


@pytest.mark.parametrize("who", ["telegram:eve", "web:bob"])
async def test_nobody_of_that_name_is_said_so(gateway: StoreGateway, who: str) -> None:
    await fills(gateway)
    with pytest.raises(NotFound, match=who):
        await export_person(gateway.store, who)
    with pytest.raises(NotFound, match="s_none"):
        await export_named(gateway.store, "s_none")


async def test_name_that_is_none_is_refused(gateway: StoreGateway) -> None:
    with pytest.raises(BadPerson, match="ann"):
        await export_person(gateway.store, "ann")

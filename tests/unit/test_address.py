"""Addresses and session keys: one text for one place, and back.

Drives `core/address`.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.core.address import (
    CHAT_KINDS,
    SESSION_KEY_FORM,
    Address,
    SessionKey,
    background_number,
    background_session_key,
    decode_session_key,
    join_parts,
    parent_session_key,
    session_key,
    split_parts,
    split_session_key,
)
from perdure.errors import BadKey

names = st.text(min_size=1, max_size=12)
awkward = st.text(alphabet="a%:3A \n\x00\x7fé", max_size=6)
addresses = st.builds(
    Address, names | awkward.filter(bool), st.sampled_from(CHAT_KINDS), names, st.none() | awkward.filter(bool)
)


@pytest.mark.parametrize(
    ("address", "key"),
    [
        pytest.param(Address("telegram", "dm", "123"), "agent:main:telegram:dm:123", id="a chat"),
        pytest.param(Address("telegram", "group", "-9", "7"), "agent:main:telegram:group:-9:7", id="a topic"),
        pytest.param(Address("irc", "channel", "#a:b"), "agent:main:irc:channel:#a%3Ab", id="a colon in a name"),
        pytest.param(Address("irc", "dm", "50%"), "agent:main:irc:dm:50%25", id="a percent sign"),
        pytest.param(Address("irc", "dm", "%3A"), "agent:main:irc:dm:%253A", id="what looks escaped already"),
        pytest.param(Address("irc", "dm", "a b\n"), "agent:main:irc:dm:a%20b%0A", id="blanks"),
        pytest.param(Address("web", "dm", "Åsa"), "agent:main:web:dm:Åsa", id="letters of other alphabets stay"),
    ],
)
def test_session_key_reads_as_promised_and_back(address: Address, key: str) -> None:
    assert session_key("main", address) == key
    assert split_session_key(key) == ("main", address)


@pytest.mark.parametrize(
    ("address", "person", "key"),
    [
        (Address("telegram", "group", "-9"), "7", "agent:main:telegram:group:-9::7"),
        (Address("telegram", "group", "-9", "3"), "7", "agent:main:telegram:group:-9:3:7"),
        (Address("matrix", "channel", "#a"), "@ann:b", "agent:main:matrix:channel:#a::@ann%3Ab"),
    ],
)
def test_b102_session_key_says_whose_conversation_it_is(address: Address, person: str, key: str) -> None:
    assert session_key("main", address, person) == key
    assert decode_session_key(key) == SessionKey("main", address, person)
    assert split_session_key(key) == ("main", address), "replies go to the same place"
    assert not decode_session_key(key).shared
    work = background_session_key(key, 3)
    assert (decode_session_key(work).person, parent_session_key(work), background_number(work)) == (person, key, 3)


def test_b102_conversation_is_shared_in_a_group_unless_it_is_a_persons() -> None:
    group, alone = Address("web", "group", "1"), Address("web", "dm", "1")
    assert SessionKey("main", group).shared
    assert not SessionKey("main", group, "ann").shared
    assert not SessionKey("main", alone).shared
    keys = {session_key("main", group), session_key("main", group, "ann"), session_key("main", group, "bob")}
    assert len(keys) == 3


def test_session_key_differs_when_the_thread_does() -> None:
    """B79: a new topic is a new session."""
    chat = Address("telegram", "group", "1")
    topics = [chat, Address("telegram", "group", "1", "2"), Address("telegram", "group", "1", "3")]
    assert len({session_key("main", address) for address in topics}) == 3


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(Address("web", "dm", "1"), Address("web", "group", "1"), id="kind"),
        pytest.param(Address("web", "dm", "1"), Address("irc", "dm", "1"), id="platform"),
        pytest.param(Address("web", "dm", "1:2"), Address("web", "dm", "1", "2"), id="a colon is no thread"),
        pytest.param(Address("web", "dm", "1%3A2"), Address("web", "dm", "1:2"), id="an escape is no colon"),
    ],
)
def test_session_key_differs_when_the_address_does(one: Address, other: Address) -> None:
    assert session_key("main", one) != session_key("main", other)


def test_session_key_differs_when_the_agent_does() -> None:
    place = Address("web", "dm", "1")
    assert session_key("main", place) != session_key("night", place)


def test_lane_is_the_address_without_its_agent() -> None:
    place = Address("telegram", "dm", "1", "2")
    assert place.lane == "telegram:dm:1:2"
    assert session_key("main", place).endswith(place.lane)


@settings(database=None)
@given(agent=names, address=addresses, person=st.none() | awkward.filter(bool))
def test_every_session_key_reads_back(agent: str, address: Address, person: str | None) -> None:
    conversation = SessionKey(agent, address, None if address.kind == "dm" else person)
    key = conversation.text
    assert decode_session_key(key) == conversation
    assert split_session_key(key) == (agent, address)
    assert not set(key) & {" ", "\n", "\t", "\x00", "\x7f"}


@settings(database=None)
@given(one=st.lists(awkward, min_size=1, max_size=4), other=st.lists(awkward, min_size=1, max_size=4))
def test_parts_are_told_apart_when_they_are_joined(one: list[str], other: list[str]) -> None:
    assert split_parts(join_parts(*one)) == one
    assert (join_parts(*one) == join_parts(*other)) == (one == other)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("hello", id="a word"),
        pytest.param("agent:main:web:dm", id="no chat"),
        pytest.param("agent:main:web:dm:", id="an empty chat"),
        pytest.param("agent::web:dm:1", id="an empty agent"),
        pytest.param("agent:main:web:dm:1:", id="an empty thread"),
        pytest.param("agent:main:web:dm:1:2:3", id="a person in a direct chat"),
        pytest.param("agent:main:web:group:1:2:3:4", id="a part too many"),
        pytest.param("agent:main:web:group:1:2:", id="an empty person"),
        pytest.param("agent:main:web:group:1::", id="an empty thread and person"),
        pytest.param("session:main:web:dm:1", id="another beginning"),
        pytest.param("agent:main:web:DM:1", id="a kind in capitals"),
        pytest.param("agent:main:web:chat:1", id="a kind nobody knows"),
    ],
)
def test_text_is_refused_with_a_hint_when_it_is_no_session_key(text: str) -> None:
    with pytest.raises(BadKey) as caught:
        split_session_key(text)
    assert repr(text) in caught.value.message
    assert SESSION_KEY_FORM in caught.value.hint


def test_wrong_kind_is_named_when_a_key_is_refused() -> None:
    with pytest.raises(BadKey, match="has the kind 'chat'") as caught:
        split_session_key("agent:main:web:chat:1")
    assert "dm, group, channel" in caught.value.hint


def test_key_of_a_work_leads_back_to_its_chat() -> None:
    home = session_key("main", Address("web", "dm", "a~1", "t"))
    work = background_session_key(home, 12)
    assert work == "agent:main~12:web:dm:a~1:t"
    assert (parent_session_key(work), background_number(work)) == (home, 12)
    assert split_session_key(work)[1] == split_session_key(home)[1], "both are at the same address"


@pytest.mark.parametrize("key", ["agent:main:web:dm:a~1", "agent:main~x:web:dm:1", "agent:main~0:web:dm:1"])
def test_key_of_no_work_is_its_own_home(key: str) -> None:
    assert (parent_session_key(key), background_number(key)) == (key, None)

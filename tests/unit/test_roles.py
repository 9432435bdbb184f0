"""Who has which role, and what each may do.

Drives `core/roles`.
"""

from __future__ import annotations

import pytest

from perdure.core import texts
from perdure.core.roles import (
    ALL_RIGHTS,
    DEFAULT_TOOLS_BY_ROLE,
    RIGHT_MEANINGS,
    RIGHTS_BY_ROLE,
    ROLES,
    AllowLists,
    Right,
    Role,
    ToolRights,
    has_fewer_rights,
    has_right,
)
from perdure.store.pairings import CODE_ALPHABET, code_digest, new_code

RIGHTS: dict[Role, set[Right]] = {
    "guest": {"talk", "look", "end"},
    "member": {"talk", "look", "end", "command", "approve"},
    "owner": {"talk", "look", "end", "command", "approve", "restart"},
}


@pytest.mark.parametrize("verb", ALL_RIGHTS)
@pytest.mark.parametrize("role", ROLES)
def test_role_may_what_the_table_says(role: Role, verb: Right) -> None:
    assert has_right(role, verb, shared=False) == (verb in RIGHTS[role])
    assert has_right(role, verb, shared=True) == (verb in RIGHTS[role] and role != "guest")


@pytest.mark.parametrize("verb", ALL_RIGHTS)
def test_b100_stranger_may_nothing(verb: Right) -> None:
    assert not has_right(None, verb, shared=False)


def test_every_role_and_right_is_explained() -> None:
    assert set(RIGHTS_BY_ROLE) == set(ROLES) == set(texts.people.ROLE_RIGHTS)
    assert set(RIGHT_MEANINGS) == set(ALL_RIGHTS)
    assert RIGHTS_BY_ROLE["guest"] < RIGHTS_BY_ROLE["member"] < RIGHTS_BY_ROLE["owner"]


@pytest.mark.parametrize(
    ("role", "than", "tools", "fewer"),
    [
        pytest.param("guest", "owner", {}, True, id="a guest against an owner"),
        pytest.param("guest", "member", {}, True, id="a guest against a member"),
        pytest.param("guest", "guest", {}, False, id="two guests"),
        pytest.param("member", "owner", {}, False, id="a member has the tools of an owner"),
        pytest.param("owner", "guest", {}, False, id="an owner has more"),
        pytest.param("guest", "member", {"guest": ["*"]}, True, id="a guest with all tools is a guest"),
        pytest.param("member", "owner", {"member": ["shell"]}, True, id="a member with one tool"),
        pytest.param(
            "member", "guest", {"member": ["shell"]}, True, id="a member without a tool that guests have"
        ),
        pytest.param("owner", "member", {"owner": ["clarify"]}, True, id="an owner with one tool"),
        pytest.param(
            "member",
            "owner",
            {"member": ["*_file", "x"], "owner": ["read_file", "x"]},
            False,
            id="covered by a star",
        ),
        pytest.param("member", "owner", {"member": ["f*"], "owner": ["files_*"]}, False, id="one star in another"),
        pytest.param("member", "owner", {"member": ["a?"], "owner": ["a*"]}, True, id="a letter against any"),
        pytest.param(
            "member", "owner", {"member": ["*]x"], "owner": ["[ab]x"]}, True, id="a bracket is no letter"
        ),
        pytest.param("member", "owner", {"member": ["[ab]x"], "owner": ["[ab]x"]}, False, id="the same brackets"),
        pytest.param(None, "guest", {}, True, id="a stranger"),
        pytest.param("guest", None, {}, False, id="nobody has less than somebody who was removed"),
        pytest.param(None, None, {}, False, id="two strangers"),
    ],
)
def test_b105_who_has_fewer_rights(
    role: Role | None, than: Role | None, tools: dict[Role, list[str]], fewer: bool
) -> None:
    assert has_fewer_rights(role, than, DEFAULT_TOOLS_BY_ROLE | tools) is fewer


def test_b105_tools_of_a_role_are_patterns() -> None:
    rights = ToolRights("guest", ("clarify", "files_*"))
    allowed = [name for name in ("clarify", "Clarify", "files_list", "files", "shell") if rights.allows(name)]
    assert allowed == ["clarify", "files_list"]
    assert not ToolRights(None).allows("clarify")


LISTS = AllowLists(frozenset({"ann"}), {"7": frozenset({"bob"}), "8": frozenset({"*"})}, everybody=False)
OPEN = AllowLists(frozenset({"ann"}), {"7": frozenset({"bob"})}, everybody=True)


@pytest.mark.parametrize(
    ("lists", "person", "chat", "here", "anywhere", "role"),
    [
        pytest.param(LISTS, "ann", "1", None, None, "owner", id="an owner by the configuration"),
        pytest.param(LISTS, "ann", "1", "guest", "guest", "owner", id="whom no table demotes"),
        pytest.param(LISTS, "eve", "1", None, None, None, id="a stranger"),
        pytest.param(LISTS, "eve", "1", None, "guest", "guest", id="known everywhere"),
        pytest.param(LISTS, "eve", "1", "member", "guest", "member", id="the chat comes before the platform"),
        pytest.param(LISTS, "eve", "1", "guest", "member", "guest", id="also where that is less"),
        pytest.param(LISTS, "bob", "7", None, None, "member", id="listed for the chat"),
        pytest.param(LISTS, "bob", "1", None, None, None, id="and for no other"),
        pytest.param(LISTS, "bob", "7", "guest", None, "guest", id="by name in the chat, then by its list"),
        pytest.param(LISTS, "bob", "7", None, "guest", "member", id="by its list, then by name elsewhere"),
        pytest.param(LISTS, "eve", "8", None, None, "member", id="anybody in an open chat"),
        pytest.param(LISTS, "eve", "8", None, "guest", "guest", id="by name, then as anybody"),
        pytest.param(OPEN, "eve", "1", None, None, "member", id="anybody on an open platform"),
        pytest.param(OPEN, "eve", "7", None, None, None, id="but not in a chat with a list of its own"),
        pytest.param(OPEN, "eve", "7", None, "member", "member", id="except by name"),
        pytest.param(OPEN, "*", "7", None, None, None, id="nobody is called everybody"),
    ],
)
def test_role_of_a_person_in_a_chat(
    lists: AllowLists, person: str, chat: str, here: Role | None, anywhere: Role | None, role: Role | None
) -> None:
    assert lists.role_of(person, chat, here, anywhere) == role


def test_b100_codes_are_easily_read_and_hard_to_guess() -> None:
    codes = {new_code() for _ in range(1000)}
    assert len(codes) == 1000
    assert not set("01ILOUV") & set(CODE_ALPHABET)
    assert all(len(code) == 9 and code[4] == "-" and set(code) <= {*CODE_ALPHABET, "-"} for code in codes)


@pytest.mark.parametrize("written", ["abcd-efgh", "ABCDEFGH", " AbCd EfGh ", "ABCD–EFGH"])
def test_code_is_the_same_however_it_is_written(written: str) -> None:
    assert code_digest(written) == code_digest("ABCD-EFGH")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("7", "Ann", "owner", False, True), "You are Ann (7), an owner here. You may do everything here,"),
        (("bob", "", "member", True, False), "You are bob, a member here. You may talk to me, use the commands"),
        (("eve", "eve", "guest", False, False), "You are eve, a guest here. You may talk to me, look at what"),
    ],
)
def test_person_is_told_who_they_are(words: tuple[str, str, str, bool, bool], said: str) -> None:
    person, name, role, shared, alone = words
    told = texts.people.who_you_are(person, name, role, shared=shared, alone=alone)
    assert told.startswith(said)
    assert told.endswith("one conversation with me.") == shared
    assert told.endswith("conversation of your own.") == (not shared and not alone)

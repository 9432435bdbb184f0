"""Roles of people: the rights of each role, its tools, and the role of a person in a chat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Literal, get_args

from msgspec import Struct

from perdure.core.messages import Sender

Role = Literal["owner", "member", "guest"]
Right = Literal["talk", "look", "end", "command", "approve", "restart"]
ROLES: tuple[Role, ...] = get_args(Role)
ALL_RIGHTS: tuple[Right, ...] = get_args(Right)

EVERYBODY = "*"
OPERATOR = Sender("operator")  # whoever runs the gateway; on no platform and in no allow list
TOKEN_HOLDER = Sender("owner")  # the sender of messages on the web: whoever has the login token

# The one table of rights; docs/people.md prints it.
RIGHTS_BY_ROLE: dict[Role, frozenset[Right]] = {
    "guest": frozenset(("talk", "look", "end")),
    "member": frozenset(("talk", "look", "end", "command", "approve")),
    "owner": frozenset(ALL_RIGHTS),
}
RIGHT_MEANINGS: dict[Right, str] = {
    "talk": "talk to the agent, and answer what it asks",
    "look": "look at what is going on",
    "end": "end what is running",
    "command": "use all the other commands",
    "approve": "approve or deny calls of tools",
    "restart": "restart the gateway",
}


def has_right(role: Role | None, right: Right, *, shared: bool) -> bool:
    """Whether a role has a right. A guest has none in a shared conversation, only in their own."""
    return role is not None and right in RIGHTS_BY_ROLE[role] and not (shared and role == "guest")


# ── tools ───────────────────────────────────────────────────────────────────────────────────────────────────

ToolsByRole = Mapping[Role, Sequence[str]]  # patterns of tool names; `*` stands for any letters

# The settings change it role by role; docs/people.md prints it.
DEFAULT_TOOLS_BY_ROLE: dict[Role, list[str]] = {"owner": ["*"], "member": ["*"], "guest": ["clarify"]}


class ToolRights(Struct, frozen=True):
    """The tools that a turn may use: those of the person whose words began it, as their role is now."""

    role: Role | None  # None: that person is not known any more
    patterns: tuple[str, ...] = ()
    person: str = ""

    def allows(self, tool: str) -> bool:
        return any(fnmatchcase(tool, pattern) for pattern in self.patterns)


def has_fewer_rights(role: Role | None, than: Role | None, tools: ToolsByRole) -> bool:
    """Whether words of one role must not join a turn that somebody of another role began.

    A guest may less than everybody else; of the others, whoever may not use every tool that the turn may use.
    """
    if role is None or than is None:
        return than is not None
    if role == "guest" and than != "guest":
        return True
    return not all(any(_covers(wide, narrow) for wide in tools[role]) for narrow in tools[than])


def _covers(wide: str, narrow: str) -> bool:
    """Whether every name that fits one pattern certainly fits the other; of brackets nothing is certain."""
    if wide in ("*", narrow):
        return True
    return not set("?[") & set(wide) and "[" not in narrow and fnmatchcase(narrow, wide)


# ── who has which role ──────────────────────────────────────────────────────────────────────────────────────


class AllowLists(Struct, frozen=True):
    """The people whom the configuration of a platform lets in."""

    owners: frozenset[str] = frozenset()
    chats: Mapping[str, frozenset[str]] = {}  # people by chat; `*` stands for everybody
    everybody: bool = False

    def role_of(self, person: str, chat: str, chat_role: Role | None, platform_role: Role | None) -> Role | None:
        """The role of a person in a chat, who has these roles by name, there and on the whole platform.

        Whoever is named comes before whoever is anybody, and a chat comes before its platform. An owner by the
        configuration is one everywhere. None: nobody knows them.
        """
        listed = self.chats.get(chat)
        if person in self.owners:
            return "owner"
        if chat_role is not None:
            return chat_role
        if listed is not None and person in listed:
            return "member"
        if platform_role is not None:
            return platform_role
        anybody = self.everybody if listed is None else EVERYBODY in listed
        return "member" if anybody else None

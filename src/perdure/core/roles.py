"""Roles of people: the rights of each role, and the role of a person in a chat."""

from __future__ import annotations

from collections.abc import Mapping
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


def has_right(role: Role | None, right: Right, *, shared: bool = False) -> bool:
    """Whether a role has a right. A guest has none in a shared conversation, only in their own."""
    return role is not None and right in RIGHTS_BY_ROLE[role] and not (shared and role == "guest")


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

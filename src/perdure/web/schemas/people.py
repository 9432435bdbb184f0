"""Request and response bodies of the verbs that change who is let in."""

from __future__ import annotations

from msgspec import Struct

from perdure.core.roles import Role


class PersonRequest(Struct, forbid_unknown_fields=True):
    pass


class PairPersonRequest(PersonRequest):
    code: str
    role: Role = "member"
    here: bool = False


class AddPersonRequest(PersonRequest):
    who: str
    role: Role = "member"
    chat: str = ""
    name: str = ""


class ChangeRoleRequest(PersonRequest):
    who: str
    role: Role
    chat: str = ""


class RemovePersonRequest(PersonRequest):
    who: str
    chat: str | None = None


class PersonChangeResponse(Struct, frozen=True):
    done: bool
    said: str
    who: str

"""Logins of the HTTP API: who has one, and the scopes that say what it lets a program or a browser do."""

from __future__ import annotations

from enum import StrEnum
from urllib.parse import quote

from msgspec import Struct

from perdure.core.address import Address, split_session_key
from perdure.core.commands import read_background_request, read_command
from perdure.core.messages import Sender
from perdure.core.roles import Role


class Scope(StrEnum):
    """What a login lets its holder do. The words are on the wire, and in the table of logins."""

    READ = "read"
    CHAT = "chat"
    OPERATE = "operate"
    APPROVE = "approve"


class LoginKind(StrEnum):
    TOKEN = "token"  # noqa: S105 reason: the word for the kind
    COOKIE = "cookie"


ALL_SCOPES = frozenset(Scope)
SCOPE_MEANINGS = {
    Scope.READ: "see chats, sessions, replies, people, settings and figures",
    Scope.CHAT: "write, change and take back messages, send files, answer questions",
    Scope.OPERATE: "resume, drop, stop, suspend and erase sessions, look after replies and people, restart",
    Scope.APPROVE: "approve or deny calls of tools",
}
# What a scope lets people do who are no owners: each has chats of their own, and a role that caps the scopes.
OWN_SCOPE_MEANINGS = {
    Scope.READ: "see their own chats, sessions, turns, processes and files",
    Scope.CHAT: "write, change and take back messages, send files, answer questions, in their own chats",
    Scope.APPROVE: "approve or deny calls of tools, in their own chats",
}
SCOPES_BY_ROLE: dict[Role, frozenset[Scope]] = {
    "guest": frozenset((Scope.READ, Scope.CHAT)),
    "member": frozenset((Scope.READ, Scope.CHAT, Scope.APPROVE)),
    "owner": ALL_SCOPES,
}
_COMMAND_SCOPES = {"approve": Scope.APPROVE, "deny": Scope.APPROVE, "restart": Scope.OPERATE}
HOME_LOGIN = "home"  # the name of the login by the home's own token; no other login can have it


class Login(Struct, frozen=True):
    """Who makes a request: the name of the login, the person who holds it, and what it lets them do."""

    id: str  # empty: the home's own token
    name: str
    person: Sender
    scopes: frozenset[Scope]  # no more than the person's role lets a login have
    role: Role  # of the person, on the whole web platform, as of now

    @property
    def is_owner(self) -> bool:
        """Whether the login reaches every chat; any other reaches those of its person."""
        return self.role == "owner"

    def may_reach(self, key: str) -> bool:
        """Whether the session of a key is one that this login may know of."""
        return self.is_owner or is_own_key(key, self.person.id)

    def chat_name(self, given: str) -> str:
        """The chat that a path names: for an owner the very chat, for others the one of that name of their own."""
        prefix = "" if self.is_owner else own_chats(self.person.id)
        return given if given.startswith(prefix) else f"{prefix}{given}"

    def shown_chat(self, chat: str) -> str:
        """The name of a chat as the paths of this login spell it."""
        return chat if self.is_owner else chat.removeprefix(own_chats(self.person.id))


def own_chats(person: str) -> str:
    """The beginning of the names of all chats on the web that belong to one person, and of no other chat."""
    return f"~{quote(person, safe='')}/"


def is_own_chat(address: Address) -> bool:
    """Whether a chat is one of somebody's own on the web."""
    return (
        (address.platform, address.kind) == ("web", "dm") and address.chat.startswith("~") and "/" in address.chat
    )


def is_own_key(key: str, person: str) -> bool:
    """Whether the session of a key is in one of a person's own chats on the web."""
    address = split_session_key(key)[1]
    return is_own_chat(address) and address.chat.startswith(own_chats(person))


def home_token_scopes(*, sandbox_in_force: bool) -> frozenset[Scope]:
    """The scopes of the token in the home directory.

    A command that no sandbox holds can read the token's file; so without a sandbox the token approves nothing.
    """
    return ALL_SCOPES if sandbox_in_force else ALL_SCOPES - {Scope.APPROVE}


def message_scope(text: str) -> Scope:
    """The scope that a message needs: a chat command may do more than talk."""
    command = read_command(text)
    request = read_background_request(command.arguments) if command and command.name == "background" else None
    verb = request.verb if request else command.name if command else ""
    return _COMMAND_SCOPES.get(verb, Scope.CHAT)


def encode_scopes(scopes: frozenset[Scope]) -> str:
    """The scopes in their usual order, as the table of logins and the command line spell them."""
    return ",".join(scope for scope in Scope if scope in scopes)


def decode_scopes(text: str) -> frozenset[Scope]:
    """The scopes of a text; a word that this version does not know gives no right."""
    return frozenset(scope for scope in Scope if scope in text.split(","))

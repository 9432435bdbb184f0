"""Logins of the HTTP API: who has one, and the scopes that say what it lets a program or a browser do."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from perdure.core.commands import read_background_request, read_command
from perdure.core.messages import Sender


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
_COMMAND_SCOPES = {"approve": Scope.APPROVE, "deny": Scope.APPROVE, "restart": Scope.OPERATE}
HOME_LOGIN = "home"  # the name of the login by the home's own token; no other login can have it


class Login(Struct, frozen=True):
    """Who makes a request: the name of the login, the person who holds it, and what it lets them do."""

    id: str  # empty: the home's own token
    name: str
    person: Sender
    scopes: frozenset[Scope]


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

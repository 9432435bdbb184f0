"""Logins for operators: add one with scopes for a person, list them, revoke one."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from msgspec import Struct

from perdure.core import texts
from perdure.core.logins import HOME_LOGIN, SCOPES_BY_ROLE, Login, Scope
from perdure.core.messages import Sender
from perdure.core.roles import Role
from perdure.errors import BadLogin, NotFound
from perdure.settings import Settings
from perdure.store.api import Store
from perdure.store.authorisation import Authorisation
from perdure.store.logins import StoredLogin, new_token, token_digest

_NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class LoginResource(Struct, frozen=True):
    """A login without its secret, which nobody can show any more."""

    name: str
    person: str
    person_name: str
    scopes: list[Scope]
    created_at: int
    expires_at: int | None
    last_used_at: int | None
    expired: bool


class NewLoginResource(Struct, frozen=True):
    """A login that was just made, with the token that is shown this once."""

    name: str
    person: str
    scopes: list[Scope]
    expires_at: int | None
    token: str


def parse_scopes(text: str) -> frozenset[Scope]:
    """The scopes that an operator has written, with commas between them."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    unknown = [word for word in words if word not in tuple(Scope)]
    if unknown or not words:
        raise BadLogin(
            texts.logins.unknown_scope(unknown[0] if unknown else text), hint=texts.logins.known_scopes(Scope)
        )
    return frozenset(Scope(word) for word in words)


async def add_login(
    store: Store, settings: Settings, name: str, person: str, scopes: frozenset[Scope], expires_at: int | None
) -> NewLoginResource:
    """Make a login for a person with a role on the web; the store gets the digest of its token.

    After return: the login is stored, and counts at once in a gateway that runs. If we die inside: it may be
    stored, and nobody has its token.
    """
    if not _NAME_PATTERN.fullmatch(name) or name == HOME_LOGIN:
        raise BadLogin(texts.logins.bad_name(name), hint=texts.logins.NAME_FORM)
    role = await _role_on_the_web(store, settings, person)
    if beyond := scopes - SCOPES_BY_ROLE[role]:
        raise BadLogin(
            texts.logins.scope_beyond_role(person, role, _in_order(beyond)),
            hint=texts.logins.scopes_of_role(role, _in_order(SCOPES_BY_ROLE[role])),
        )
    known = await store.people.find("web", person)
    token = new_token()
    login = Login("", name, Sender(person, known.name if known else ""), scopes, role)
    if not await store.logins.add(login, token_digest(token) or "", expires_at):
        raise BadLogin(texts.logins.name_taken(name), hint=texts.logins.revoke_first(name))
    return NewLoginResource(name, person, _in_order(scopes), expires_at, token)


async def _role_on_the_web(store: Store, settings: Settings, person: str) -> Role:
    """Return the role of a person on the web; nobody else can have a login."""
    authorisation = Authorisation(
        settings.allow_lists, per_person=settings.groups_per_person, tools=settings.tools_by_role
    )
    role = await store.database.read(lambda tx: authorisation.web_role(tx, Sender(person)))
    if role is None:
        raise BadLogin(texts.logins.unknown_person(person), hint=texts.logins.let_in_first(person))
    return role


async def list_logins(store: Store, now: int) -> list[LoginResource]:
    """Every token that was added, by name."""
    return [_login_resource(each, now) for each in await store.logins.tokens()]


async def revoke_login(store: Store, name: str) -> None:
    """Remove a login and the cookies of its browsers; the next request with one of them is refused."""
    if name == HOME_LOGIN:
        raise BadLogin(texts.logins.HOME_CANNOT_BE_REVOKED, hint=texts.logins.REPLACE_HOME_TOKEN)
    if not await store.logins.revoke(name):
        raise NotFound(texts.logins.unknown_login(name), hint=texts.logins.LIST_HINT)


def login_line(login: LoginResource, now: int) -> str:
    """One line of the list, for people."""
    who = f"{login.person_name} ({login.person})" if login.person_name else login.person
    used = f"used {texts.phrases.duration(now - login.last_used_at)} ago" if login.last_used_at else "never used"
    ends = f"until {_format_time(login.expires_at)}" if login.expires_at else "until revoked"
    ends = f"expired {_format_time(login.expires_at or 0)}" if login.expired else ends
    return f"{login.name:16} {','.join(login.scopes):28} {who}, {ends}, {used}"


def _login_resource(login: StoredLogin, now: int) -> LoginResource:
    return LoginResource(
        name=login.name,
        person=login.person.id,
        person_name=login.person.name,
        scopes=_in_order(login.scopes),
        created_at=login.created_at,
        expires_at=login.expires_at,
        last_used_at=login.last_used_at,
        expired=login.expires_at is not None and login.expires_at <= now,
    )


def _in_order(scopes: frozenset[Scope]) -> list[Scope]:
    return [scope for scope in Scope if scope in scopes]


def _format_time(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M")

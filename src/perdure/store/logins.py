"""Logins: the tokens and browser cookies of the HTTP API, each stored as a digest, with its person and scopes."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from perdure.core.logins import (
    HOME_LOGIN,
    SCOPES_BY_ROLE,
    Login,
    LoginKind,
    Scope,
    decode_scopes,
    encode_scopes,
)
from perdure.core.messages import Sender
from perdure.core.roles import Role
from perdure.store.database import Database, Row, Tx

TOKEN_PREFIX = "perdure_"  # noqa: S105 reason: every token begins so, and scanners for secrets know it by that
_TOKEN_PATTERN = re.compile(rf"{TOKEN_PREFIX}[A-Za-z0-9_-]{{43}}")
_HOME_TOKEN_PATTERN = re.compile(r"[A-Za-z0-9_-]{43}")  # as the first start of a gateway makes it
HOME_PREFIX = "home:"  # of the names of rows for homes' own tokens; the id of the gateway follows
USE_INTERVAL_MS = 3_600_000  # the time of the last use is written once in this time, not at every request


def new_token() -> str:
    """Return a new token with 256 random bits."""
    return f"{TOKEN_PREFIX}{secrets.token_urlsafe(32)}"


def token_digest(token: str) -> str | None:
    """Return the digest by which a token is stored; None: no token of ours looks like this.

    It needs no salt and no slow hash: nobody can guess 256 random bits.
    """
    return hashlib.sha256(token.encode()).hexdigest() if _TOKEN_PATTERN.fullmatch(token) else None


def home_token_digest(token: str) -> str | None:
    """Return the digest by which the token of a home is stored; None: it looks like no token that we have made."""
    return hashlib.sha256(token.encode()).hexdigest() if _HOME_TOKEN_PATTERN.fullmatch(token) else None


def chosen_token_digest(token: str, salt: str) -> str:
    """Return the digest of a home's token that an operator chose: slow, because such a token might be guessed.

    It tells whether the token was replaced. No login is found by it.
    """
    return f"chosen:{hashlib.scrypt(token.encode(), salt=salt.encode(), n=2**14, r=8, p=1).hex()}"


class StoredLogin(Struct, frozen=True):
    """One row of the table, without the digest of its secret."""

    id: str
    kind: LoginKind
    name: str
    person: Sender
    scopes: frozenset[Scope]
    token: str | None  # of a cookie: the token by which the browser logged in
    created_at: int
    expires_at: int | None
    last_used_at: int | None

    def as_login(self, role: Role) -> Login:
        """Return the login of a person who has this role now: the role caps its scopes."""
        name = HOME_LOGIN if self.name.startswith(HOME_PREFIX) else self.name
        return Login(self.id, name, self.person, self.scopes & SCOPES_BY_ROLE[role], role)


_COLUMNS = "id, kind, name, person, person_name, scopes, token, created_at, expires_at, last_used_at"


class Logins:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, login: Login, digest: str, expires_at: int | None = None) -> bool:
        """Store a token. False: a token of that name is there, and has not expired."""

        def transaction(tx: Tx) -> bool:
            known = tx.one(f"SELECT id, expires_at FROM logins WHERE {_BY_NAME}{tx.for_update}", name=login.name)
            if known is not None and (known[1] is None or known[1] > tx.time):
                return False
            if known is not None:
                _remove(tx, known[0])
            _insert(tx, LoginKind.TOKEN, login, digest, None, expires_at)
            return True

        return await self._database.write(transaction)

    async def record_home(self, instance: str, login: Login, digest: str) -> str:
        """Store the own token of a gateway's home, so that every gateway accepts it; return the id of its row.

        A token that the home had before ends with its cookies. Homes that have the same token share a row.
        """

        def transaction(tx: Tx) -> str:
            name = f"{HOME_PREFIX}{instance[:12]}"
            same = tx.one(
                f"SELECT id, name, scopes FROM logins WHERE digest = :digest{tx.for_update}", digest=digest
            )
            mine = tx.one(f"SELECT id FROM logins WHERE {_BY_NAME}{tx.for_update}", name=name)
            if mine is not None and (same is None or same[0] != mine[0]):
                _remove(tx, mine[0])
            if same is None:
                return _insert(tx, LoginKind.TOKEN, replace(login, name=name), digest, None, None)
            scopes = login.scopes if same[1] == name else login.scopes & decode_scopes(same[2])
            sql = "UPDATE logins SET scopes = :scopes WHERE id = :id OR token = :id"
            tx.run(sql, scopes=encode_scopes(scopes), id=same[0])
            return str(same[0])

        return await self._database.write(transaction)

    async def add_cookie(self, login: Login, digest: str, lifetime_ms: int) -> None:
        """Store a cookie for a browser that logged in with a token; it does not outlive the token.

        Expired cookies are removed on this occasion. If the token was revoked meanwhile, nothing is stored.
        """

        def transaction(tx: Tx) -> None:
            tx.run(f"DELETE FROM logins WHERE {_IS_COOKIE} AND expires_at <= :now", now=tx.time)
            latest = tx.time + lifetime_ms
            row = tx.one(f"SELECT expires_at FROM logins WHERE id = :id{tx.for_update}", id=login.id)
            if row is None:
                return
            latest = latest if row[0] is None else min(latest, row[0])
            _insert(tx, LoginKind.COOKIE, login, digest, login.id, latest)

        await self._database.write(transaction)

    async def find(
        self, digest: str, kind: LoginKind, role_of: Callable[[Tx, Sender], Role | None]
    ) -> tuple[StoredLogin, Role] | None:
        """Return the login of a secret, by its digest, and the role that its person has on the web now.

        None: there is none, it has expired, or `role_of` says that its person has no role.
        """

        def transaction(tx: Tx) -> tuple[StoredLogin, Role] | None:
            row = tx.one(_BY_DIGEST, digest=digest, kind=kind.value)
            found = _as_login(row) if row is not None else None
            if found is None or (found.expires_at is not None and found.expires_at <= tx.time):
                return None
            role = role_of(tx, found.person)
            return None if role is None else (found, role)

        return await self._database.read(transaction)

    async def tokens(self) -> list[StoredLogin]:
        """Return every token, by name."""
        sql = f"SELECT {_COLUMNS} FROM logins WHERE {_IS_TOKEN} ORDER BY name"
        return await self._database.read(lambda tx: [_as_login(row) for row in tx.all(sql)])

    async def revoke(self, name: str) -> bool:
        """Remove the token of that name, and the cookies that browsers got for it. False: there is none."""

        def transaction(tx: Tx) -> bool:
            row = tx.one(f"SELECT id FROM logins WHERE {_BY_NAME}{tx.for_update}", name=name)
            if row is not None:
                _remove(tx, row[0])
            return row is not None

        return await self._database.write(transaction)

    async def remove_cookie(self, digest: str) -> bool:
        """Remove the cookie of a browser that logs out. False: there is none."""
        sql = f"DELETE FROM logins WHERE digest = :digest AND {_IS_COOKIE}"
        return await self._database.write(lambda tx: bool(tx.run(sql, digest=digest)))

    async def record_use(self, found: StoredLogin, now: int) -> None:
        """Write when a login was used last, if that was written long enough ago."""
        if now - (found.last_used_at or 0) >= USE_INTERVAL_MS:
            sql = "UPDATE logins SET last_used_at = :now WHERE id = :id"
            await self._database.write(lambda tx: tx.run(sql, now=now, id=found.id))


_BY_DIGEST = f"SELECT {_COLUMNS} FROM logins WHERE digest = :digest AND kind = :kind"
_IS_TOKEN, _IS_COOKIE = (f"kind = '{kind}'" for kind in LoginKind)
_BY_NAME = f"{_IS_TOKEN} AND name = :name"


def _insert(tx: Tx, kind: LoginKind, login: Login, digest: str, token: str | None, expires_at: int | None) -> str:
    """Insert a row, and return its id."""
    made: str = tx.ids.new("login")
    tx.run(
        "INSERT INTO logins (id, kind, name, digest, person, person_name, scopes, token, created_at, expires_at) "
        "VALUES (:id, :kind, :name, :digest, :person, :person_name, :scopes, :token, :now, :expires_at)",
        id=made,
        kind=kind.value,
        name=login.name,
        digest=digest,
        person=login.person.id,
        person_name=login.person.name,
        scopes=encode_scopes(login.scopes),
        token=token,
        now=tx.time,
        expires_at=expires_at,
    )
    return made


def _remove(tx: Tx, token: str) -> None:
    tx.run("DELETE FROM logins WHERE token = :id", id=token)
    tx.run("DELETE FROM logins WHERE id = :id", id=token)


def _as_login(row: Row) -> StoredLogin:
    identity, kind, name, person, person_name, scopes, *rest = row
    return StoredLogin(identity, LoginKind(kind), name, Sender(person, person_name), decode_scopes(scopes), *rest)

"""Finds the login of a request's token or cookie: one indexed lookup, or none for the home's own token.

Nothing is cached: a login that was revoked, or has expired, is refused at the next request, by every gateway of
the database. Each accepts the tokens of the others' homes, and the cookies that the others gave out.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress

from msgspec.structs import replace

from perdure.core.logins import HOME_LOGIN, Login, LoginKind, home_token_scopes
from perdure.core.roles import TOKEN_HOLDER
from perdure.errors import Unavailable
from perdure.runtime.gateway import Gateway
from perdure.runtime.instance import load_instance
from perdure.store.logins import chosen_token_digest, home_token_digest, token_digest
from perdure.web.auth.token import tokens_match

COOKIE_MAX_AGE_SECONDS = 30 * 24 * 60 * 60
COOKIE_PREFIX = "perdure_"  # of the names of cookies
MAX_COOKIES = 8  # of one browser that are looked up
_COOKIE_PATTERN = re.compile(r"[A-Za-z0-9_-]{43}")


def cookie_name(token: str) -> str:
    """The name of the cookies that a home gives out.

    Browsers send a cookie to every port of a host, and gateways with other databases may run on that host.
    """
    return f"{COOKIE_PREFIX}{hmac.digest(token.encode(), b'perdure name', 'sha256').hex()[:8]}"


def cookie_digest(cookie: str) -> str | None:
    """The digest by which a cookie is stored, in every gateway alike; None: no cookie of ours looks like this."""
    return (
        hashlib.sha256(f"perdure cookie {cookie}".encode()).hexdigest()
        if _COOKIE_PATTERN.fullmatch(cookie)
        else None
    )


def new_cookie() -> str:
    return secrets.token_urlsafe(32)


async def record_home_token(gateway: Gateway, token: str) -> str:
    """Store the token of this gateway's home, so that the other gateways accept it; return the id of its login.

    One that an operator chose counts in homes that have it, and nowhere else: a digest by which others could look
    it up would let a reader of the database guess it.
    """
    instance = load_instance(gateway.settings.home).id
    digest = home_token_digest(token) or chosen_token_digest(token, instance)
    return await gateway.store.logins.record_home(instance, home_login(gateway), digest)


def home_login(gateway: Gateway) -> Login:
    """The login by the token of this gateway's home."""
    scopes = home_token_scopes(sandbox_in_force=gateway.sandbox.is_on)
    return Login("", HOME_LOGIN, TOKEN_HOLDER, scopes, "owner")


class LoginLookup:
    """The logins of one gateway: the home's own token, and those in its store."""

    def __init__(self, gateway: Gateway, token: str) -> None:
        self._gateway = gateway
        self._token = token
        self.cookie_name = cookie_name(token)

    async def by_token(self, given: str) -> Login | None:
        """The login of a token; None: nobody has it. The home's own token costs no lookup."""
        if tokens_match(given, self._token):
            return home_login(self._gateway)
        return await self._find(token_digest(given) or home_token_digest(given), LoginKind.TOKEN)

    async def by_cookies(self, given: Mapping[str, str]) -> Login | None:
        """The login of a browser's cookies; None: none of them was given out, or they have ended."""
        for cookie in self._ours(given).values():
            login = await self._find(cookie_digest(cookie), LoginKind.COOKIE)
            if login is not None:
                return login
        return None

    def _ours(self, given: Mapping[str, str]) -> dict[str, str]:
        """Those of a browser's cookies that a gateway may have given out, ours first, by their names."""
        names = [name for name in given if name.startswith(COOKIE_PREFIX)]
        names.sort(key=lambda name: name != self.cookie_name)
        return {name: given[name] for name in names[:MAX_COOKIES]}

    async def issue_cookie(self, login: Login) -> str:
        """A new cookie for a browser that has logged in with a token.

        After return: the digest of the cookie is stored. If we die inside: it may be, and nobody has the cookie.
        """
        cookie = new_cookie()
        if not login.id:
            login = replace(login, id=await record_home_token(self._gateway, self._token))
        await self._gateway.store.logins.add_cookie(
            login, cookie_digest(cookie) or "", COOKIE_MAX_AGE_SECONDS * 1000
        )
        return cookie

    async def end_cookies(self, given: Mapping[str, str]) -> list[str]:
        """Make a browser's cookies worthless, in every browser that has a copy of them; return their names."""
        ended = []
        for name, cookie in self._ours(given).items():
            digest = cookie_digest(cookie)
            if digest and await self._gateway.store.logins.remove_cookie(digest):
                ended.append(name)
        return ended

    async def _find(self, digest: str | None, kind: LoginKind) -> Login | None:
        if digest is None:
            return None
        store = self._gateway.store
        known = await store.logins.find(digest, kind, self._gateway.loops.access.authorisation.web_role)
        if known is None:
            return None
        found, role = known
        with suppress(Unavailable):  # the next request writes it
            await store.logins.record_use(found, self._gateway.operator_verbs.clock())
        login = found.as_login(role)
        if login.name != HOME_LOGIN:
            return login
        # As of now: what is stored may be from a start at which the sandbox was still in force.
        return replace(login, scopes=login.scopes & home_login(self._gateway).scopes)

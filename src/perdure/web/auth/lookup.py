"""Finds the login of a request's token or cookie: one indexed lookup, or none for the home's own token.

Nothing is cached: a login that was revoked, or has expired, is refused at the next request.
"""

from __future__ import annotations

import hmac
import re
import secrets
from contextlib import suppress

from msgspec.structs import replace

from perdure.core.logins import HOME_LOGIN, Login, LoginKind, home_token_scopes
from perdure.core.messages import Sender
from perdure.core.roles import TOKEN_HOLDER
from perdure.errors import Unavailable
from perdure.runtime.gateway import Gateway
from perdure.store.database import Tx
from perdure.store.logins import token_digest
from perdure.web.auth.token import tokens_match

COOKIE_MAX_AGE_SECONDS = 30 * 24 * 60 * 60
_COOKIE_PATTERN = re.compile(r"[A-Za-z0-9_-]{43}")


class LoginCookie:
    """Makes the digests of cookies. With another token in the home, that of every earlier cookie is another."""

    def __init__(self, token: str) -> None:
        self._token = token
        # Browsers send a cookie to every port of a host, and several gateways may run on one host.
        self.name = f"perdure_{self._keyed_digest('name')[:8]}"

    def digest(self, cookie: str) -> str | None:
        """The digest by which a cookie is stored; None: no cookie of ours looks like this."""
        return self._keyed_digest(f"cookie {cookie}") if _COOKIE_PATTERN.fullmatch(cookie) else None

    def _keyed_digest(self, text: str) -> str:
        return hmac.digest(self._token.encode(), f"perdure {text}".encode(), "sha256").hex()


def new_cookie() -> str:
    return secrets.token_urlsafe(32)


class LoginLookup:
    """The logins of one gateway: the home's own token, and those in its store."""

    def __init__(self, gateway: Gateway, token: str) -> None:
        self._gateway = gateway
        self._token = token
        self._cookie = LoginCookie(token)

    @property
    def cookie_name(self) -> str:
        return self._cookie.name

    async def by_token(self, given: str) -> Login | None:
        """The login of a token; None: nobody has it. The home's own token costs no lookup."""
        if tokens_match(given, self._token):
            return self._home_login()
        return await self._find(token_digest(given), LoginKind.TOKEN)

    async def by_cookie(self, given: str) -> Login | None:
        """The login of a browser's cookie; None: it was not given out, or it has ended."""
        return await self._find(self._cookie.digest(given), LoginKind.COOKIE)

    async def issue_cookie(self, login: Login) -> str:
        """A new cookie for a browser that has logged in with a token.

        After return: the digest of the cookie is stored. If we die inside: it may be, and nobody has the cookie.
        """
        cookie = new_cookie()
        digest = self._cookie.digest(cookie) or ""
        await self._gateway.store.logins.add_cookie(login, digest, COOKIE_MAX_AGE_SECONDS * 1000)
        return cookie

    async def end_cookie(self, given: str) -> None:
        """Make a cookie worthless, in every browser that has a copy of it."""
        if digest := self._cookie.digest(given):
            await self._gateway.store.logins.remove_cookie(digest)

    def _home_login(self) -> Login:
        scopes = home_token_scopes(sandbox_in_force=self._gateway.sandbox.is_on)
        return Login("", HOME_LOGIN, TOKEN_HOLDER, scopes)

    def _is_owner(self, tx: Tx, person: Sender) -> bool:
        return self._gateway.loops.access.authorisation.is_owner(tx, "web", person)

    async def _find(self, digest: str | None, kind: LoginKind) -> Login | None:
        if digest is None:
            return None
        store = self._gateway.store
        found = await store.logins.find(digest, kind, self._is_owner)
        if found is None:
            return None
        with suppress(Unavailable):  # the next request writes it
            await store.logins.record_use(found, self._gateway.operator_verbs.clock())
        by_home_token = kind is LoginKind.COOKIE and found.token is None
        return replace(self._home_login(), id=found.id) if by_home_token else found.login

"""The login cookie: a random secret, of which the store has a digest that depends on the home's token."""

from __future__ import annotations

import hmac
import re
import secrets

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

"""The login cookie: signed with the token, which cannot be derived from the cookie."""

from __future__ import annotations

import hmac
import re

from perdure.web.auth.token import tokens_match

COOKIE_MAX_AGE_SECONDS = 30 * 24 * 60 * 60
_COOKIE_PATTERN = re.compile(r"([0-9]{1,12})\.([0-9a-f]{64})")


class LoginCookie:
    """Issues and checks cookies; a new token makes every earlier cookie invalid."""

    def __init__(self, token: str) -> None:
        self._token = token
        # Browsers send a cookie to every port of a host, and several gateways may run on one host.
        self.name = f"perdure_{self._sign('name')[:8]}"

    def issue(self, issued_at: int) -> str:
        """A cookie for a login at this second."""
        return f"{issued_at}.{self._sign(f'login {issued_at}')}"

    def is_valid(self, cookie: str, now: int) -> bool:
        """Whether this object issued the cookie, at most `COOKIE_MAX_AGE_SECONDS` ago."""
        found = _COOKIE_PATTERN.fullmatch(cookie)
        if found is None or not tokens_match(cookie, self.issue(int(found[1]))):
            return False
        return 0 <= now - int(found[1]) <= COOKIE_MAX_AGE_SECONDS

    def _sign(self, text: str) -> str:
        return hmac.digest(self._token.encode(), f"perdure {text}".encode(), "sha256").hex()

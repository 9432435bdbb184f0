"""The cookie of a login: made from the token, but the token cannot be found from it."""

from __future__ import annotations

import hmac
import re

from perdure.web.auth.token import tokens_match

COOKIE_MAX_AGE_SECONDS = 30 * 24 * 60 * 60  # seconds that a browser stays logged in
_COOKIE_PATTERN = re.compile(r"([0-9]{1,12})\.([0-9a-f]{64})")


class LoginCookie:
    """Makes cookies and knows its own. Another token makes another seal, and every cookie before void."""

    def __init__(self, token: str) -> None:
        self._token = token
        # Browsers send a cookie to every port of a machine, and several gateways may be at home on one.
        self.name = f"perdure_{self._sign('name')[:8]}"

    def issue(self, issued_at: int) -> str:
        """A cookie for a login at that second."""
        return f"{issued_at}.{self._sign(f'login {issued_at}')}"

    def is_valid(self, cookie: str, now: int) -> bool:
        """Whether we made this cookie, and not too long ago."""
        found = _COOKIE_PATTERN.fullmatch(cookie)
        if found is None or not tokens_match(cookie, self.issue(int(found[1]))):
            return False
        return 0 <= now - int(found[1]) <= COOKIE_MAX_AGE_SECONDS

    def _sign(self, text: str) -> str:
        return hmac.digest(self._token.encode(), f"perdure {text}".encode(), "sha256").hex()

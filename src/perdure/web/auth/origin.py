"""Where a browser's request comes from, as its headers tell: our own pages, or another site.

A browser sends our cookie along with whatever any page makes it ask. So a request with the cookie counts only if
the browser says that a page of ours made it; and only under a name of ours, which another site's name, led to this
machine by its owner's DNS, is not.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from starlette.requests import Request

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


def is_cross_site(request: Request) -> bool:
    """Whether the browser says that another site made the request, other than by leading its person here."""
    site = request.headers.get("sec-fetch-site")
    if site is None:
        return "origin" in request.headers and not _origin_matches_host(request)
    return site not in ("same-origin", "none") and not _is_navigation(request)


def is_from_our_page(request: Request) -> bool:
    """Whether a page of ours made the request: what it may change must be proven, and not only not denied."""
    if request.method in SAFE_METHODS or "sec-fetch-site" in request.headers:
        return not is_cross_site(request)
    return "origin" in request.headers and _origin_matches_host(request)


def _is_navigation(request: Request) -> bool:
    """A link that somebody follows. It shows them a page, and tells the other site nothing."""
    asked = request.headers
    opened = asked.get("sec-fetch-mode") == "navigate" and asked.get("sec-fetch-dest") == "document"
    return request.method in SAFE_METHODS and opened


def _origin_matches_host(request: Request) -> bool:
    # Without the scheme: behind a proxy that speaks TLS, ours is another one than the browser's.
    origin = request.headers["origin"].partition("://")[2].lower()
    return bool(origin) and origin == request.headers.get("host", "").lower()


class HostNames:
    """The names under which browsers may reach us."""

    def __init__(self, names: Iterable[str] = (), *, loopback: bool = True) -> None:
        """Without any names, and open to other machines, every name is good."""
        self._names = {name.lower() for name in names}
        self._strict = loopback or bool(self._names)

    def allows(self, host: str) -> bool:
        """Whether a Host header names us. An address always does: nobody's DNS leads anywhere else with it."""
        name = _without_port(host.lower())
        return not self._strict or name in self._names or name == "localhost" or _is_ip_address(name)


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _is_ip_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True

"""Whether a browser's request comes from our own pages, and under one of our host names.

A browser sends our cookie with every request that any page makes to us. So a request with the cookie is accepted
only if the browser says that one of our pages made it, and only under one of our host names: another site may let
its own name resolve to this machine (DNS rebinding).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from starlette.requests import Request

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


def is_cross_site(request: Request) -> bool:
    """Whether the browser says that another site made the request, other than by a link that a person follows."""
    site = request.headers.get("sec-fetch-site")
    if site is None:
        return "origin" in request.headers and not _origin_matches_host(request)
    return site not in ("same-origin", "none") and not _is_navigation(request)


def is_from_our_page(request: Request) -> bool:
    """Whether one of our pages made the request; a request that changes something must prove its origin."""
    if request.method in SAFE_METHODS or "sec-fetch-site" in request.headers:
        return not is_cross_site(request)
    return "origin" in request.headers and _origin_matches_host(request)


def _is_navigation(request: Request) -> bool:
    """Whether a person follows a link: the response is a page for them, which the other site cannot read."""
    headers = request.headers
    opened = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return request.method in SAFE_METHODS and opened


def _origin_matches_host(request: Request) -> bool:
    # Without the scheme: behind a TLS proxy, the gateway's scheme differs from the browser's.
    origin = request.headers["origin"].partition("://")[2].lower()
    return bool(origin) and origin == request.headers.get("host", "").lower()


class HostNames:
    """The host names under which browsers may reach the gateway."""

    def __init__(self, names: Iterable[str], *, loopback: bool) -> None:
        """Every name is allowed if none is configured and other machines may connect."""
        self._names = {name.lower() for name in names}
        self._strict = loopback or bool(self._names)

    def allows(self, host: str) -> bool:
        """Whether a Host header names the gateway; an IP address always does, because no DNS is involved."""
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

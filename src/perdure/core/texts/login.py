"""What people read at the login of the web, and why a request was refused."""

from __future__ import annotations

NEEDED = "a login token is needed"
HEADER_HINT = "Send the header `Authorization: Bearer …`; `perdure token` shows it."
REFUSED = "This token is not valid."
LINK_HINT = "Open the link that the gateway printed at its start, or give what `perdure token` shows."
TOO_MANY_WRONG_TOKENS = "Too many wrong tokens came from your address."
CROSS_SITE = "this request was made by another site, or does not say by whom"
CROSS_SITE_HINT = (
    "Use the gateway's own pages. A program sends the header `Authorization: Bearer …`; `perdure token` shows it."
)
UNKNOWN_HOST_HINT = (
    "Open it as localhost or by its address. If another name is meant to lead here, add it to `web.names` in the "
    "configuration."
)


def retry_later(seconds: int) -> str:
    return f"Try again in {seconds} second{'' if seconds == 1 else 's'}, with what `perdure token` shows."


def unknown_host(host: str) -> str:
    return f"{host[:80]!r} is no name of this gateway"

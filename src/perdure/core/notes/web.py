"""What people read who come over the web."""

from __future__ import annotations

LOGIN_NEEDED = "a login token is needed"
HOW_TO_LOG_IN = "Send the header `Authorization: Bearer …`; `perdure token` shows it."
LOGIN_REFUSED = "This token is not valid."
WHERE_THE_LOGIN_IS = "Open the link that the gateway printed at its start, or give what `perdure token` shows."
TOO_MANY_LOGINS = "Too many wrong tokens came from your address."
OTHER_SITE = "this request was made by another site, or does not say by whom"
USE_OUR_PAGES = (
    "Use the gateway's own pages. A program sends the header `Authorization: Bearer …`; `perdure token` shows it."
)
USE_OUR_NAME = (
    "Open it as localhost or by its address. If another name is meant to lead here, add it to `web.names` in the "
    "configuration."
)


def log_in_later(seconds: int) -> str:
    return f"Try again in {seconds} second{'' if seconds == 1 else 's'}, with what `perdure token` shows."


def not_our_name(host: str) -> str:
    return f"{host[:80]!r} is no name of this gateway"

"""What people read who come over the web."""

from __future__ import annotations

LOGIN_NEEDED = "a login token is needed"
HOW_TO_LOG_IN = "Send the header `Authorization: Bearer …`; `perdure token` shows it."
LOGIN_REFUSED = "This token is not valid."
WHERE_THE_LOGIN_IS = "Open the link that the gateway printed at its start, or give what `perdure token` shows."

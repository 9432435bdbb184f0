"""What the Bot API refuses, in its own words."""

from __future__ import annotations

from typing import Any


class Refused(Exception):
    """A call is refused: the status, the description, and what a program may make of it."""

    def __init__(self, code: int, description: str, **parameters: int) -> None:
        super().__init__(description)
        self.code = code
        self.description = description
        self.parameters = parameters

    def body(self) -> dict[str, Any]:
        said: dict[str, Any] = {"ok": False, "error_code": self.code, "description": self.description}
        return said | ({"parameters": self.parameters} if self.parameters else {})


def bad(reason: str, **parameters: int) -> Refused:
    return Refused(400, f"Bad Request: {reason}", **parameters)


def too_many(seconds: int) -> Refused:
    return Refused(429, f"Too Many Requests: retry after {seconds}", retry_after=seconds)


def forbidden(reason: str) -> Refused:
    return Refused(403, f"Forbidden: {reason}")


UNAUTHORIZED = Refused(401, "Unauthorized")
NOT_FOUND = Refused(404, "Not Found")
ANOTHER_POLLER = Refused(
    409, "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
)
WEBHOOK_ACTIVE = Refused(
    409,
    "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first",
)
BROKEN = Refused(500, "Internal Server Error")
BLOCKED = forbidden("bot was blocked by the user")
UNPARSABLE = bad("can't parse entities: Can't find end of the entity starting at byte offset 0")
NOT_MODIFIED = bad(
    "message is not modified: specified new message content and reply markup are exactly the same as a current "
    "content and reply markup of the message"
)
QUERY_TOO_OLD = bad("query is too old and response timeout expired or query ID is invalid")

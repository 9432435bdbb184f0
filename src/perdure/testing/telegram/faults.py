"""Faults of the Telegram emulator: refusals with the service's words, lost answers, held answers."""

from __future__ import annotations

import threading
from typing import Any


class BotApiRefusal(Exception):
    """A refused call: the status, the description and the parameters for programs."""

    def __init__(self, code: int, description: str, **parameters: int) -> None:
        super().__init__(description)
        self.code = code
        self.description = description
        self.parameters = parameters

    def body(self) -> dict[str, Any]:
        said: dict[str, Any] = {"ok": False, "error_code": self.code, "description": self.description}
        return said | ({"parameters": self.parameters} if self.parameters else {})


def bad_request(reason: str, **parameters: int) -> BotApiRefusal:
    return BotApiRefusal(400, f"Bad Request: {reason}", **parameters)


def too_many_requests(seconds: int) -> BotApiRefusal:
    return BotApiRefusal(429, f"Too Many Requests: retry after {seconds}", retry_after=seconds)


def forbidden(reason: str) -> BotApiRefusal:
    return BotApiRefusal(403, f"Forbidden: {reason}")


UNAUTHORIZED = BotApiRefusal(401, "Unauthorized")
NOT_FOUND = BotApiRefusal(404, "Not Found")
ANOTHER_POLLER = BotApiRefusal(
    409, "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
)
WEBHOOK_ACTIVE = BotApiRefusal(
    409,
    "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first",
)
INTERNAL_ERROR = BotApiRefusal(500, "Internal Server Error")
BLOCKED = forbidden("bot was blocked by the user")
UNPARSABLE = bad_request("can't parse entities: Can't find end of the entity starting at byte offset 0")
NOT_MODIFIED = bad_request(
    "message is not modified: specified new message content and reply markup are exactly the same as a current "
    "content and reply markup of the message"
)
QUERY_TOO_OLD = bad_request("query is too old and response timeout expired or query ID is invalid")


class Fault:
    """A fault for one call of one method.

    `effect`: whether the call takes place all the same. Then, in this order, the answer is held back until
    `release()`, the connection is cut, or the answer is another one. To a download, named `download`, half of the
    file is given first.
    """

    def __init__(
        self,
        *,
        effect: bool = False,
        hold: bool = False,
        cut: bool = False,
        refusal: BotApiRefusal | None = None,
        page: tuple[int, bytes] | None = None,
    ) -> None:
        self.effect = effect
        self.hold = hold
        self.cut = cut
        self.refusal = refusal
        self.page = page  # a status and a body that the Bot API would not send
        self.reached = threading.Event()  # set when a call has met this fault
        self.released = threading.Event()

    def release(self) -> None:
        """Send the answer that was held back."""
        self.released.set()

"""A local emulator of Telegram's Bot API for tests: one bot, and the people who write to it."""

import warnings
from typing import Any

from perdure.testing.telegram.faults import (
    BLOCKED,
    INTERNAL_ERROR,
    UNAUTHORIZED,
    UNPARSABLE,
    BotApiRefusal,
    Fault,
    bad_request,
    too_many_requests,
)
from perdure.testing.telegram.server import TOKEN, BotCall, LocalTelegram
from perdure.testing.telegram.state import BOT_ID, BOT_NAME, SentMessage
from perdure.testing.telegram.texts import units
from perdure.testing.telegram.webhook_poster import WebhookDelivery

__all__ = [
    "BLOCKED",
    "BOT_ID",
    "BOT_NAME",
    "INTERNAL_ERROR",
    "TOKEN",
    "UNAUTHORIZED",
    "UNPARSABLE",
    "BotApiRefusal",
    "BotCall",
    "Fault",
    "LocalTelegram",
    "SentMessage",
    "WebhookDelivery",
    "bad_request",
    "too_many_requests",
    "units",
]

# Deprecated names of 0.2.0, by the name that replaces each. They stay for one version.
_RENAMED = {
    "BROKEN": "INTERNAL_ERROR",
    "Call": "BotCall",
    "Delivery": "WebhookDelivery",
    "Refused": "BotApiRefusal",
    "Sent": "SentMessage",
    "bad": "bad_request",
    "too_many": "too_many_requests",
}


def __getattr__(name: str) -> Any:
    """Resolve a deprecated name with a warning that names its replacement."""
    if name not in _RENAMED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    new = _RENAMED[name]
    warnings.warn(f"{__name__}.{name} is now called {new}", DeprecationWarning, stacklevel=2)
    return globals()[new]

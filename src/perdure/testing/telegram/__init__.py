"""Telegram on this machine, for tests: one bot, and the people who talk to it."""

from perdure.testing.telegram.faults import Fault
from perdure.testing.telegram.refusals import (
    BLOCKED,
    INTERNAL_ERROR,
    UNAUTHORIZED,
    UNPARSABLE,
    BotApiRefusal,
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

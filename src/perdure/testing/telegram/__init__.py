"""Telegram on this machine, for tests: one bot, and the people who talk to it."""

from perdure.testing.telegram.courier import Delivery
from perdure.testing.telegram.faults import Fault
from perdure.testing.telegram.refusals import BLOCKED, BROKEN, UNAUTHORIZED, UNPARSABLE, Refused, bad, too_many
from perdure.testing.telegram.server import TOKEN, Call, LocalTelegram
from perdure.testing.telegram.texts import units
from perdure.testing.telegram.world import BOT_ID, BOT_NAME, Sent

__all__ = [
    "BLOCKED",
    "BOT_ID",
    "BOT_NAME",
    "BROKEN",
    "TOKEN",
    "UNAUTHORIZED",
    "UNPARSABLE",
    "Call",
    "Delivery",
    "Fault",
    "LocalTelegram",
    "Refused",
    "Sent",
    "bad",
    "too_many",
    "units",
]

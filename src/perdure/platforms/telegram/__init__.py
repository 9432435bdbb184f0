"""The platform Telegram, through its Bot API."""

from perdure.platforms.telegram.adapter import TelegramAdapter

__all__ = ["TelegramAdapter"]

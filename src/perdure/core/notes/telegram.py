"""What operators and people read because of Telegram."""

from __future__ import annotations

TELEGRAM_UNKNOWN_BOT = (
    "Telegram does not know this bot: its token is wrong or was revoked. Ask @BotFather for the token, set "
    "platforms.telegram.token to it, and start the gateway again"
)
TELEGRAM_CONTESTED = (
    "another program reads the messages of this Telegram bot, and only one can: stop the other one, or give each "
    "a bot of its own"
)
TELEGRAM_WEBHOOK_REMOVED = (
    "Telegram posted the messages of this bot to a webhook. That is removed, and we ask for them from now on; "
    "if this comes again, another program sets the webhook: give each a bot of its own"
)
TELEGRAM_BLOCKED = "the person has blocked the bot, or is gone"
TELEGRAM_KICKED = "the bot is not in this chat any more"
TELEGRAM_MUTED = "the bot may not write in this chat: make it an administrator, or let members write"
TELEGRAM_NO_TOPIC = "the topic was deleted or closed"
TELEGRAM_NO_CHAT = "there is no such chat, or the person has never begun one with the bot"
TELEGRAM_WEBHOOK_TAKEN = (
    "another program has taken this Telegram bot's webhook away: stop the other one, or give each a bot of its own"
)
NOT_TELEGRAM = "only Telegram may post here"
POST_NOT_STORED = "not stored; post it again"
UPDATE_WITHOUT_NUMBER = "an update without a number: it cannot be confirmed, and is not taken"


def webhook_fails(url: str, problem: str) -> str:
    return f"Telegram cannot post to {url}: {problem}"


def update_too_large(size: int, limit: int) -> str:
    return f"an update of {size} bytes is not taken: more than {limit} bytes are no message of Telegram's"


PRESS_NOT_TAKEN = "You may not do that here."
PRESS_KNOWN = "You have pressed this already."
PRESS_TOO_LATE = "This question is closed: it was answered, or its work has ended."
PRESS_NOT_YOURS = "This question is not yours to answer: it is asked in a conversation that you have no part in."
PRESS_REFUSED = {"too late": PRESS_TOO_LATE, "not yours": PRESS_NOT_YOURS}  # by what became of it
PRESS_MEANS_NOTHING = "This button means nothing any more. Write instead what you want."
TELEGRAM_FILE_TOO_BIG = "it is larger than 20 MB, and Telegram gives bots no larger ones"

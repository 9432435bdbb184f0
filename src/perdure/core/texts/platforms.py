"""Why a platform is not connected or an event from it was not stored, and messages about Telegram."""

from __future__ import annotations


def adapter_failed(kind: str) -> str:
    """Why a platform is not connected after its adapter failed; the error itself is only logged."""
    return f"its adapter failed with {kind}; the log says where"


def connect_is_open(adapter: str) -> str:
    """What the author of an adapter for 0.2.0 has to change."""
    return (
        f"{adapter}.connect() is called open() since 0.3.0: rename it, and let it only do what sending needs. "
        "What begins to receive belongs in receive(). Until then, all gateways of a database receive there."
    )


def unreadable_event(why: str) -> str:
    """Why an event is stored as rejected: its adapter has filled a field wrongly."""
    return f"the adapter handed over an event that cannot be read: {why}"


EVENT_NOT_STORED = "not received: something went wrong inside the gateway; its log says what"


def not_connected(platform: str) -> str:
    return f"{platform} is not connected"


NOT_SERVED = "no gateway has its platform and its agent"


def unserved(platform: str, agent: str, chats: int, *, newer: bool) -> str:
    """What waits because no running gateway can serve it."""
    count = "1 chat waits" if chats == 1 else f"{chats} chats wait"
    lacks = "can read what a newer version wrote there" if newer else f"has {platform} and the agent {agent}"
    return f"{count} on {platform}: no running gateway {lacks}"


UNSERVED_ADVICE = (
    "Start a gateway that can serve them, or give them up: perdure drop and perdure erase work through any one."
)


def not_taken_over(key: str, problem: str) -> str:
    """A turn of a dead gateway that could not be taken over."""
    return f"The turn of {key} could not be taken over, and is tried again: {problem}"


def another_account(platform: str, theirs: str, ours: str) -> str:
    return (
        f"another gateway on this database serves {platform} with the account {theirs}, and this one has {ours}: "
        "one database knows one account of a platform"
    )


ANOTHER_ACCOUNT_HINT = "Give this gateway the same account, or a database of its own."


def reconnecting(problem: str) -> str:
    return f"{problem}. It is tried again by itself."


UNKNOWN_BOT = (
    "Telegram does not know this bot: its token is wrong or was revoked. Ask @BotFather for the token, set "
    "platforms.telegram.token to it, and start the gateway again"
)
CONTESTED = (
    "another program reads the messages of this Telegram bot, and only one can: stop the other one, or give each "
    "a bot of its own"
)
WEBHOOK_REMOVED = (
    "Telegram posted the messages of this bot to a webhook. That is removed, and we ask for them from now on; "
    "if this comes again, another program sets the webhook: give each a bot of its own"
)
BLOCKED = "the person has blocked the bot, or is gone"
KICKED = "the bot is not in this chat any more"
MUTED = "the bot may not write in this chat: make it an administrator, or let members write"
NO_TOPIC = "the topic was deleted or closed"
NO_CHAT = "there is no such chat, or the person has never begun one with the bot"
WEBHOOK_TAKEN = (
    "another program has taken this Telegram bot's webhook away: stop the other one, or give each a bot of its own"
)
NOT_FROM_TELEGRAM = "only Telegram may post here"
UPDATE_NOT_STORED = "not stored; post it again"
UPDATE_WITHOUT_ID = "an update without a number: it cannot be confirmed, and is not taken"


def webhook_fails(url: str, problem: str) -> str:
    return f"Telegram cannot post to {url}: {problem}"


def update_too_large(size: int, limit: int) -> str:
    return f"an update of {size} bytes is not taken: more than {limit} bytes are no message of Telegram's"


FILE_TOO_LARGE = "it is larger than 20 MB, and Telegram gives bots no larger ones"

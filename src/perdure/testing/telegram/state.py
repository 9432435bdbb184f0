"""The state of the Telegram emulator for one bot: people, chats, messages and unconfirmed updates."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from perdure.testing.telegram.faults import BLOCKED, bad_request, forbidden
from perdure.testing.telegram.texts import detect_entities

BOT_ID = 7000001
BOT_NAME = "perdure_test_bot"

# Kinds of updates that a bot gets only if it subscribes to them by name.
OPT_IN_UPDATES = ("chat_member", "message_reaction", "message_reaction_count")


class SentMessage(Struct):
    """A message of the bot, as people see it now."""

    chat: int
    message: int
    text: str
    thread: int | None = None
    reply_to: int | None = None
    entities: list[dict[str, Any]] = []
    buttons: list[list[dict[str, Any]]] = []
    before: list[str] = []  # its texts before its edits
    file: tuple[str, str, bytes] | None = None  # its kind, its name and its content

    def labels(self) -> list[str]:
        return [button["text"] for row in self.buttons for button in row]


class TelegramState:
    """Not thread-safe by itself: callers hold the server's lock."""

    def __init__(self, notify_update: Callable[[], None]) -> None:
        self._notify_update = notify_update
        self.bot = {
            "id": BOT_ID,
            "is_bot": True,
            "first_name": "Perdure",
            "username": BOT_NAME,
            "can_join_groups": True,
            "can_read_all_group_messages": False,
            "supports_inline_queries": False,
            "can_connect_to_business": False,
            "has_main_web_app": False,
            "has_topics_enabled": True,
        }
        self.people: dict[str, dict[str, Any]] = {}
        self.chats: dict[int, dict[str, Any]] = {}
        self.topics: dict[int, dict[int, str]] = {}
        self.migrated: dict[int, int] = {}  # groups that became supergroups
        self.closed_chats: dict[int, Exception] = {}  # chats that take no message, and why
        self.messages: dict[tuple[int, int], dict[str, Any]] = {}
        self.sent: list[SentMessage] = []
        self.updates: list[dict[str, Any]] = []  # unconfirmed
        self.allowed: list[str] | None = None
        self.files: dict[str, bytes] = {}
        self.queries: set[str] = set()  # presses that the bot has not answered
        self._numbers = itertools.count(5000)
        self._ids: dict[int, itertools.count[int]] = {}
        self._users = itertools.count(1001)

    # ── people and places ───────────────────────────────────────────────────────────────────────────────────

    def person(self, name: str) -> dict[str, Any]:
        """Return the person of that name, who has a private chat with the bot."""
        if name not in self.people:
            number = next(self._users)
            self.people[name] = {"id": number, "is_bot": False, "first_name": name.title(), "username": name}
            self._add_chat({"id": number, "type": "private", "first_name": name.title(), "username": name})
        return self.people[name]

    def group(self, title: str, *, forum: bool = False, basic: bool = False) -> int:
        number = -next(self._numbers) if basic else -(10**12) - next(self._numbers)
        chat = {"id": number, "type": "group" if basic else "supergroup", "title": title}
        return self._add_chat(chat | ({"is_forum": True} if forum else {}))

    def _add_chat(self, chat: dict[str, Any]) -> int:
        number: int = chat["id"]
        self.chats[number], self._ids[number] = chat, itertools.count(1)
        self.topics[number] = {}
        return number

    def topic(self, chat: int, name: str) -> int:
        number = self.next_id(chat)
        self.topics[chat][number] = name
        return number

    def migrate(self, chat: int) -> int:
        """Make a group a supergroup; return its new id."""
        new = self.group(self.chats[chat]["title"])
        self.migrated[chat] = new
        sender = self.person("ann")
        self.add_message({**self.envelope(chat, sender), "migrate_to_chat_id": new})
        self.add_message({**self.envelope(new, sender), "migrate_from_chat_id": chat})
        return new

    def writable_chat(self, chat: Any, thread: Any = None) -> dict[str, Any]:
        """Return the chat that a call names; refuse if the bot may not write there."""
        try:
            number = int(chat)
        except (TypeError, ValueError):
            raise bad_request("chat_id is empty" if chat in (None, "") else "chat not found") from None
        if number in self.migrated:
            moved_to = self.migrated[number]
            raise bad_request("group chat was upgraded to a supergroup chat", migrate_to_chat_id=moved_to)
        if number in self.closed_chats:
            raise self.closed_chats[number]
        if number not in self.chats:
            raise bad_request("chat not found")
        if thread is not None and int(thread) not in self.topics[number]:
            raise bad_request("message thread not found")
        return self.chats[number]

    def block(self, name: str) -> None:
        self.closed_chats[self.person(name)["id"]] = BLOCKED

    def kick(self, chat: int) -> None:
        kind = self.chats[chat]["type"]
        self.closed_chats[chat] = forbidden(f"bot was kicked from the {kind} chat")

    # ── messages ────────────────────────────────────────────────────────────────────────────────────────────

    def next_id(self, chat: int) -> int:
        return next(self._ids[chat])

    def envelope(self, chat: int, sender: dict[str, Any], thread: int | None = None) -> dict[str, Any]:
        topic = {"message_thread_id": thread, "is_topic_message": True} if thread is not None else {}
        now = int(time.time())
        own = {
            "message_id": self.next_id(chat),
            "from": _brief_user(sender),
            "chat": self.chats[chat],
            "date": now,
        }
        return own | topic

    def add_message(self, message: dict[str, Any], kind: str = "message") -> int:
        """Add a message of a person, and an update for the bot."""
        self.messages[message["chat"]["id"], message["message_id"]] = message
        self.add_update({kind: message})
        number: int = message["message_id"]
        return number

    def text_fields(self, text: str, *, caption: bool = False) -> dict[str, Any]:
        """Return the text or caption of a message with the entities that Telegram detects."""
        names = ("caption", "caption_entities") if caption else ("text", "entities")
        found = detect_entities(text)
        return ({names[0]: text} if text else {}) | ({names[1]: found} if found else {})

    def add_update(self, update: dict[str, Any]) -> int:
        """Add an update, unless the bot has not subscribed to its kind; return its id."""
        number = next(self._numbers)
        kinds = set(update) - {"update_id"}
        wanted = self.allowed is None and not kinds & set(OPT_IN_UPDATES)
        if wanted or (self.allowed is not None and (kinds & set(self.allowed) or not self.allowed)):
            self.updates.append({"update_id": number, **update})
            self._notify_update()
        return number

    def confirm_updates(self, offset: int) -> None:
        """Confirm the updates before an offset; a negative offset keeps only the newest."""
        if offset < 0:
            del self.updates[:offset]
        elif offset > 0:
            self.updates[:] = [update for update in self.updates if not _is_before(update, offset)]

    def next_number(self) -> int:
        return next(self._numbers)

    def brief(self, name: str) -> dict[str, Any]:
        """Return a person as messages name them."""
        return _brief_user(self.person(name))

    def upload(self, content: bytes, name: str) -> dict[str, Any]:
        number = next(self._numbers)
        reference = f"file-{number}"
        self.files[reference] = content
        return {"file_id": reference, "file_unique_id": f"u{number}", "file_size": len(content), "file_name": name}


def _is_before(update: Any, offset: int) -> bool:
    """Tell whether an offset confirms an update; an update that a test made without a number stays."""
    number = update.get("update_id") if isinstance(update, dict) else None
    return isinstance(number, int) and 0 <= number < offset


def _brief_user(user: dict[str, Any]) -> dict[str, Any]:
    return {name: user[name] for name in ("id", "is_bot", "first_name", "username")}

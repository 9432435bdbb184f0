"""The people of the Telegram emulator: they write, edit, share files and press buttons."""

from __future__ import annotations

import threading
from typing import Any

from perdure.testing.telegram.state import SentMessage, TelegramState


class TelegramPeople:
    """The acts of people; the default person is Ann, in her private chat with the bot."""

    def __init__(self, state: TelegramState, lock: threading.RLock) -> None:
        self.state = state
        self.lock = lock
        self.ann: int = self.person("ann")

    def person(self, name: str) -> int:
        """Return the id of a person with a private chat with the bot; the chat has the same id."""
        with self.lock:
            number: int = self.state.person(name)["id"]
            return number

    def group(self, title: str = "A group", *, forum: bool = False, basic: bool = False) -> int:
        """Make a supergroup or a basic group with the bot in it; return its id."""
        with self.lock:
            return self.state.group(title, forum=forum, basic=basic)

    def topic(self, chat: int | None = None, name: str = "A topic") -> int:
        """Make a topic in a forum or in a private chat with the bot; return its id."""
        with self.lock:
            return self.state.topic(chat or self.ann, name)

    def remove_topic(self, topic: int, chat: int | None = None) -> None:
        with self.lock:
            del self.state.topics[chat or self.ann][topic]

    def migrate(self, chat: int) -> int:
        """Make a basic group a supergroup; return its new id."""
        with self.lock:
            return self.state.migrate(chat)

    def block(self, name: str = "ann") -> None:
        with self.lock:
            self.state.block(name)

    def unblock(self, name: str = "ann") -> None:
        with self.lock:
            self.state.closed_chats.pop(self.state.person(name)["id"], None)

    def kick(self, chat: int) -> None:
        with self.lock:
            self.state.kick(chat)

    # ── what they say ───────────────────────────────────────────────────────────────────────────────────────

    def write(
        self,
        text: str,
        *,
        chat: int | None = None,
        sender: str = "ann",
        thread: int | None = None,
        reply_to: int | None = None,
        album: str | None = None,
    ) -> int:
        """Let a person write; return the id of the message."""
        with self.lock:
            message = self._new_message(chat, sender, thread, reply_to, album)
            return self.state.add_message(message | self.state.text_fields(text))

    def share(
        self,
        kind: str,
        name: str,
        content: bytes = b"content",
        *,
        caption: str = "",
        chat: int | None = None,
        sender: str = "ann",
        album: str | None = None,
    ) -> int:
        """Let a person send a `photo`, a `document` or a `voice`; return the id of the message."""
        with self.lock:
            file = self.state.upload(content, name)
            if kind == "photo":
                small = {**self.state.upload(b"small", name), "width": 90, "height": 90}
                shown: Any = [_without_name(small), _without_name({**file, "width": 800, "height": 600})]
            elif kind == "voice":
                shown = _without_name(file) | {"duration": 3, "mime_type": "audio/ogg"}
            else:
                shown = file | {"mime_type": "text/plain"}
            message = self._new_message(chat, sender, None, None, album) | {kind: shown}
            return self.state.add_message(message | self.state.text_fields(caption, caption=True))

    def edit(self, message: int, text: str, *, chat: int | None = None) -> None:
        """Let a person edit the text of a message."""
        with self.lock:
            there = self.state.messages[chat or self.ann, message]
            kept = {name: value for name, value in there.items() if name not in ("text", "entities")}
            changed = kept | {"edit_date": there["date"] + 1} | self.state.text_fields(text)
            self.state.add_message(changed, "edited_message")

    def press(
        self, label: str, *, chat: int | None = None, sender: str = "ann", sent: SentMessage | None = None
    ) -> str:
        """Let a person press the newest button with that label, or that of a message; return the press's id."""
        with self.lock:
            shown = [sent] if sent else [each for each in reversed(self.seen(chat)) if label in each.labels()]
            button = next(each for row in shown[0].buttons for each in row if each["text"] == label)
            return self.press_data(button["callback_data"], shown[0], sender=sender)

    def press_data(self, data: str, sent: SentMessage, *, sender: str = "ann") -> str:
        """Let a person press a button with this callback data, such as one of an earlier version."""
        with self.lock:
            message = self.state.messages[sent.chat, sent.message]
            query = f"q{self.state.next_number()}"
            self.state.queries.add(query)
            pressed = {"id": query, "from": self.state.brief(sender), "chat_instance": "1", "message": message}
            self.state.add_update({"callback_query": pressed | {"data": data}})
            return query

    def happen(self, update: dict[str, Any]) -> int:
        """Add any other update; return its id."""
        with self.lock:
            return self.state.add_update(update)

    def _new_message(
        self, chat: int | None, sender: str, thread: int | None, reply_to: int | None, album: str | None
    ) -> dict[str, Any]:
        person = self.state.person(sender)
        place = chat or person["id"]
        message = self.state.envelope(place, person, thread)
        if reply_to is not None:
            message["reply_to_message"] = self.state.messages[place, reply_to]
        return message | ({"media_group_id": album} if album else {})

    # ── what they see ───────────────────────────────────────────────────────────────────────────────────────

    @property
    def sent(self) -> list[SentMessage]:
        """All messages of the bot, in order."""
        return list(self.state.sent)

    def seen(self, chat: int | None = None) -> list[SentMessage]:
        """Return the messages of the bot in a chat."""
        return [each for each in self.sent if each.chat == (chat or self.ann)]

    def texts(self, chat: int | None = None) -> list[str]:
        """Return the current texts of the bot's messages in a chat."""
        return [each.text for each in self.seen(chat)]

    def unconfirmed(self) -> list[int]:
        """Return the ids of the updates that the bot has not confirmed."""
        with self.lock:
            return [each["update_id"] for each in self.state.updates]


def _without_name(file: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in file.items() if name != "file_name"}

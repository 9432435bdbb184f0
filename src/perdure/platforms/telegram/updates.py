"""Reads updates of Telegram: events for the gateway, and which update is confirmed next."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import deque
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field

from perdure.core import texts
from perdure.core.address import Address
from perdure.core.messages import Attachment, Inbound, Pick, Sender
from perdure.core.storable_text import make_storable
from perdure.platforms.telegram.message_writer import decode_command, decode_pick

MAX_UPDATE_BYTES = 1 << 20  # what people can write needs far less
MAX_STORED_CHARS = 10_000  # of a larger update


class _Numbered(Struct, frozen=True):
    update_id: Annotated[int, Meta(ge=0)]


class PendingUpdate:
    """An update that was handed over, and a future that says whether it is stored."""

    def __init__(self, raw: msgspec.Raw, account: str) -> None:
        self.raw = raw
        self.number = _number(raw)  # None: it cannot be confirmed by itself
        self.stored: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.text = bytes(raw).decode(errors="replace")
        self.key = f"telegram:{account}:update:{self._key_suffix}"

    @property
    def _key_suffix(self) -> str:
        """The number, or else a hash of the update, so that it is stored once however often it comes."""
        return hashlib.sha256(self.raw).hexdigest()[:32] if self.number is None else str(self.number)

    @property
    def problem(self) -> str | None:
        """Why the update is not even decoded; None if it is."""
        if self.number is None:
            return texts.platforms.UPDATE_WITHOUT_ID
        size = len(self.raw)
        return texts.platforms.update_too_large(size, MAX_UPDATE_BYTES) if size > MAX_UPDATE_BYTES else None

    def settle(self, stored: bool) -> None:
        if not self.stored.done():
            self.stored.set_result(stored)


def _number(raw: msgspec.Raw) -> int | None:
    try:
        return msgspec.json.decode(raw, type=_Numbered).update_id
    except (msgspec.MsgspecError, RecursionError):
        return None


ALLOWED_UPDATES = ("message", "edited_message", "callback_query")  # the kinds that the bot asks for
MAX_ALBUMS = 100  # in groups that are remembered as meant for the bot


class User(Struct, frozen=True):
    id: int
    is_bot: bool = False
    first_name: str = ""
    last_name: str | None = None
    username: str | None = None

    @property
    def sender(self) -> Sender:
        full = " ".join(name for name in (self.first_name, self.last_name) if name)
        return Sender(str(self.id), full or self.username or "")


class Chat(Struct, frozen=True):
    id: int
    type: str


class Entity(Struct, frozen=True):
    type: str
    offset: int
    length: int
    user: User | None = None


class File(Struct, frozen=True):
    file_id: str
    file_name: str | None = None
    mime_type: str | None = None
    file_size: int | None = None


class InlineKeyboardButton(Struct, frozen=True):
    text: str = ""
    callback_data: str | None = None


class InlineKeyboardMarkup(Struct, frozen=True):
    inline_keyboard: list[list[InlineKeyboardButton]] = []


class TelegramMessage(Struct, frozen=True):
    message_id: int
    chat: Chat
    date: int = 0
    author: User | None = field(default=None, name="from")
    text: str | None = None
    caption: str | None = None
    entities: list[Entity] = []
    caption_entities: list[Entity] = []
    message_thread_id: int | None = None
    is_topic_message: bool = False
    reply_to_message: TelegramMessage | None = None
    forum_topic_created: dict[str, Any] | None = None
    edit_date: int | None = None
    media_group_id: str | None = None
    photo: list[File] = []
    document: File | None = None
    voice: File | None = None
    audio: File | None = None
    video: File | None = None
    reply_markup: InlineKeyboardMarkup | None = None

    @property
    def text_or_caption(self) -> str:
        return self.text or self.caption or ""

    @property
    def text_entities(self) -> list[Entity]:
        return self.entities if self.text else self.caption_entities

    @property
    def address(self) -> Address:
        kind = {"private": "dm", "channel": "channel"}.get(self.chat.type, "group")
        # In an ordinary group a reply has a thread id too, and is in no topic.
        thread = str(self.message_thread_id) if self.is_topic_message else None
        return Address("telegram", kind, str(self.chat.id), thread)  # type: ignore[arg-type]


class CallbackQuery(Struct, frozen=True):
    id: str
    author: User = field(name="from")
    message: TelegramMessage | None = None
    data: str | None = None


class Update(Struct, frozen=True):
    update_id: int
    message: TelegramMessage | None = None
    edited_message: TelegramMessage | None = None
    callback_query: CallbackQuery | None = None


class NotUnderstood(Exception):
    """An update cannot be understood; the message says why."""


class UpdateReader:
    """Reads updates for one bot. In a group it ignores messages that are not meant for the bot."""

    def __init__(self, me: User) -> None:
        self._me = me
        self._mention = f"@{me.username}".lower()
        self._mention_prefix = re.compile(rf"\s*{re.escape(self._mention)}\b[\s,:]*", re.IGNORECASE)
        self._albums: deque[str] = deque(maxlen=MAX_ALBUMS)

    def read(self, update: Update) -> Inbound | None:
        """The message, edit or button press in an update; None if it is not meant for the bot."""
        if update.callback_query is not None:
            return self._button_press(update.callback_query)
        message = update.message or update.edited_message
        if message is None:
            raise NotUnderstood("an update of a kind that we did not ask for")
        if message.author is None or message.author.is_bot or not self._is_for_bot(message):
            return None
        files = attachments(message)
        if not message.text_or_caption and not files:
            raise NotUnderstood("a message without words and without a file that we know")
        inbound = self._inbound(message, message.author, files)
        if update.message is not None:
            return inbound
        return msgspec.structs.replace(inbound, kind="edit", version=str(update.update_id))

    def _inbound(self, message: TelegramMessage, author: User, files: tuple[Attachment, ...]) -> Inbound:
        return Inbound(
            message.address,
            str(message.message_id),
            author.sender,
            self._mention_prefix.sub("", message.text_or_caption, count=1)
            if self._starts_with_mention(message)
            else message.text_or_caption,
            account=str(self._me.id),
            sent_at=(message.edit_date or message.date) * 1000 or None,
            attachments=files,
            album=message.media_group_id,
        )

    def _starts_with_mention(self, message: TelegramMessage) -> bool:
        return self._mention_prefix.match(message.text_or_caption) is not None

    def _button_press(self, query: CallbackQuery) -> Inbound:
        message = query.message
        if message is None or query.data is None:
            raise NotUnderstood("a button without a message")
        rows = message.reply_markup.inline_keyboard if message.reply_markup else []
        shown = {each.callback_data: each.text for row in rows for each in row if each.callback_data}
        data = make_storable(query.data)
        pick = decode_pick(data)
        command = decode_command(data, shown) if pick is None else shown.get(data, "")
        if command is None:
            raise NotUnderstood("a button that is none of ours, or whose message is gone")
        if pick is None and not command.startswith("/"):
            pick = Pick(under=str(message.message_id))
        # Each command under a message counts once per person; of a question's options, only one answer per person.
        once = (str(query.author.id), command) if pick is None else (str(query.author.id),)
        return Inbound(
            message.address,
            str(message.message_id),
            query.author.sender,
            command,
            account=str(self._me.id),
            kind="button",
            version=" ".join(once),
            pick=pick,
        )

    # ── what is meant for the bot ────────────────────────────────────────────────────────────────────────────────

    def _is_for_bot(self, message: TelegramMessage) -> bool:
        if message.chat.type == "private":
            return True
        addressed = self._is_bot_command(message) or self._mentions_bot(message) or self._replies_to_bot(message)
        album = message.media_group_id
        if addressed and album:
            self._albums.append(album)
        return addressed or (album is not None and album in self._albums)

    def _is_bot_command(self, message: TelegramMessage) -> bool:
        """Whether the message starts with a command that does not name another bot."""
        first = next(
            (each for each in message.text_entities if each.type == "bot_command" and each.offset == 0), None
        )
        if first is None:
            return False
        _, at, name = _entity_text(message.text_or_caption, first).partition("@")
        return not at or f"@{name}".lower() == self._mention

    def _mentions_bot(self, message: TelegramMessage) -> bool:
        return any(
            (each.type == "mention" and _entity_text(message.text_or_caption, each).lower() == self._mention)
            or (each.user is not None and each.user.id == self._me.id)
            for each in message.text_entities
        )

    def _replies_to_bot(self, message: TelegramMessage) -> bool:
        answered = message.reply_to_message
        # Every message in a topic counts as a reply to the first one in it.
        if answered is None or answered.author is None or answered.forum_topic_created is not None:
            return False
        return answered.author.id == self._me.id


def _entity_text(text: str, entity: Entity) -> str:
    raw = text.encode("utf-16-le", "surrogatepass")
    return raw[2 * entity.offset : 2 * (entity.offset + entity.length)].decode("utf-16-le", "replace")


def attachments(message: TelegramMessage) -> tuple[Attachment, ...]:
    """The files of a message, by reference; of a photo only the largest size."""
    files = [
        ("photo.jpg", "image/jpeg", message.photo[-1] if message.photo else None),
        ("document", "application/octet-stream", message.document),
        ("voice.ogg", "audio/ogg", message.voice),
        ("audio", "audio/mpeg", message.audio),
        ("video.mp4", "video/mp4", message.video),
    ]
    return tuple(
        Attachment(file.file_name or name, file.file_id, file.mime_type or kind, file.file_size)
        for name, kind, file in files
        if file is not None
    )

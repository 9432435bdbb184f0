"""Writes messages to Telegram: parts, formats, buttons and files, within its limits.

Nothing is stored for a button, so that a press is understood after any restart. The data of a question's option is
the id of the question and the number of the option. The data of a short command is the command. Of a long command
that ends in the button's label, the data is the part before the label, which is read from the button when it is
pressed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from perdure.core import texts
from perdure.core.address import Address
from perdure.core.messages import Button, LocalFile, Outbound, Pick, Receipt, short_question_id
from perdure.errors import SendUnknown
from perdure.platforms.telegram.bot_api import (
    MAX_CALLBACK_BYTES,
    MAX_CAPTION_UNITS,
    MAX_MESSAGE_UNITS,
    MAX_PHOTO_BYTES,
    MAX_SHARED_ROW_CHARS,
    BotApiClient,
    CallRefused,
    send_error,
)
from perdure.platforms.telegram.markup import render, utf16_units

COMMAND_PREFIX, PARTIAL_COMMAND_PREFIX, OPTION_PREFIX = "=", "+", "?"


def keyboard(buttons: Sequence[Button]) -> dict[str, Any] | None:
    """The inline keyboard for these buttons; a button whose command does not fit is left out."""
    shown = [
        {"text": button.label, "callback_data": data}
        for number, button in enumerate(buttons)
        if button.label.strip() and (data := _callback_data(number, button)) is not None
    ]
    if not shown:
        return None
    narrow = len(shown) <= 3 and all(len(button["text"]) <= MAX_SHARED_ROW_CHARS for button in shown)
    return {"inline_keyboard": [shown] if narrow else [[button] for button in shown]}


def _callback_data(number: int, button: Button) -> str | None:
    if button.pick is not None:
        option = f"{OPTION_PREFIX}{button.pick.option}:"
        named = f"{option}{button.pick.question}"
        return named if _fits(named) else f"{option}{short_question_id(button.pick.question)}"
    whole = f"{COMMAND_PREFIX}{button.command}"
    if _fits(whole):
        return whole
    beginning = f"{PARTIAL_COMMAND_PREFIX}{number}:{button.command.removesuffix(button.label)}"
    return beginning if button.command.endswith(button.label) and _fits(beginning) else None


def _fits(data: str) -> bool:
    return len(data.encode()) <= MAX_CALLBACK_BYTES


def decode_pick(data: str) -> Pick | None:
    """The option that was picked; None if the button is no option, or from before options had ids."""
    number, colon, question = data[1:].partition(":")
    ours = data.startswith(OPTION_PREFIX) and colon and question and number.isdecimal()
    return Pick(question, int(number)) if ours else None


def decode_command(data: str, shown: dict[str, str]) -> str | None:
    """The command of a pressed button; `shown` maps the callback data of each button to its label."""
    if data.startswith(COMMAND_PREFIX):
        return data[1:]
    number, colon, beginning = data[1:].partition(":")
    if data.startswith(PARTIAL_COMMAND_PREFIX) and colon and number.isdigit() and data in shown:
        return f"{beginning}{shown[data]}"
    return None


_PHOTOS = frozenset(("image/jpeg", "image/png", "image/webp"))


def upload_method(file: LocalFile) -> tuple[str, str]:
    """The method that shows a file as a photo, voice message or document, and the name of its parameter."""
    if file.media_type in _PHOTOS and file.size <= MAX_PHOTO_BYTES:
        return "sendPhoto", "photo"
    if file.media_type == "audio/ogg":
        return "sendVoice", "voice"
    return DOCUMENT_METHOD


DOCUMENT_METHOD = ("sendDocument", "document")


class _SentMessage(Struct, frozen=True):
    message_id: int


class MessageWriter:
    """Sends and edits the messages of one bot."""

    def __init__(self, client: BotApiClient) -> None:
        self._client = client

    async def send(self, outbound: Outbound) -> Receipt:
        params = {**chat_parameters(outbound.address), "reply_parameters": _reply_parameters(outbound.reply_to)}
        if outbound.file is not None:
            answer = await self._put_file(params, outbound, outbound.file)
        else:
            answer = await self._put_text("sendMessage", params, outbound)
        try:
            return Receipt(str(msgspec.json.decode(answer, type=_SentMessage).message_id))
        except msgspec.MsgspecError as error:
            raise SendUnknown(f"Telegram's answer cannot be read: {error}") from error

    async def edit(self, receipt: Receipt, outbound: Outbound) -> None:
        params = {"chat_id": outbound.address.chat, "message_id": int(receipt.message)}
        await self._put_text("editMessageText", params, outbound)

    async def _put_text(self, method: str, params: dict[str, Any], outbound: Outbound) -> msgspec.Raw:
        """Send or edit a text; follow a chat that has moved, and drop the entities if Telegram refuses them."""
        text, entities = render(outbound.text)
        if not text.strip():
            text, entities = outbound.text, []
        if utf16_units(text) > MAX_MESSAGE_UNITS:
            text, entities = texts.delivery.preview(text, MAX_MESSAGE_UNITS), []  # says that something is left out
        params |= {"reply_markup": keyboard(outbound.buttons), "link_preview_options": {"is_disabled": True}}
        params |= {"text": text, "entities": entities or None}
        try:
            return await self._client.call(method, params)
        except CallRefused as refused:
            if refused.says("message is not modified"):
                return msgspec.Raw(b"true")
            moved = refused.parameters.migrate_to_chat_id
            again = params | ({"chat_id": moved} if moved else {})
            if entities and refused.says("entit"):
                again |= {"text": outbound.text, "entities": None}
            if again == params:
                raise send_error(refused) from refused
        try:
            return await self._client.call(method, again)
        except CallRefused as refused:
            raise send_error(refused) from refused

    async def _put_file(self, params: dict[str, Any], outbound: Outbound, file: LocalFile) -> msgspec.Raw:
        """Send a file; follow a chat that has moved, and send a refused photo or voice message as a document."""
        words = "" if outbound.text == file.name else outbound.text
        caption, entities = render(words) if words else ("", [])
        if utf16_units(caption) > MAX_CAPTION_UNITS:
            caption, entities = texts.delivery.preview(words, MAX_CAPTION_UNITS), []
        params |= {"caption": caption or None, "caption_entities": entities or None}
        method, field = upload_method(file)
        try:
            return await self._client.upload(method, params, field, file)
        except CallRefused as refused:
            moved = refused.parameters.migrate_to_chat_id
            if moved:
                params |= {"chat_id": moved}
            elif refused.code == 400 and (method, field) != DOCUMENT_METHOD:
                method, field = DOCUMENT_METHOD
            else:
                raise send_error(refused) from refused
        try:
            return await self._client.upload(method, params, field, file)
        except CallRefused as refused:
            raise send_error(refused) from refused


def _reply_parameters(message: str | None) -> dict[str, Any] | None:
    """The message that a reply refers to: the part of its id before the first dot."""
    number = (message or "").partition(".")[0]
    return {"message_id": int(number), "allow_sending_without_reply": True} if number.isdecimal() else None


def chat_parameters(address: Address) -> dict[str, Any]:
    return {"chat_id": address.chat, "message_thread_id": int(address.thread) if address.thread else None}

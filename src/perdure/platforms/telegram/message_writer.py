"""Sends and edits messages, with entities or a file; a message is never lost to its formatting."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from perdure.core import texts
from perdure.core.address import Address
from perdure.core.messages import LocalFile, Outbound, Receipt
from perdure.errors import SendUnknown
from perdure.platforms.telegram.bot_api import BotApiClient, CallRefused, send_error
from perdure.platforms.telegram.buttons import keyboard
from perdure.platforms.telegram.markup import render, utf16_units
from perdure.platforms.telegram.uploads import DOCUMENT_METHOD, MAX_CAPTION_UNITS, upload_method

MAX_MESSAGE_UNITS = 4096


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

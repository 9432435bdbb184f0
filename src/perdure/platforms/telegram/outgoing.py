"""Messages on their way out: words with their marks, or a file; none fails because of how it looks."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from perdure.core import notes
from perdure.core.address import Address
from perdure.core.messages import LocalFile, Outbound, Receipt
from perdure.errors import SendUnknown
from perdure.platforms.telegram.buttons import keyboard
from perdure.platforms.telegram.client import CallRefused, Client, failure
from perdure.platforms.telegram.files import AS_DOCUMENT, LONGEST_CAPTION, method_for
from perdure.platforms.telegram.markup import render, units

LONGEST = 4096


class _SentMessage(Struct, frozen=True):
    message_id: int


class Outgoing:
    """Sends and edits the messages of one bot."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def send(self, outbound: Outbound) -> Receipt:
        params = {**place(outbound.address), "reply_parameters": _anchor(outbound.reply_to)}
        if outbound.file is not None:
            answer = await self._share(params, outbound, outbound.file)
        else:
            answer = await self._write("sendMessage", params, outbound)
        try:
            return Receipt(str(msgspec.json.decode(answer, type=_SentMessage).message_id))
        except msgspec.MsgspecError as error:
            raise SendUnknown(f"Telegram's answer cannot be read: {error}") from error

    async def edit(self, receipt: Receipt, outbound: Outbound) -> None:
        params = {"chat_id": outbound.address.chat, "message_id": int(receipt.message)}
        await self._write("editMessageText", params, outbound)

    async def _write(self, method: str, params: dict[str, Any], outbound: Outbound) -> msgspec.Raw:
        """Put the words of a message somewhere; follow a chat that has moved, and do without marks if need be."""
        text, entities = render(outbound.text)
        if not text.strip():
            text, entities = outbound.text, []
        if units(text) > LONGEST:
            text, entities = notes.growing(text, LONGEST), []  # what is left out is seen to be
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
                raise failure(refused) from refused
        try:
            return await self._client.call(method, again)
        except CallRefused as refused:
            raise failure(refused) from refused

    async def _share(self, params: dict[str, Any], outbound: Outbound, file: LocalFile) -> msgspec.Raw:
        """Send a file; follow a chat that has moved, and send as a document what is not taken as what it is."""
        words = "" if outbound.text == file.name else outbound.text
        caption, entities = render(words) if words else ("", [])
        if units(caption) > LONGEST_CAPTION:
            caption, entities = notes.growing(words, LONGEST_CAPTION), []
        params |= {"caption": caption or None, "caption_entities": entities or None}
        method, field = method_for(file)
        try:
            return await self._client.upload(method, params, field, file)
        except CallRefused as refused:
            moved = refused.parameters.migrate_to_chat_id
            if moved:
                params |= {"chat_id": moved}
            elif refused.code == 400 and (method, field) != AS_DOCUMENT:
                method, field = AS_DOCUMENT
            else:
                raise failure(refused) from refused
        try:
            return await self._client.upload(method, params, field, file)
        except CallRefused as refused:
            raise failure(refused) from refused


def _anchor(message: str | None) -> dict[str, Any] | None:
    """What is answered. The name of a wish goes on behind the message that it came with."""
    number = (message or "").partition(".")[0]
    return {"message_id": int(number), "allow_sending_without_reply": True} if number.isdecimal() else None


def place(address: Address) -> dict[str, Any]:
    return {"chat_id": address.chat, "message_thread_id": int(address.thread) if address.thread else None}

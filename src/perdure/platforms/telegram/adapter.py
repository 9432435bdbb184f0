"""The Telegram adapter: one bot, which polls for updates or gets them by webhook.

A poll names the offset of the first update that is not stored yet: Telegram keeps the later ones, and gives them
again, to this gateway or to the next. The adapter keeps nothing that a restart would need.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import msgspec
from msgspec import Struct

from perdure.core import texts
from perdure.core.address import Address
from perdure.core.messages import Outbound, Receipt, Stored
from perdure.core.storable_text import repair_json
from perdure.errors import FetchFailed, FetchRefused, NotConnected, PerdureError, SendError, SendUnknown
from perdure.platforms.api import CHECKPOINT, Adapter, Capabilities, Checkpoint, Event, MenuEntry, WebhookResponse
from perdure.platforms.telegram.bot_api import (
    MAX_FILE_BYTES,
    MAX_MESSAGE_UNITS,
    BotApiClient,
    CallRefused,
    bad_token,
)
from perdure.platforms.telegram.message_writer import MessageWriter, chat_parameters
from perdure.platforms.telegram.updates import (
    ALLOWED_UPDATES,
    MAX_STORED_CHARS,
    NotUnderstood,
    PendingUpdate,
    Update,
    UpdateReader,
    User,
)
from perdure.platforms.telegram.webhook import CHECK_SECONDS, Webhook

PUBLIC_API = "https://api.telegram.org"

POLL_SECONDS = 50  # at most, for an update, in one poll
POLL_MARGIN_SECONDS = 10.0  # beyond that, for the answer of a poll
UNCONFIRMABLE_PAUSE_SECONDS = 5.0  # after a poll without an update that can be confirmed
STORE_RETRY_SECONDS = 1.0  # before updates that were not stored are polled again
CONFLICT_PAUSE_SECONDS = 5.0  # while another process polls for this bot
TYPING_INTERVAL_SECONDS = 0.1  # ten chats a second see that we type
MAX_TYPING_BACKLOG_SECONDS = 1.0  # chats beyond that do not see it
MAX_DETACHED_CALLS = 32  # at once
RESERVED_MARK_UNITS = 96  # for a mark that is added to a reply
MAX_SUMMARY_CHARS = 256


class _FileLocation(Struct, frozen=True):
    file_path: str


class TelegramAdapter(Adapter):
    """Receives updates and sends messages as one bot."""

    name = "telegram"
    capabilities = Capabilities(
        keeps_missed=True,
        threads=True,
        buttons=True,
        edit=True,
        edit_every=3.0,  # a group takes twenty messages and edits a minute
        show_after=1.0,
        typing_every=4.0,  # people see it for five seconds
        files=True,
        max_file=MAX_FILE_BYTES,
        max_length=MAX_MESSAGE_UNITS - RESERVED_MARK_UNITS,
    )

    def __init__(
        self,
        token: str,
        base_url: str = PUBLIC_API,
        webhook: str | None = None,
        *,
        grows: bool = True,
        webhook_check_seconds: float = CHECK_SECONDS,
        poll_seconds: int = POLL_SECONDS,
    ) -> None:
        """`webhook` is the public URL of the gateway's web server; without it, the adapter polls for updates.

        `grows` says whether people see an answer grow, `webhook_check_seconds` how often the adapter asks whether
        Telegram still posts to it, `poll_seconds` how long one poll waits for an update.
        """
        self.capabilities = msgspec.structs.replace(TelegramAdapter.capabilities, grows=grows)
        self._client = BotApiClient(base_url, token)
        self.account = token.partition(":")[0]  # the bot's id
        self._message_writer = MessageWriter(self._client)
        self._webhook = Webhook(webhook, token, webhook_check_seconds) if webhook else None
        self._reader: UpdateReader | None = None
        self._account = ""
        self._offset: int | None = None
        self._poll_seconds = poll_seconds
        self._poll_conflict = False
        self._next_typing_at = 0.0  # when the next chat may see that we type
        self._detached_calls: set[asyncio.Task[None]] = set()  # calls that nobody waits for

    # ── in ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def open(self) -> None:
        if self._poll_conflict:  # two programs at once would only end each other's polls
            await asyncio.sleep(CONFLICT_PAUSE_SECONDS)
        me = msgspec.json.decode(await self._call_repeatable("getMe"), type=User)
        self._account, self._reader = str(me.id), UpdateReader(me)
        if self._webhook is not None:
            await self._call_repeatable("setWebhook", self._webhook.registration(ALLOWED_UPDATES))

    async def receive(self) -> AsyncGenerator[Event | Checkpoint]:
        async with aclosing(
            self._polled_events() if self._webhook is None else self._posted_events(self._webhook)
        ) as events:
            async for event in events:
                yield event

    async def _polled_events(self) -> AsyncGenerator[Event | Checkpoint]:
        """Yield the updates of each poll, and confirm the stored ones with the next poll.

        If we die inside: Telegram gives unconfirmed updates again; those that are stored have no second effect.
        """
        self._offset = None  # another gateway may have received since, and after a quiet week numbers begin anew
        while True:
            yield CHECKPOINT
            pending: list[PendingUpdate] = []
            for raw in await self._get_updates():
                event = self._to_event(update := PendingUpdate(raw, self._account))
                pending.append(update)
                if event is None:
                    update.settle(True)
                else:
                    yield event
            await self._advance_offset(pending)
            await asyncio.sleep(0)  # the turns that these updates woke start before the next poll

    async def _posted_events(self, webhook: Webhook) -> AsyncGenerator[Event | Checkpoint]:
        """Yield updates as Telegram posts them, and check now and then that it still does."""
        webhook.open()
        try:
            while True:
                event = await webhook.next_event()
                if event is not None:
                    yield event
                else:
                    webhook.check_registration(await self._call_repeatable("getWebhookInfo"))
        finally:
            webhook.close()

    @property
    def takes_posts(self) -> bool:
        return self._webhook is not None

    async def take_post(self, headers: Mapping[str, str], body: bytes) -> WebhookResponse:
        if self._webhook is None or not self._webhook.is_authentic(headers):
            return WebhookResponse(401, texts.platforms.NOT_FROM_TELEGRAM)
        if self._reader is None:
            return WebhookResponse(503, texts.platforms.UPDATE_NOT_STORED)
        update = PendingUpdate(msgspec.Raw(repair_json(body)), self._account)
        event = self._to_event(update)
        stored = event is None or await self._webhook.submit(event, update)
        return WebhookResponse() if stored else WebhookResponse(503, texts.platforms.UPDATE_NOT_STORED)

    async def _get_updates(self) -> list[msgspec.Raw]:
        params = {"offset": self._offset, "timeout": self._poll_seconds, "allowed_updates": ALLOWED_UPDATES}
        found = await self._call_repeatable("getUpdates", params, self._poll_seconds + POLL_MARGIN_SECONDS)
        self._poll_conflict = False
        try:
            return msgspec.json.decode(found, type=list[msgspec.Raw])
        except msgspec.MsgspecError as error:
            raise NotConnected(f"Telegram's updates cannot be read: {error}") from error

    async def _advance_offset(self, updates: list[PendingUpdate]) -> None:
        """Move the offset behind the stored updates, up to the first that is not stored."""
        for update in updates:
            if not await update.stored:
                await asyncio.sleep(STORE_RETRY_SECONDS)
                return
            if update.number is not None:
                self._offset = max(self._offset or 0, update.number + 1)
        if updates and all(update.number is None for update in updates):
            # None of them can be confirmed, so that the next poll gets them again at once.
            await asyncio.sleep(UNCONFIRMABLE_PAUSE_SECONDS)

    async def _call_repeatable(
        self, method: str, params: dict[str, Any] | None = None, timeout: float = 30.0
    ) -> msgspec.Raw:
        """Call a method that may be repeated: every failure counts as a lost connection."""
        try:
            return await self._client.call(method, params, timeout)
        except SendUnknown as error:
            raise NotConnected(error.message) from error
        except CallRefused as refused:
            if refused.says("webhook is active"):
                await self._call_repeatable("deleteWebhook")
                raise NotConnected(texts.platforms.WEBHOOK_REMOVED) from refused
            self._poll_conflict = refused.code == 409
            if self._poll_conflict:
                raise NotConnected(texts.platforms.CONTESTED) from refused
            if refused.code == 429:
                await asyncio.sleep(refused.parameters.retry_after or STORE_RETRY_SECONDS)
            raise bad_token() if refused.code in (401, 404) else NotConnected(refused.message) from refused

    def _to_event(self, pending: PendingUpdate) -> Event | None:
        """The event of an update; None if the update is not meant for the bot and is not stored."""
        assert self._reader is not None, "not connected"  # noqa: S101
        text, key = pending.text, pending.key

        async def fail(_: PerdureError) -> None:
            pending.settle(False)

        async def ack_unread(_: Stored | None) -> None:
            pending.settle(True)

        if pending.problem is not None:
            return Event(text[:MAX_STORED_CHARS], key, problem=pending.problem, ack=ack_unread, fail=fail)
        query: str | None = None
        try:
            update = msgspec.json.decode(pending.raw, type=Update)
            query = update.callback_query.id if update.callback_query else None
            inbound = self._reader.read(update)
        except (NotUnderstood, msgspec.MsgspecError, RecursionError) as error:
            if query:
                self._call_detached(self._answer_callback_query(query, texts.questions.BUTTON_UNKNOWN))
            return Event(text, key, problem=f"not understood: {error}", ack=ack_unread, fail=fail)
        if inbound is None:
            return None

        async def ack(stored: Stored | None) -> None:
            pending.settle(True)
            if query is not None:
                self._call_detached(self._answer_callback_query(query, _button_press_text(stored)))

        return Event(text, inbound.event_key, inbound, ack=ack, fail=fail)

    async def fetch(self, reference: str) -> AsyncGenerator[bytes]:
        """Ask Telegram for the path of the file, which is valid for an hour, and download it."""
        try:
            found = msgspec.json.decode(
                await self._client.call("getFile", {"file_id": reference}), type=_FileLocation
            )
        except CallRefused as refused:
            raise _fetch_error(refused) from refused
        except (SendUnknown, msgspec.MsgspecError) as error:
            raise FetchFailed(f"Telegram does not say where the file is: {error}") from error
        async with aclosing(self._client.download(found.file_path)) as pieces:
            async for piece in pieces:
                yield piece

    # ── calls that nobody waits for ─────────────────────────────────────────────────────────────────────────

    def _call_detached(self, call: Coroutine[Any, Any, None]) -> None:
        if len(self._detached_calls) >= MAX_DETACHED_CALLS:
            call.close()  # in a flood, some calls are dropped
            return
        task = asyncio.create_task(call)
        self._detached_calls.add(task)
        task.add_done_callback(self._detached_calls.discard)

    async def _answer_callback_query(self, query: str, text: str) -> None:
        try:
            await self._client.call("answerCallbackQuery", {"callback_query_id": query, "text": text or None})
        except (SendError, CallRefused):
            return  # nobody waits for it

    async def typing(self, address: Address) -> None:
        """Show that we type, unless so many chats want that that sends would have to wait."""
        now = asyncio.get_running_loop().time()
        if self._next_typing_at > now + MAX_TYPING_BACKLOG_SECONDS:
            return
        self._next_typing_at = max(self._next_typing_at, now) + TYPING_INTERVAL_SECONDS
        try:
            await self._client.call("sendChatAction", {**chat_parameters(address), "action": "typing"})
        except CallRefused as refused:
            self._next_typing_at = max(self._next_typing_at, now + (refused.parameters.retry_after or 0))

    # ── out ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def send(self, outbound: Outbound) -> Receipt:
        return await self._message_writer.send(outbound)

    async def edit(self, receipt: Receipt, outbound: Outbound) -> None:
        await self._message_writer.edit(receipt, outbound)

    async def menu(self, commands: Sequence[MenuEntry]) -> None:
        shown = [{"command": each.name, "description": each.summary[:MAX_SUMMARY_CHARS]} for each in commands]
        await self._call_repeatable("setMyCommands", {"commands": shown})

    async def close(self) -> None:
        """Close the connections. What the last poll has not confirmed comes again, and is known by its keys."""
        for task in self._detached_calls:
            task.cancel()
        await self._client.close()


def _button_press_text(stored: Stored | None) -> str:
    """The short text that a person sees after pressing a button."""
    if stored is None:
        return texts.questions.BUTTON_NOT_ALLOWED
    return texts.questions.BUTTON_REFUSALS.get(
        stored.fate, "" if stored.fresh else texts.questions.BUTTON_PRESSED_BEFORE
    )


def _fetch_error(refused: CallRefused) -> PerdureError:
    """The error that a refusal means for a file: retry later, or never available."""
    if refused.code in (401, 404):
        return bad_token()
    if refused.code == 429:
        return FetchFailed(refused.message)
    return FetchRefused(
        texts.platforms.FILE_TOO_LARGE if refused.says("too big") else texts.files.GONE_FROM_PLATFORM
    )

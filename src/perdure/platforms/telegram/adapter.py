"""One bot on Telegram.

Updates are posted to us, if the operator wants that. Otherwise they are asked for with the offset of the first
that is not stored yet: Telegram keeps the others, and gives them again, to us or to whoever comes after us.
Nothing is kept here that a restart would need.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import msgspec
from msgspec import Struct

from perdure.core import notes
from perdure.core.address import Address
from perdure.core.messages import Outbound, Receipt, Stored
from perdure.core.text import mended_json
from perdure.errors import FetchFailed, FetchRefused, NotConnected, PerdureError, SendError, SendUnknown
from perdure.platforms.api import Adapter, Answered, Capabilities, Event, MenuEntry
from perdure.platforms.telegram.client import CallRefused, Client, bad_token
from perdure.platforms.telegram.files import LARGEST
from perdure.platforms.telegram.outgoing import LONGEST, Outgoing, place
from perdure.platforms.telegram.taking import KEPT, Taking
from perdure.platforms.telegram.updates import WANTED, NotUnderstood, Reader, Update, User
from perdure.platforms.telegram.webhook import CHECK, Webhook

PUBLIC_API = "https://api.telegram.org"

POLL = 50  # seconds that a poll waits for something to happen
MARGIN = 10.0  # seconds more that its answer gets
BROKEN_PAUSE = 5.0  # seconds before the next poll if one gave nothing that can be confirmed
STORE_PAUSE = 1.0  # seconds before what could not be stored is asked for again
CONTESTED_PAUSE = 5.0  # seconds between two tries to be the only one who polls
TYPING_PAUSE, TYPING_BEHIND = 0.1, 1.0  # seconds: ten chats a second see that we type, the others do not
MOST_ASIDES = 32  # calls at once that nobody waits for
ROOM = 96  # characters that a mark on a reply may need beside it
LONGEST_SUMMARY = 256


class _Found(Struct, frozen=True):
    file_path: str


class TelegramAdapter(Adapter):
    """Takes updates in, and sends messages, as one bot."""

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
        max_file=LARGEST,
        max_length=LONGEST - ROOM,
    )

    def __init__(
        self,
        token: str,
        base_url: str = PUBLIC_API,
        webhook: str | None = None,
        *,
        grows: bool = True,
        look_every: float = CHECK,
    ) -> None:
        """`webhook` is where the gateway's web server is reached by Telegram; without it, updates are polled.

        `grows` says whether people see an answer grow, `look_every` in how many seconds we ask whether Telegram
        still posts to us.
        """
        self.capabilities = msgspec.structs.replace(TelegramAdapter.capabilities, grows=grows)
        self._client = Client(base_url, token)
        self._outgoing = Outgoing(self._client)
        self._webhook = Webhook(webhook, token, look_every) if webhook else None
        self._reader: Reader | None = None
        self._account = ""
        self._offset: int | None = None
        self._contested = False
        self._types_at = 0.0  # when the next chat may be shown that we type
        self._asides: set[asyncio.Task[None]] = set()  # what nobody waits for

    # ── in ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def connect(self) -> None:
        if self._contested:  # two who try at once would only end each other's polls
            await asyncio.sleep(CONTESTED_PAUSE)
        me = msgspec.json.decode(await self._ask("getMe"), type=User)
        self._account, self._reader = str(me.id), Reader(me)
        if self._webhook is not None:
            await self._ask("setWebhook", self._webhook.registration(WANTED))

    async def receive(self) -> AsyncGenerator[Event]:
        async with aclosing(self._polled() if self._webhook is None else self._posted(self._webhook)) as events:
            async for event in events:
                yield event

    async def _polled(self) -> AsyncGenerator[Event]:
        """Hand updates over, and confirm those that are stored with the next poll.

        If we die inside: Telegram gives again what was not confirmed; what is stored already acts no second time.
        """
        while True:
            taking: list[Taking] = []
            for raw in await self._poll():
                event = self._event(taken := Taking(raw, self._account))
                taking.append(taken)
                if event is None:
                    taken.settle(True)
                else:
                    yield event
            await self._settle(taking)
            await asyncio.sleep(0)  # whoever was woken by them begins before we ask for more

    async def _posted(self, webhook: Webhook) -> AsyncGenerator[Event]:
        """Hand updates over as they are posted, and look now and then whether Telegram still posts to us."""
        webhook.open()
        try:
            while True:
                event = await webhook.next()
                if event is not None:
                    yield event
                else:
                    webhook.check(await self._ask("getWebhookInfo"))
        finally:
            webhook.close()

    @property
    def takes_posts(self) -> bool:
        return self._webhook is not None

    async def take_post(self, headers: Mapping[str, str], body: bytes) -> Answered:
        if self._webhook is None or not self._webhook.knows(headers):
            return Answered(401, notes.NOT_TELEGRAM)
        if self._reader is None:
            return Answered(503, notes.POST_NOT_STORED)
        taken = Taking(msgspec.Raw(mended_json(body)), self._account)
        event = self._event(taken)
        stored = event is None or await self._webhook.take(event, taken)
        return Answered() if stored else Answered(503, notes.POST_NOT_STORED)

    async def _poll(self) -> list[msgspec.Raw]:
        asked = {"offset": self._offset, "timeout": POLL, "allowed_updates": WANTED}
        found = await self._ask("getUpdates", asked, POLL + MARGIN)
        self._contested = False
        try:
            return msgspec.json.decode(found, type=list[msgspec.Raw])
        except msgspec.MsgspecError as error:
            raise NotConnected(f"Telegram's updates cannot be read: {error}") from error

    async def _settle(self, taking: list[Taking]) -> None:
        """Move the offset behind all that is stored, up to the first that is not."""
        for taken in taking:
            if not await taken.stored:
                await asyncio.sleep(STORE_PAUSE)
                return
            if taken.number is not None:
                self._offset = max(self._offset or 0, taken.number + 1)
        if taking and all(taken.number is None for taken in taking):
            await asyncio.sleep(BROKEN_PAUSE)  # they cannot be confirmed, so they come again at once

    async def _ask(self, method: str, params: dict[str, Any] | None = None, timeout: float = 30.0) -> msgspec.Raw:
        """Call what may be called again: whatever goes wrong, there is no connection."""
        try:
            return await self._client.call(method, params, timeout)
        except SendUnknown as error:
            raise NotConnected(error.message) from error
        except CallRefused as refused:
            if refused.says("webhook is active"):
                await self._ask("deleteWebhook")
                raise NotConnected(notes.TELEGRAM_WEBHOOK_REMOVED) from refused
            self._contested = refused.code == 409
            if self._contested:
                raise NotConnected(notes.TELEGRAM_CONTESTED) from refused
            if refused.code == 429:
                await asyncio.sleep(refused.parameters.retry_after or STORE_PAUSE)
            raise bad_token() if refused.code in (401, 404) else NotConnected(refused.message) from refused

    def _event(self, taken: Taking) -> Event | None:
        """The event that an update is; None if it was not meant for us, and is nothing to keep."""
        assert self._reader is not None, "not connected"  # noqa: S101
        text, key = taken.text, taken.key

        async def fail(_: PerdureError) -> None:
            taken.settle(False)

        async def kept(_: Stored | None) -> None:
            taken.settle(True)

        if taken.problem is not None:
            return Event(text[:KEPT], key, problem=taken.problem, ack=kept, fail=fail)
        query: str | None = None
        try:
            update = msgspec.json.decode(taken.raw, type=Update)
            query = update.callback_query.id if update.callback_query else None
            inbound = self._reader.read(update)
        except (NotUnderstood, msgspec.MsgspecError, RecursionError) as error:
            if query:
                self._aside(self._answer_press(query, notes.PRESS_MEANS_NOTHING))
            return Event(text, key, problem=f"not understood: {error}", ack=kept, fail=fail)
        if inbound is None:
            return None

        async def ack(stored: Stored | None) -> None:
            taken.settle(True)
            if query is not None:
                self._aside(self._answer_press(query, _pressed(stored)))

        return Event(text, inbound.event_key, inbound, ack=ack, fail=fail)

    async def fetch(self, reference: str) -> AsyncGenerator[bytes]:
        """Ask where the file is, which is true for an hour, and read it from there."""
        try:
            found = msgspec.json.decode(await self._client.call("getFile", {"file_id": reference}), type=_Found)
        except CallRefused as refused:
            raise _not_given(refused) from refused
        except (SendUnknown, msgspec.MsgspecError) as error:
            raise FetchFailed(f"Telegram does not say where the file is: {error}") from error
        async with aclosing(self._client.download(found.file_path)) as pieces:
            async for piece in pieces:
                yield piece

    # ── what nobody waits for ───────────────────────────────────────────────────────────────────────────────

    def _aside(self, work: Coroutine[Any, Any, None]) -> None:
        if len(self._asides) >= MOST_ASIDES:
            work.close()  # of a flood, not everything needs an answer for the moment
            return
        task = asyncio.create_task(work)
        self._asides.add(task)
        task.add_done_callback(self._asides.discard)

    async def _answer_press(self, query: str, text: str) -> None:
        try:
            await self._client.call("answerCallbackQuery", {"callback_query_id": query, "text": text or None})
        except (SendError, CallRefused):
            return  # it was of the moment

    async def typing(self, address: Address) -> None:
        """Show it, unless so many chats want it that sends would have to wait."""
        now = asyncio.get_running_loop().time()
        if self._types_at > now + TYPING_BEHIND:
            return
        self._types_at = max(self._types_at, now) + TYPING_PAUSE
        try:
            await self._client.call("sendChatAction", {**place(address), "action": "typing"})
        except CallRefused as refused:
            self._types_at = max(self._types_at, now + (refused.parameters.retry_after or 0))

    # ── out ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def send(self, outbound: Outbound) -> Receipt:
        return await self._outgoing.send(outbound)

    async def edit(self, receipt: Receipt, outbound: Outbound) -> None:
        await self._outgoing.edit(receipt, outbound)

    async def menu(self, commands: Sequence[MenuEntry]) -> None:
        shown = [{"command": each.name, "description": each.summary[:LONGEST_SUMMARY]} for each in commands]
        await self._ask("setMyCommands", {"commands": shown})

    async def close(self) -> None:
        """Confirm what is stored, so that nobody is given it again; then let go."""
        for task in self._asides:
            task.cancel()
        try:
            if self._offset is not None and not self._contested:
                await self._client.call("getUpdates", {"offset": self._offset, "limit": 1, "timeout": 0}, MARGIN)
        except (SendError, CallRefused):
            return  # then it comes again, and is known
        finally:
            await self._client.close()


def _pressed(stored: Stored | None) -> str:
    """What a person is told for a moment who has pressed a button."""
    if stored is None:
        return notes.PRESS_NOT_TAKEN
    return notes.PRESS_REFUSED.get(stored.fate, "" if stored.fresh else notes.PRESS_KNOWN)


def _not_given(refused: CallRefused) -> PerdureError:
    """What a refusal means for a file: to wait, or that it will never be had."""
    if refused.code in (401, 404):
        return bad_token()
    if refused.code == 429:
        return FetchFailed(refused.message)
    return FetchRefused(notes.TELEGRAM_FILE_TOO_BIG if refused.says("too big") else notes.GONE_THERE)

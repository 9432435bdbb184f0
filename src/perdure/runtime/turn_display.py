"""Shows a running turn in its chat: typing, the growing answer and notices, none of which is owed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from perdure.containment import contain, raise_uncontained
from perdure.core import texts
from perdure.core.address import Address, background_number, split_session_key
from perdure.core.messages import Outbound, Receipt
from perdure.errors import SendError, TurnMoved
from perdure.logs import Log
from perdure.platforms.api import Adapter
from perdure.runtime.backoff import retry_while_unavailable
from perdure.runtime.gateway_run import GatewayRun
from perdure.runtime.wakeups import WakeEvent
from perdure.store.previews import Preview
from perdure.store.transitions import Turn

log = Log("turn_display")

TYPING_DELAY_SECONDS = 0.5  # before typing is shown: a turn that is answered at once shows none
TYPING_RETRY_SECONDS = 4.0  # until a platform that is not connected is looked for again
LIVE_PREVIEW_SECONDS = 0.05  # between two updates of a growing answer where an update costs nothing
PREVIEW_STOP_SECONDS = 3.0  # for an edit under way to end before the answer is sent


class AnswerPreview:
    """The growing answer of one attempt. A platform that fails to show it delays and breaks nothing."""

    def __init__(
        self, run: GatewayRun, turn: Turn, address: Address, find_adapter: Callable[[], Adapter | None]
    ) -> None:
        self._store = run.store
        self._turn = turn
        self._address = address
        self._find_adapter = find_adapter
        self._lease = run.lease
        self._clock = run.clocks.wall
        self._relay = run.wakeups.relay
        self._text = ""
        self._reply_to: str | None = None
        self._wake_event = WakeEvent()
        self._task: asyncio.Task[None] | None = None
        self._preview: Preview | None = None
        self._stopped = asyncio.Event()
        self._recorded = asyncio.Event()  # cleared while a receipt waits to be recorded
        self._recorded.set()

    @property
    def is_supported(self) -> bool:
        adapter = self._find_adapter()
        can = adapter.capabilities if adapter is not None else None
        return can is not None and ((can.edit and can.grows) or can.live)

    def show(self, text: str, reply_to: str | None) -> None:
        """Show the text, soon. Returns at once; of several in a row only the newest is shown."""
        if self._stopped.is_set() or not text.strip() or not self.is_supported:
            return
        self._text, self._reply_to = text, reply_to
        self._wake_event.wake()
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Show nothing more. After return: nothing is under way that could overtake the answer."""
        self._stopped.set()
        self._wake_event.wake()
        if self._task is not None:
            _, late = await asyncio.wait({self._task}, timeout=PREVIEW_STOP_SECONDS)
            await self._recorded.wait()  # the answer takes the preview's place, and waits for the store too
            self._task.cancel()
            self._relay.end_preview(self._turn.id)
            if late:
                log.warning("preview_given_up", turn=self._turn.id)

    async def _run(self) -> None:
        try:
            if delay := self._first_delay_seconds():
                await self._pause(delay)
            shown = ""
            while not self._stopped.is_set():
                if self._text != shown:
                    shown = self._text
                    await self._pause(await self._send_or_edit(shown))
                else:
                    await self._wake_event.wait()
        except (SendError, TurnMoved) as error:
            log.info("preview_ended", turn=self._turn.id, why=error.message)
        except BaseException as error:  # noqa: BLE001 reason: whatever a platform does with a preview, the answer comes
            raise_uncontained(error)
            log.warning("preview_failed", turn=self._turn.id, error=error)

    def _first_delay_seconds(self) -> float:
        """Seconds before the first words are shown: an answer that is there by then needs no preview."""
        adapter = self._find_adapter()
        return adapter.capabilities.show_after if adapter is not None else 0.0

    async def _pause(self, pause: float) -> None:
        """Wait before the next edit, but not once the answer is there."""
        try:
            async with asyncio.timeout(pause):
                await self._stopped.wait()
        except TimeoutError:
            return

    async def _send_or_edit(self, text: str) -> float:
        """Show the text. Returns the seconds until the next update."""
        adapter = self._find_adapter()
        if adapter is None:
            return PREVIEW_STOP_SECONDS
        can = adapter.capabilities
        if can.live:
            await adapter.glimpse(self._address, self._turn.id, text)
            self._relay.show_preview(self._turn.key, self._turn.id, text)
            return LIVE_PREVIEW_SECONDS
        cut = texts.delivery.preview(text, can.max_length)
        if self._preview is None:
            self._preview = await self._send_first(adapter, cut)
        else:
            await self._edit(adapter, self._preview, cut)
        return can.edit_every

    async def _send_first(self, adapter: Adapter, text: str) -> Preview:
        """Edit the preview that an earlier attempt has shown, or send one, which is recorded before it is sent."""
        turn = self._turn
        preview = await self._store.previews.begin(turn.id, turn.key, turn.epoch, self._clock())
        if preview is None:
            raise TurnMoved(f"turn {turn.id} is no longer ours")
        if preview.receipt is not None:
            await self._edit(adapter, preview, text)
            return preview
        await self._lease.wait_until_valid()
        receipt = await adapter.send(self._outbound(preview, text))
        await self._record(preview, receipt.message)
        return Preview(preview.delivery_key, turn.id, turn.key, receipt.message)

    async def _record(self, preview: Preview, receipt: str) -> None:
        """Record where the preview is, however long the store takes: otherwise nothing could replace it."""
        self._recorded.clear()
        try:
            await retry_while_unavailable(
                lambda: self._store.previews.record_shown(preview, receipt, self._clock())
            )
        finally:
            self._recorded.set()

    async def _edit(self, adapter: Adapter, preview: Preview, text: str) -> None:
        if preview.receipt is not None:
            await self._lease.wait_until_valid()
            await adapter.edit(Receipt(preview.receipt), self._outbound(preview, text))

    def _outbound(self, preview: Preview, text: str) -> Outbound:
        return Outbound(self._address, text, preview.delivery_key, self._reply_to, preview=True)


class TypingIndicator:
    """Shows that one attempt is under way. Nobody waits for it, and nothing is shown after `end`."""

    def __init__(self, address: Address, find_adapter: Callable[[], Adapter | None]) -> None:
        self._address = address
        self._find_adapter = find_adapter
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Show typing soon; costs nothing on a platform that cannot show it."""
        adapter = self._find_adapter()
        if adapter is not None and adapter.capabilities.typing_every is not None:
            self._timer = asyncio.get_running_loop().call_later(TYPING_DELAY_SECONDS, self._show_and_reschedule)

    def end(self) -> None:
        """Show nothing more, from this moment on."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def _show_and_reschedule(self) -> None:
        adapter = self._find_adapter()
        if adapter is not None and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._show_once(adapter))
        every = adapter.capabilities.typing_every if adapter is not None else None
        self._timer = asyncio.get_running_loop().call_later(
            every or TYPING_RETRY_SECONDS, self._show_and_reschedule
        )

    async def _show_once(self, adapter: Adapter) -> None:
        """Show typing once. A failure of the adapter is only logged."""
        showing = adapter.typing(self._address)
        await contain(showing, lambda error: log.debug("typing_not_shown", platform=adapter.name, error=error))


class TurnDisplay:
    """Typing, preview and notices of one attempt. Nothing of them comes after the answer."""

    def __init__(self, run: GatewayRun, turn: Turn) -> None:
        address, connected = split_session_key(turn.key)[1], run.connections.connected
        in_background = background_number(turn.key) is not None

        def find_adapter() -> Adapter | None:
            """The adapter on which the turn is seen before it ends; a background session is not seen."""
            return None if in_background else connected.get(address.platform)

        self._preview = AnswerPreview(run, turn, address, find_adapter)
        self._typing = TypingIndicator(address, find_adapter)
        self._notice_task: asyncio.Task[None] | None = None
        self.silenced = False  # no notice is sent any more

    @property
    def supports_preview(self) -> bool:
        return self._preview.is_supported

    @property
    def notice_under_way(self) -> bool:
        return self._notice_task is not None and not self._notice_task.done()

    def show(self, text: str, reply_to: str | None) -> None:
        """Show the growing answer, soon."""
        self._preview.show(text, reply_to)

    def start_typing(self) -> None:
        self._typing.begin()

    def stop_typing(self) -> None:
        self._typing.end()

    def start_notice(self, sending: Callable[[], Coroutine[None, None, None]]) -> bool:
        """Begin to send a notice. False: another one is under way."""
        if self.notice_under_way:
            return False
        self._notice_task = asyncio.create_task(sending())
        return True

    def silence(self) -> None:
        """Send no more notices, at once: somebody has ended the turn."""
        self.silenced = True
        self._typing.end()
        if self._notice_task is not None:
            self._notice_task.cancel()

    async def stop(self) -> None:
        """Show nothing more. After return: nothing is under way that could follow the answer."""
        self.silenced = True
        self._typing.end()
        await self._preview.stop()
        if self._notice_task is not None:
            await asyncio.wait({self._notice_task}, timeout=PREVIEW_STOP_SECONDS)
            self._notice_task.cancel()

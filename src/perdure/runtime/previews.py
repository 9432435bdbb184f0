"""What people see of an answer while it grows: shown now and then, and never in the answer's way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from perdure.containment import raise_uncontained
from perdure.core import texts
from perdure.core.address import Address
from perdure.core.messages import Outbound, Receipt
from perdure.errors import SendError, TurnMoved
from perdure.logs import Log
from perdure.platforms.api import Adapter
from perdure.runtime.lease import Lease
from perdure.runtime.store_retry import retry_while_unavailable
from perdure.runtime.wakeups import WakeEvent
from perdure.store.api import Store
from perdure.store.ids import Clock
from perdure.store.previews import Preview
from perdure.store.transitions import Turn

log = Log("previews")

LIVE_PREVIEW_SECONDS = 0.05  # seconds between two looks at a growing answer where that costs nothing
PREVIEW_STOP_SECONDS = 3.0  # seconds that an edit under way gets to end before the answer goes out


class AnswerPreview:
    """The growing answer of one attempt. A platform that fails to show it delays and breaks nothing."""

    def __init__(
        self,
        store: Store,
        turn: Turn,
        address: Address,
        find_adapter: Callable[[], Adapter | None],
        *,
        lease: Lease,
        clock: Clock,
    ) -> None:
        self._store = store
        self._turn = turn
        self._address = address
        self._find_adapter = find_adapter
        self._lease = lease
        self._clock = clock
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
            if late:
                log.warning("preview_given_up", turn=self._turn.id)

    async def _run(self) -> None:
        try:
            if patience := self._first_delay_seconds():
                await self._pause(patience)
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
        """Show the text; return for how many seconds it may stand."""
        adapter = self._find_adapter()
        if adapter is None:
            return PREVIEW_STOP_SECONDS
        can = adapter.capabilities
        if can.live:
            await adapter.glimpse(self._address, self._turn.id, text)
            return LIVE_PREVIEW_SECONDS
        cut = texts.delivery.preview(text, can.max_length)
        if self._preview is None:
            self._preview = await self._send_first(adapter, cut)
        else:
            await self._edit(adapter, self._preview, cut)
        return can.edit_every

    async def _send_first(self, adapter: Adapter, text: str) -> Preview:
        """Edit the preview that an earlier attempt has shown, or send one; it is on record before it is sent."""
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
        """Record where the preview is, however long the store takes: otherwise it would stand there for good."""
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

"""What people see of an answer while it grows: shown now and then, and never in the answer's way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from perdure.boundary import raise_uncontained
from perdure.core.address import Address
from perdure.core.messages import Outbound, Receipt
from perdure.core.notes import growing
from perdure.errors import SendError, TurnMoved
from perdure.logs import Log
from perdure.platforms.api import Adapter
from perdure.runtime.bell import Bell
from perdure.runtime.lease import Lease
from perdure.store.api import Store
from perdure.store.ids import Clock
from perdure.store.moves import Turn
from perdure.store.previews import Preview

log = Log("previews")

LIVE_EVERY = 0.05  # seconds between two looks at a growing answer where that costs nothing
LETTING_GO = 3.0  # seconds that an edit under way gets to end before the answer goes out


class Shown:
    """The growing answer of one attempt. A platform that fails to show it delays and breaks nothing."""

    def __init__(
        self,
        store: Store,
        turn: Turn,
        address: Address,
        adapter: Callable[[], Adapter | None],
        *,
        lease: Lease,
        clock: Clock,
    ) -> None:
        self._store = store
        self._turn = turn
        self._address = address
        self._adapter = adapter
        self._lease = lease
        self._clock = clock
        self._text = ""
        self._reply_to: str | None = None
        self._bell = Bell()
        self._task: asyncio.Task[None] | None = None
        self._preview: Preview | None = None
        self._over = asyncio.Event()

    @property
    def possible(self) -> bool:
        adapter = self._adapter()
        can = adapter.capabilities if adapter is not None else None
        return can is not None and ((can.edit and can.grows) or can.live)

    def show(self, text: str, reply_to: str | None) -> None:
        """Show the text, soon. Returns at once; of several in a row only the newest is shown."""
        if self._over.is_set() or not text.strip() or not self.possible:
            return
        self._text, self._reply_to = text, reply_to
        self._bell.ring()
        if self._task is None:
            self._task = asyncio.create_task(self._work())

    async def stop(self) -> None:
        """Show nothing more. After return: nothing is under way that could overtake the answer."""
        self._over.set()
        self._bell.ring()
        if self._task is not None:
            _, late = await asyncio.wait({self._task}, timeout=LETTING_GO)
            self._task.cancel()
            if late:
                log.warning("preview_given_up", turn=self._turn.id)

    async def _work(self) -> None:
        try:
            if patience := self._patience():
                await self._rest(patience)
            shown = ""
            while not self._over.is_set():
                if self._text != shown:
                    shown = self._text
                    await self._rest(await self._put(shown))
                else:
                    await self._bell.wait()
        except (SendError, TurnMoved) as error:
            log.info("preview_ended", turn=self._turn.id, why=error.message)
        except BaseException as error:  # noqa: BLE001 reason: whatever a platform does with a preview, the answer comes
            raise_uncontained(error)
            log.warning("preview_failed", turn=self._turn.id, error=error)

    def _patience(self) -> float:
        """Seconds before the first words are shown: an answer that is there by then needs no preview."""
        adapter = self._adapter()
        return adapter.capabilities.show_after if adapter is not None else 0.0

    async def _rest(self, pause: float) -> None:
        """Wait before the next edit, but not once the answer is there."""
        try:
            async with asyncio.timeout(pause):
                await self._over.wait()
        except TimeoutError:
            return

    async def _put(self, text: str) -> float:
        """Show the text; return for how many seconds it may stand."""
        adapter = self._adapter()
        if adapter is None:
            return LETTING_GO
        can = adapter.capabilities
        if can.live:
            await adapter.glimpse(self._address, self._turn.id, text)
            return LIVE_EVERY
        cut = growing(text, can.max_length)
        if self._preview is None:
            self._preview = await self._begin(adapter, cut)
        else:
            await self._edit(adapter, self._preview, cut)
        return can.edit_every

    async def _begin(self, adapter: Adapter, text: str) -> Preview:
        """Edit the preview that an earlier attempt has shown, or send one; it is on record before it is sent."""
        turn = self._turn
        preview = await self._store.previews.begin(turn.id, turn.key, turn.epoch, self._clock())
        if preview is None:
            raise TurnMoved(f"turn {turn.id} is no longer ours")
        if preview.receipt is not None:
            await self._edit(adapter, preview, text)
            return preview
        await self._lease.confirmed()
        receipt = await adapter.send(self._outbound(preview, text))
        await self._store.previews.shown(preview, receipt.message, self._clock())
        return Preview(preview.delivery_key, turn.id, turn.key, receipt.message)

    async def _edit(self, adapter: Adapter, preview: Preview, text: str) -> None:
        if preview.receipt is not None:
            await self._lease.confirmed()
            await adapter.edit(Receipt(preview.receipt), self._outbound(preview, text))

    def _outbound(self, preview: Preview, text: str) -> Outbound:
        return Outbound(self._address, text, preview.delivery_key, self._reply_to, preview=True)

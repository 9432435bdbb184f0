"""One start of the gateway, as its loops know it: the lease of the run, and what they share."""

from __future__ import annotations

import asyncio

from msgspec import Struct

from perdure.runtime.clocks import Clocks, boot_seconds
from perdure.runtime.connections import Connections
from perdure.runtime.tasks import GatewayTasks
from perdure.runtime.wakeups import WakeEvent, Wakeups
from perdure.store.api import Store
from perdure.store.hints import HintChannel

MARGIN = 1 / 6  # of a lease: for clocks of two machines that run unlike, and for an effect to begin


class Lease:
    """Valid for a while after each heartbeat; for ever where a lock keeps every other gateway out.

    The database fences late records, but not the world: so before every effect and every send we also look at a
    clock that goes on while the machine sleeps or we are stopped. A gateway that is frozen between this look and
    the effect may still perform that one effect; nothing can prevent that from here.
    """

    def __init__(self, length_ms: int | None, asked_at: float) -> None:
        """The lease of a run whose beginning was asked for at `asked_at`; without a length, it never runs out."""
        self._length = None if length_ms is None else length_ms / 1000 * (1 - MARGIN)
        self._until = 0.0
        self._renewed = WakeEvent()
        self.renew(asked_at)

    def renew(self, asked_at: float) -> None:
        """The heartbeat that was begun at `asked_at` has been recorded: nobody has taken over."""
        self._until = asked_at + (self._length or 0.0)
        self._renewed.wake()

    async def wait_until_valid(self) -> None:
        """Return while the lease is valid. If it has run out, wait until a heartbeat proves that it is ours.

        A heartbeat that finds our run declared dead ends the run, and with it whoever waits here.
        """
        while self._length is not None and boot_seconds() > self._until:
            await self._renewed.wait()

    async def wait_until_lapsed(self) -> None:
        """Return when the lease has run out and no heartbeat has renewed it; never, where nobody can take it."""
        if self._length is None:
            await asyncio.Event().wait()
        while (left := self._until - boot_seconds()) > 0:  # noqa: ASYNC110 reason: time itself ends it
            await asyncio.sleep(left)


class GatewayRun(Struct, frozen=True, eq=False):
    """What the loops of one run share: the store, the clocks, the lease, the platforms and the wake-ups."""

    store: Store
    id: str
    clocks: Clocks
    lease: Lease
    tasks: GatewayTasks
    connections: Connections
    wakeups: Wakeups
    hints: HintChannel | None = None  # to other gateways on the same database

"""One start of the gateway, as every loop of it needs to know it."""

from __future__ import annotations

from msgspec import Struct

from perdure.runtime.clocks import Clocks
from perdure.runtime.connections import Connections
from perdure.runtime.lease import Lease
from perdure.runtime.tasks import GatewayTasks
from perdure.runtime.wakeups import Wakeups
from perdure.store.api import Store


class GatewayRun(Struct, frozen=True, eq=False):
    """What the loops of one run share: the store, the clocks, the lease, the platforms and the wake-ups."""

    store: Store
    id: str
    clocks: Clocks
    lease: Lease
    tasks: GatewayTasks
    connections: Connections
    wakeups: Wakeups

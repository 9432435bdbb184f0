"""Starts the work of a connected platform: owed replies, the menu of commands, then recoveries."""

from __future__ import annotations

from collections.abc import Iterable

from perdure.logs import Log
from perdure.platforms.api import MenuEntry
from perdure.runtime.commands.spec import CommandSpec
from perdure.runtime.delivery import DeliveryLoop
from perdure.runtime.gateway_run import GatewayRun
from perdure.runtime.recovery import Recoverer
from perdure.runtime.tasks import FailureLog, TaskSet

log = Log("platform_start")

OUTBOX_FIRST_SECONDS = 5.0  # recoveries of a platform wait at most so long for the replies that are owed there


class PlatformStart:
    """Starts the work of each platform when it is connected; its tasks belong to `tasks`, and end with them."""

    def __init__(
        self,
        run: GatewayRun,
        delivery: DeliveryLoop,
        recoverer: Recoverer,
        commands: Iterable[CommandSpec],
        tasks: TaskSet,
    ) -> None:
        self._run = run
        self._delivery = delivery
        self._recoverer = recoverer
        self._menu = [MenuEntry(each.name, each.usage, each.summary) for each in commands]
        self._tasks = tasks
        self._failures = FailureLog(log)
        self._menus_published: set[str] = set()  # platforms that show the menu of commands

    async def start(self, platform: str) -> None:
        """Begin to send the owed replies of a platform, then to recover its turns; returns at once."""
        self._run.wakeups.delivery.wake()
        self._run.wakeups.attachments.wake()
        self._tasks.create_task(self._publish_menu(platform))
        self._tasks.create_task(self._recover(platform))

    async def _publish_menu(self, platform: str) -> None:
        """Publish the menu of commands on a platform, once. A platform that fails to show it works without."""
        adapter = self._run.connections.connected.get(platform)
        if adapter is None or platform in self._menus_published:
            return
        self._menus_published.add(platform)
        if not await self._failures.contain("menu_not_published", adapter.menu(self._menu), platform=platform):
            self._menus_published.discard(platform)  # the next connection tries again

    async def _recover(self, platform: str) -> None:
        flushing = self._delivery.flush(OUTBOX_FIRST_SECONDS, platform)
        await self._failures.contain("outbox_not_flushed", flushing, platform=platform)
        recovering = self._recoverer.recover(platform)  # after a failure, the next heartbeat tries again
        await self._failures.contain("recovery_postponed", recovering, platform=platform)

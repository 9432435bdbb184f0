"""Expires messages that have waited for too long, and tells their chats; and replies that nobody can send."""

from __future__ import annotations

from perdure.core.queue import QueueRules
from perdure.logs import Log
from perdure.runtime.gateway_run import GatewayRun
from perdure.runtime.tasks import FailureLog

log = Log("message_expiry")

SWEEP_MS = 60_000  # between two looks for messages that have become too old


class MessageExpiry:
    """Expires messages for which no turn has begun in time, and tells each chat once of all of them."""

    def __init__(self, run: GatewayRun, rules: QueueRules, max_reply_age_ms: int) -> None:
        """`max_reply_age_ms`: how old a reply gets that no gateway can send; the delivery loop ends all others."""
        self._store = run.store
        self._clock = run.clocks.wall
        self._wakeups = run.wakeups
        self._rules = rules
        self._max_reply_age_ms = max_reply_age_ms
        self._failures = FailureLog(log)
        self._swept_at = 0

    async def sweep(self) -> None:
        """Expire every message that is too old to be answered, and every reply that nobody can send."""
        self._swept_at = now = self._clock()
        if self._rules.max_age_ms:
            for key in await self._store.queue.expire_old(self._rules.too_old_before(now)):
                log.warning("messages_expired", key=key)
        if gone := await self._store.outbox.expire_unserved(now - self._max_reply_age_ms, now):
            log.warning("unserved_replies_expired", replies=gone)

    async def run(self) -> None:
        while True:
            await self._failures.contain("message_expiry_failed", self._expire_and_notify())
            if await self._wakeups.expiry.wait():
                await self._wait_until_quiet()

    async def _expire_and_notify(self) -> None:
        now = self._clock()
        if not 0 <= now - self._swept_at < SWEEP_MS:
            await self.sweep()
        for key in await self._store.queue.notify_expired(now):
            self._wakeups.wake_delivery(key)

    async def _wait_until_quiet(self) -> None:
        """Wait until no more old messages come: a platform delivers many in a row when it is connected again."""
        while await self._wakeups.expiry.wait(self._rules.quiet_ms / 1000):
            continue

"""Repairs a session that could not be served: ends a turn that never started, reports an unreadable journal."""

from __future__ import annotations

from collections.abc import Container

from perdure.core import texts
from perdure.core.entries import NEWEST_ENTRY_VERSION
from perdure.core.journal import TurnClaimed, TurnFailed, fold
from perdure.core.states import TurnState
from perdure.errors import NewerEntry
from perdure.logs import Log
from perdure.runtime.attempt import address_of
from perdure.runtime.gateway_run import GatewayRun
from perdure.store.journal import MAX_SEQ
from perdure.store.outbox import OutboxReply

log = Log("session_repair")


class SessionRepair:
    """Writes what a session needs to be served again, and tells its chat."""

    def __init__(self, run: GatewayRun) -> None:
        self._run = run
        self._store = run.store
        self._clock = run.clocks.wall

    async def fail_unstarted(self, key: str, running: Container[str]) -> str | None:
        """End the turn of a key that this run has claimed in the store, and for which no attempt runs.

        The claim was stored, but failed in this process: nobody else would end the turn. Returns its id.
        """
        turn = await self._store.turns.current(key)
        if turn is None or turn.state is not TurnState.RUNNING or turn.id in running:
            return None
        records = await self._store.journal.of_turn(turn.session, turn.id)
        claims = [record.entry for record in records if isinstance(record.entry, TurnClaimed)]
        if not claims or (claims[-1].run, claims[-1].epoch) != (self._run.id, turn.epoch):
            return None
        text = texts.turns.failed(texts.turns.NOT_STARTED)
        reply = OutboxReply(address_of(key), turn.id, (text,), fold(records).reply_to)
        failed = [TurnFailed(texts.turns.NOT_STARTED)]
        await self._store.turns.append(turn, failed, self._clock(), replies=[reply])
        log.warning("failed", turn=turn.id, key=key, error=texts.turns.NOT_STARTED)
        self._run.wakeups.wake_delivery(key)
        return turn.id

    async def leave_to_newer(self, session: str) -> bool:
        """Leave a session whose entries this version cannot read to a gateway that can. False: none lives."""
        await self._store.turns.require_version(session, NEWEST_ENTRY_VERSION + 1)
        left = await self._store.turns.release_unreadable(self._run.id)
        if left:
            log.info("left_to_newer", sessions=left)
        return bool(left)

    async def notify_if_unreadable(self, key: str) -> None:
        """Leave a session that this version cannot read to newer gateways; without one, tell its chat, once."""
        session = await self._store.sessions.current(key)
        if session is None:
            return
        try:
            await self._store.journal.read_after(session.id, 0, MAX_SEQ)
        except NewerEntry:
            if await self.leave_to_newer(session.id):
                return
            notice = OutboxReply(address_of(key), f"unreadable.{session.id}", (texts.turns.NEWER_ENTRY,))
            await self._store.outbox.enqueue(key, notice, self._clock())
            self._run.wakeups.wake_delivery(key)

"""Runs: every start of every gateway, its heartbeat, and how it ended.

A run is alive until it has an ending. Its own process ends it cleanly. Another gateway ends it as lost, when that
gateway holds the lock of the same home or file, or when the run's heartbeat has been silent for too long.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from perdure.core import texts
from perdure.core.address import split_session_key
from perdure.core.entries import JournalRecord, TurnClaimed, TurnInterrupted
from perdure.core.exit_report import ExitReport, GatewayLaunch
from perdure.core.states import RunEnding
from perdure.store import outbox, run_services
from perdure.store.database import Database, Transaction, Tx
from perdure.store.run_services import RunCapabilities

LEASE_MS = 30_000  # a run without a heartbeat for this long is dead
RECENT_MS = 300_000
MAX_PAST_RUNS = 20  # earlier runs that a start looks at


class Run(Struct, frozen=True):
    id: str
    instance: str
    version: str
    started_at: int
    heartbeat_at: int
    ended_at: int | None
    ending: str | None
    died_at: int | None = None  # when its supervisor saw the process die
    exit_code: int | None = None  # of that death; below zero, the signal that killed the process


class RunStart(Struct, frozen=True):
    """A run that has begun, and how many runs before it died."""

    run: str
    unclean_in_a_row: int  # how many runs of this installation died one after another, up to now
    unclean_lately: int  # how many died within the last minutes


class Runs:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(
        self,
        instance: str,
        version: str,
        launch: GatewayLaunch | None = None,
        capabilities: RunCapabilities | None = None,
    ) -> RunStart:
        """Begin a run, end the runs that our locks prove dead, and answer whoever asked for the restart.

        `launch` is the supervisor's record of this start and of the deaths before it. A run without `capabilities`
        can serve every chat.

        After return: the run is on record, and the sessions of dead runs may be taken over.
        If we die inside: at most a run that the next start ends as lost.
        """
        sole, run = self._database.exclusive, self._database.ids.new("run")
        launched = launch or GatewayLaunch("")

        def transaction(tx: Tx) -> RunStart:
            started = _begin(tx, run, instance, version, launched, exclusive=sole)
            if capabilities is not None:
                run_services.record(tx, run, capabilities)
            return started

        return await self._database.write(transaction)

    async def record_heartbeat(self, run: str) -> bool:
        """Record that the run is alive. False: it was declared dead meanwhile, and must stop."""
        return await self._database.write(
            lambda tx: bool(
                tx.run(
                    "UPDATE runs SET heartbeat_at = :now WHERE id = :run AND ended_at IS NULL",
                    now=tx.lease_clock(),
                    run=run,
                )
            )
        )

    async def reap(self, run: str) -> int:
        """End the runs whose heartbeat is silent; return how many there were. Never our own."""

        def transaction(tx: Tx) -> int:
            now = tx.lease_clock()
            # A heartbeat in the future: the clock was set back, and the run's silence is counted from now.
            tx.run(
                "UPDATE runs SET heartbeat_at = :now "
                "WHERE ended_at IS NULL AND heartbeat_at > :now AND id <> :run",
                now=now,
                run=run,
            )
            return tx.run(
                f"UPDATE runs SET ended_at = :now, ending = '{RunEnding.LOST}' "
                "WHERE ended_at IS NULL AND id <> :run AND heartbeat_at < :limit",
                now=now,
                limit=now - LEASE_MS,
                run=run,
            )

        return await self._database.write(transaction)

    async def start_draining(self, run: str) -> None:
        """Record that a run stops. After return: others may have its idle chats, and it takes no further one."""
        sql = "UPDATE runs SET draining = 1 WHERE id = :run AND ended_at IS NULL"
        await self._database.write(lambda tx: tx.run(sql, run=run))

    async def end(self, run: str, wait_ms: int = 0) -> None:
        """Record a clean stop. After return: the run's leases are free.

        For `wait_ms`, chats with files or commands on its machine wait for the same gateway to come back.
        """
        await self._database.write(
            lambda tx: tx.run(
                f"UPDATE runs SET ended_at = :now, ending = '{RunEnding.CLEAN}', heartbeat_at = :now, "
                "back_by = :back_by "
                "WHERE id = :run AND ended_at IS NULL",
                now=tx.lease_clock(),
                back_by=tx.time + wait_ms if wait_ms else None,
                run=run,
            )
        )

    async def get(self, run: str) -> Run | None:
        row = await self._database.read(
            lambda tx: tx.one(
                f"SELECT {', '.join(Run.__struct_fields__)} FROM runs WHERE id = :run",
                run=run,
            )
        )
        return Run(*row) if row else None


def of_turn(tx: Tx, records: Sequence[JournalRecord]) -> list[Run]:
    """Return the runs that claimed or interrupted the turn of these records."""
    entries = [record.entry for record in records]
    claimed = {entry.run for entry in entries if isinstance(entry, TurnClaimed)}
    names = claimed | {entry.run for entry in entries if isinstance(entry, TurnInterrupted) and entry.run}
    sql = f"SELECT {', '.join(Run.__struct_fields__)} FROM runs WHERE id = :run"
    found = [tx.one(sql, run=name) for name in sorted(names)]
    return [Run(*row) for row in found if row is not None]


def request_restart(run: str, key: str) -> Transaction[bool]:
    """Record who asked for a restart of this run. False: somebody has asked before."""
    sql = "UPDATE runs SET restart_for = :key WHERE id = :run AND restart_for IS NULL AND ended_at IS NULL"
    return lambda tx: bool(tx.run(sql, key=key, run=run))


def _begin(tx: Tx, run: str, instance: str, version: str, launch: GatewayLaunch, *, exclusive: bool) -> RunStart:
    ours = "" if exclusive else "AND instance = :instance"
    for death in launch.deaths:
        _record_exit(tx, death)
    tx.run(
        f"UPDATE runs SET ended_at = :now, ending = '{RunEnding.LOST}' WHERE ended_at IS NULL {ours}",
        now=tx.lease_clock(),
        instance=instance,
    )
    before = tx.all(
        f"SELECT ending, ended_at FROM runs WHERE ended_at IS NOT NULL {ours} ORDER BY id DESC LIMIT "
        f"{MAX_PAST_RUNS}",
        instance=instance,
    )
    tx.run(
        "INSERT INTO runs (id, instance, version, started_at, heartbeat_at, launch) "
        "VALUES (:run, :instance, :version, :now, :now, :launch)",
        run=run,
        instance=instance,
        version=version,
        launch=launch.name or None,
        now=tx.lease_clock(),
    )
    _notify_restart_requesters(tx)
    endings = [row[0] for row in before]
    in_a_row = endings.index(RunEnding.CLEAN) if RunEnding.CLEAN in endings else len(endings)
    lately = sum(ending == RunEnding.LOST and 0 <= tx.lease_clock() - at <= RECENT_MS for ending, at in before)
    return RunStart(run, in_a_row, lately)


def _record_exit(tx: Tx, death: ExitReport) -> None:
    """Record how the run of that launch died; a run that stopped cleanly did not die."""
    tx.run(
        "UPDATE runs SET died_at = :at, exit_code = :code "
        f"WHERE launch = :launch AND died_at IS NULL AND (ending IS NULL OR ending = '{RunEnding.LOST}')",
        at=death.at,
        code=death.code,
        launch=death.launch,
    )


def _notify_restart_requesters(tx: Tx) -> None:
    """Put "I am back" in the lane of every session that asked for a restart; the reply's name is unique."""
    asked = tx.all(
        "SELECT r.id, r.restart_for FROM runs r WHERE r.restart_for IS NOT NULL AND r.ended_at IS NOT NULL "
        "AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.delivery_key = 'back.' || r.id || ':0')"
    )
    for run, key in asked:
        address = split_session_key(key)[1]
        outbox.enqueue(tx, key, None, outbox.OutboxReply(address, f"back.{run}", (texts.recovery.BACK,)))

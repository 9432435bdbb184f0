"""Runs: every start of every gateway, its heartbeats, and how it ended.

A run is alive until it has an ending. Its own process ends it cleanly. Another gateway ends it as lost, when that
gateway holds the lock of the same home or file, or when it has seen the run's count of heartbeats stand still for
a lease, by a clock of its own. The times of heartbeats are for people to read: a clock that is set ends nobody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from perdure.core import texts
from perdure.core.address import split_session_key
from perdure.core.entries import JournalRecord, TurnClaimed, TurnInterrupted
from perdure.core.exit_report import ExitReport, GatewayLaunch
from perdure.core.recovery.decision import CRASH_LOOP_WINDOW_MS
from perdure.core.states import RunEnding
from perdure.store import outbox, run_services
from perdure.store.conditions import PROCESS_IS_LIVE, TURN_IS_OPEN
from perdure.store.database import HEARTBEAT, Database, Transaction, Tx
from perdure.store.run_services import RunCapabilities

LEASE_MS = 30_000  # a run whose heartbeats stand still for this long is dead
MAX_PAST_RUNS = 20  # earlier runs that a start looks at
KEPT_RUNS = 500  # the newest, dead or alive: people look at how they ended
PRUNED_RUNS = 50  # per transaction
RELEASED_LEASES = 500  # per transaction


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
    former: str | None = None  # what its instance was called before it had an id


class Instance(Struct, frozen=True):
    """By what a gateway is known, and the lock that it holds."""

    id: str
    former: str = ""  # machine and path, by which 0.2.0 called it
    lock_id: str = ""  # the same for everybody who could hold the same lock
    home: str = ""  # machine and path, for people to read


class RunBeats(Struct, frozen=True):
    """How many heartbeats another run has made, and for how long it may make none."""

    run: str
    beats: int
    lease_ms: int


class CopiedRun(Struct, frozen=True):
    """A run that lives with our id, and holds another lock: that of a copy of our home, or of the original."""

    beats: RunBeats
    home: str


class RunStart(Struct, frozen=True):
    """A run that has begun, and how many runs before it died."""

    run: str
    unclean_in_a_row: int  # how many runs, of all gateways, died one after another, up to now
    unclean_lately: int  # how many died within the last minutes


class Heartbeats(Struct, frozen=True):
    """What one heartbeat found: the runs that it ended as lost, the others that live, and what is asked of us."""

    ended: Sequence[str]
    others: Sequence[RunBeats]
    drain_asked: bool = False  # somebody asked this run to drain and stop


class Runs:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(
        self,
        instance: Instance,
        version: str,
        launch: GatewayLaunch | None = None,
        capabilities: RunCapabilities | None = None,
        *,
        lease_ms: int = LEASE_MS,
    ) -> RunStart:
        """Begin a run, end the runs that our locks prove dead, and answer whoever asked for the restart.

        `launch` is the supervisor's record of this start and of the deaths before it. A run without `capabilities`
        can serve every chat.

        After return: the run is on record, and the sessions of dead runs may be taken over.
        If we die inside: at most a run that the next start ends as lost.
        """
        sole, run = self._database.exclusive, self._database.ids.new("run")
        launched = launch or GatewayLaunch("")
        begun = RunBeats(run, 0, lease_ms)

        def transaction(tx: Tx) -> RunStart:
            started = _begin(tx, begun, instance, version, launched, exclusive=sole)
            if capabilities is not None:
                run_services.record(tx, run, capabilities)
            return started

        return await self._database.write(transaction)

    async def copies(self, instance: Instance) -> list[CopiedRun]:
        """Return the runs with our id that nobody has ended, and that our lock does not prove dead."""
        rows = await self._database.read(
            lambda tx: tx.all(
                "SELECT id, beats, lease_ms, coalesce(home, instance) FROM runs "
                "WHERE ended_at IS NULL AND instance = :instance AND lock_id <> :lock_id",
                instance=instance.id,
                lock_id=instance.lock_id,
            )
        )
        return [CopiedRun(RunBeats(*row[:3]), row[3]) for row in rows]

    async def end_silent(self, silent: Mapping[str, int]) -> None:
        """End the silent runs whose counts of heartbeats have not moved since they were seen."""
        await self._database.write(
            lambda tx: [_end_silent(tx, run, beats, tx.lease_clock()) for run, beats in silent.items()]
        )

    async def beat(self, run: str, silent: Mapping[str, int]) -> Heartbeats | None:
        """Count one heartbeat of a run, and end the silent runs whose counts have not moved since they were seen.

        None: the run was declared dead meanwhile, and must stop.
        After return: the heartbeat is on record, and the sessions of the runs that it ended may be taken over.
        If we die inside: the same, or nothing.
        """
        return await self._database.write(lambda tx: _beat(tx, run, silent), key=HEARTBEAT)

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

    async def prune(self, kept: int = KEPT_RUNS) -> int:
        """Forget some dead runs that nothing open names, except the newest; return how many. 0: none is left.

        After return: they are gone with their capabilities, and their idle chats belong to nobody.
        If we die inside: the same, or nothing.
        """
        return await self._database.write(lambda tx: _prune(tx, kept))

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


def _begin(
    tx: Tx, begun: RunBeats, instance: Instance, version: str, launch: GatewayLaunch, *, exclusive: bool
) -> RunStart:
    # Our lock proves that those who held the same lock are dead; runs of 0.2.0 do not say which one they held.
    names = {"instance": instance.id, "former": instance.former or instance.id}
    ours = "AND instance IN (:instance, :former) AND (lock_id IS NULL OR lock_id = :lock_id)"
    locked = "" if exclusive else ours
    for death in launch.deaths:
        _record_exit(tx, death)
    tx.run(
        f"UPDATE runs SET ended_at = :now, ending = '{RunEnding.LOST}' WHERE ended_at IS NULL {locked}",
        now=tx.lease_clock(),
        lock_id=instance.lock_id,
        **names,
    )
    # Of all gateways: a turn that ends its gateway is taken over by another one, and may end that one too.
    before = tx.all(
        f"SELECT ending, ended_at FROM runs WHERE ended_at IS NOT NULL ORDER BY id DESC LIMIT {MAX_PAST_RUNS}"
    )
    tx.run(
        "INSERT INTO runs "
        "(id, instance, version, started_at, heartbeat_at, launch, lease_ms, former, lock_id, home) VALUES "
        "(:run, :instance, :version, :now, :now, :launch, :lease_ms, :former, :lock_id, :home)",
        run=begun.run,
        lease_ms=begun.lease_ms,
        version=version,
        launch=launch.name or None,
        now=tx.lease_clock(),
        lock_id=instance.lock_id,
        home=instance.home or None,
        **names,
    )
    _notify_restart_requesters(tx)
    endings = [row[0] for row in before]
    in_a_row = endings.index(RunEnding.CLEAN) if RunEnding.CLEAN in endings else len(endings)
    lately = sum(
        ending == RunEnding.LOST and 0 <= tx.lease_clock() - at <= CRASH_LOOP_WINDOW_MS for ending, at in before
    )
    return RunStart(begun.run, in_a_row, lately)


def _beat(tx: Tx, run: str, silent: Mapping[str, int]) -> Heartbeats | None:
    now = tx.lease_clock()
    counted = (
        "UPDATE runs SET beats = beats + 1, heartbeat_at = :now WHERE id = :run AND ended_at IS NULL "
        "RETURNING drain_asked_at"
    )
    row = tx.one(counted, now=now, run=run)
    if row is None:
        return None
    ended = [other for other, beats in silent.items() if other != run and _end_silent(tx, other, beats, now)]
    others = tx.all("SELECT id, beats, lease_ms FROM runs WHERE ended_at IS NULL AND id <> :run", run=run)
    return Heartbeats(ended, [RunBeats(*each) for each in others], drain_asked=row[0] is not None)


def _end_silent(tx: Tx, run: str, beats: int, now: int) -> bool:
    """End a run as lost if its count of heartbeats has not moved. A row that somebody holds is left for later."""
    unheld = f"{tx.for_update} SKIP LOCKED" if tx.for_update else ""
    return bool(
        tx.run(
            f"UPDATE runs SET ended_at = :now, ending = '{RunEnding.LOST}' WHERE id IN "
            f"(SELECT id FROM runs WHERE id = :run AND beats = :beats AND ended_at IS NULL{unheld})",
            now=now,
            run=run,
            beats=beats,
        )
    )


# Runs that an open turn, a chat with one, a send or the machine of a live process still needs.
_CLAIMANTS = (  # the run is the first field of the entry
    "SELECT split_part(j.body, '\"', 4) FROM turns t CROSS JOIN journal j "  # in this order
    f"WHERE t.{TURN_IS_OPEN} AND j.turn = t.id AND j.kind = '{TurnClaimed.kind}'"
)
_LEASED = f"SELECT l.run FROM turns t JOIN leases l ON l.key = t.key WHERE t.{TURN_IS_OPEN} AND l.run IS NOT NULL"
_PRUNABLE = (
    "SELECT r.id FROM runs r WHERE r.ended_at IS NOT NULL "
    "AND r.id < (SELECT min(k.id) FROM (SELECT id FROM runs ORDER BY id DESC LIMIT :kept) k) "
    f"AND r.id NOT IN ({_CLAIMANTS}) AND r.id NOT IN ({_LEASED}) "
    "AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.run = r.id) "
    "AND NOT EXISTS (SELECT 1 FROM processes p "
    f"WHERE p.instance IN (r.instance, r.former) AND p.{PROCESS_IS_LIVE}) "
    "ORDER BY r.id LIMIT :limit"
)


def _prune(tx: Tx, kept: int) -> int:
    """Forget the oldest dead runs that nothing needs, and release their idle chats, some at a time."""
    runs = [row[0] for row in tx.all(_PRUNABLE, kept=kept, limit=PRUNED_RUNS)]
    room, gone = RELEASED_LEASES, 0
    for run in runs:
        room -= _release_idle(tx, run, room)
        if room <= 0:
            return gone + 1  # there is more to do
        if tx.one("SELECT 1 FROM leases WHERE run = :run LIMIT 1", run=run):
            continue  # somebody holds such a row now
        tx.run("DELETE FROM run_services WHERE run = :run", run=run)
        gone += tx.run("DELETE FROM runs WHERE id = :run", run=run)
    return gone


def _release_idle(tx: Tx, run: str, limit: int) -> int:
    """Let nobody have some chats of a dead run in which no turn is open."""
    unheld = f"{tx.for_update} SKIP LOCKED" if tx.for_update else ""
    return tx.run(
        "UPDATE leases SET run = NULL WHERE run = :run AND key IN (SELECT l.key FROM leases l WHERE l.run = :run "
        f"AND NOT EXISTS (SELECT 1 FROM turns o WHERE o.key = l.key AND o.{TURN_IS_OPEN}) LIMIT :limit{unheld})",
        run=run,
        limit=limit,
    )


def _record_exit(tx: Tx, death: ExitReport) -> None:
    """Record how the last run of that launch died; a run that stopped cleanly did not die."""
    tx.run(
        "UPDATE runs SET died_at = :at, exit_code = :code "
        f"WHERE launch = :launch AND died_at IS NULL AND (ending IS NULL OR ending = '{RunEnding.LOST}') "
        "AND id = (SELECT max(id) FROM runs WHERE launch = :launch)",
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

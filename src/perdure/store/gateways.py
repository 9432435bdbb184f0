"""The gateways that share a database: what each serves, receives and runs; and asking one to drain."""

from __future__ import annotations

from msgspec import Struct

from perdure.core.address import join_parts
from perdure.core.states import TurnState
from perdure.store.conditions import TURN_IS_OPEN
from perdure.store.database import Database, Tx
from perdure.store.run_services import RunService, living_runs

_RUNS = (
    "SELECT id, instance, coalesce(home, instance), version, started_at, heartbeat_at, draining, drain_asked_at "
    "FROM runs WHERE ended_at IS NULL ORDER BY id"
)
_RUNNING_TURNS = (
    f"SELECT l.run, count(*) FROM turns t JOIN leases l ON l.key = t.key WHERE t.{TURN_IS_OPEN} "
    f"AND t.state = '{TurnState.RUNNING}' GROUP BY l.run"
)
_RECEIVERS = (
    "SELECT g.platform, g.account, g.run FROM receiving_leases g JOIN runs r ON r.id = g.run "
    "WHERE r.ended_at IS NULL"
)
_ASK_TO_DRAIN = (
    "UPDATE runs SET drain_asked_at = :now WHERE instance = :instance AND ended_at IS NULL "
    "AND draining = 0 AND drain_asked_at IS NULL"
)


class LivingGateway(Struct, frozen=True):
    """A gateway that runs."""

    id: str  # of the installation, over all its runs
    run: str
    home: str  # its machine and path
    version: str
    started_at: int
    heartbeat_at: int
    draining: bool
    drain_asked: bool
    services: tuple[RunService, ...]
    receives: tuple[str, ...]  # platforms whose events come to it
    standing_by: tuple[str, ...]  # platforms whose events another gateway receives
    running: int  # turns


class Gateways:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def living(self) -> list[LivingGateway]:
        """Return the gateways that run, the one that was started first at the beginning."""
        return await self._database.read(_living)

    async def ask_to_drain(self, instance: str) -> bool:
        """Ask a gateway to drain and stop. False: it does so already, or does not run.

        After return: the gateway finds the request with its next heartbeat.
        """
        return await self._database.write(
            lambda tx: bool(tx.run(_ASK_TO_DRAIN, instance=instance, now=tx.lease_clock()))
        )


def _living(tx: Tx) -> list[LivingGateway]:
    services = {each.id: each.capabilities.services if each.capabilities else () for each in living_runs(tx)}
    running: dict[str, int] = {row[0]: row[1] for row in tx.all(_RUNNING_TURNS)}
    receivers: dict[tuple[str, str], str] = {(row[0], row[1]): row[2] for row in tx.all(_RECEIVERS)}
    found = []
    for run, instance, home, version, started_at, heartbeat_at, draining, asked_at in tx.all(_RUNS):
        served = services.get(run, ())
        elsewhere = [each for each in served if _receiver(receivers, each, run) != run]
        found.append(
            LivingGateway(
                instance,
                run,
                home,
                version,
                started_at,
                heartbeat_at,
                bool(draining),
                asked_at is not None,
                served,
                tuple(sorted({each.platform for each in served if each not in elsewhere})),
                tuple(sorted({each.platform for each in elsewhere})),
                running.get(run, 0),
            )
        )
    return found


def _receiver(receivers: dict[tuple[str, str], str], service: RunService, run: str) -> str:
    """Return the run that receives for an account; without a lease, everybody takes what is posted to it."""
    return receivers.get((join_parts(service.platform), service.account), run)

"""Run services: which chats a run can serve, and what waits because no living run can.

A run says, when it begins, which agents it has on which platforms, and which journal entries it can read. The
conditions of claims, take-overs, sends and commands are `has_service` and `can_serve` of `store.conditions`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from perdure.core.address import join_parts, split_parts
from perdure.core.entries import NEWEST_ENTRY_VERSION
from perdure.store.conditions import (
    ANY_AGENT,
    DELIVERY_IS_OPEN,
    MESSAGE_WAITS,
    SESSION_IS_CURRENT,
    TURN_IS_OPEN,
    agent_of,
    platform_of,
)
from perdure.store.database import Database, Tx

_RECORD_SERVICE = (
    "INSERT INTO run_services (run, platform, agent, account) VALUES (:run, :platform, :agent, :account)"
)
_LIVING = (
    "SELECT r.id, r.instance, r.draining, r.entry_version, s.platform, s.agent, s.account FROM runs r "
    "LEFT JOIN run_services s ON s.run = r.id WHERE r.ended_at IS NULL ORDER BY r.id, s.platform, s.agent"
)
# The chats in which something is to be done, each once.
WAITING_KEYS = (
    f"SELECT key FROM turns WHERE {TURN_IS_OPEN} "
    f"UNION SELECT key FROM inbox WHERE {MESSAGE_WAITS} AND kind <> 'aside' "
    f"UNION SELECT key FROM outbox WHERE {DELIVERY_IS_OPEN}"
)
_WAITING_SERVICES = (
    f"SELECT {platform_of('w.key')}, {agent_of('w.key')}, coalesce(s.entry_version, 0), count(*) "
    f"FROM ({WAITING_KEYS}) w LEFT JOIN sessions s ON s.key = w.key AND s.{SESSION_IS_CURRENT} "
    "GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
)
_PUT_ASIDE = (
    f"SELECT l.key, l.problem, l.retry_at FROM turns t JOIN leases l ON l.key = t.key WHERE t.{TURN_IS_OPEN} "
    "AND l.retry_at IS NOT NULL ORDER BY l.retry_at, l.key LIMIT :limit"
)


_COUNT_PUT_ASIDE = (
    f"SELECT count(*) FROM turns t JOIN leases l ON l.key = t.key WHERE t.{TURN_IS_OPEN} "
    "AND l.retry_at IS NOT NULL"
)
_ACCOUNT_CONFLICT = (
    "SELECT o.platform, o.account, s.account FROM runs r CROSS JOIN run_services o CROSS JOIN run_services s "
    "WHERE r.ended_at IS NULL AND o.run = r.id AND s.run = :run AND s.platform = o.platform "
    "AND s.account <> o.account LIMIT 1"
)


class RunService(Struct, frozen=True):
    """An agent on a platform, and the account there."""

    platform: str
    agent: str  # or `ANY_AGENT`
    account: str = ""  # of the platform; the same on every gateway that shares a database


class RunCapabilities(Struct, frozen=True):
    """What a run can serve."""

    services: tuple[RunService, ...]
    entry_version: int = NEWEST_ENTRY_VERSION  # the newest journal entries that it can read


class LivingRun(Struct, frozen=True):
    """A run without an ending; one of an older version says nothing of its capabilities."""

    id: str
    instance: str
    draining: bool
    capabilities: RunCapabilities | None

    def can_serve(self, platform: str, agent: str, entry_version: int = 0) -> bool:
        if self.capabilities is None:
            return True
        services = self.capabilities.services
        has = any(each.platform == platform and each.agent in (ANY_AGENT, agent) for each in services)
        return has and entry_version <= self.capabilities.entry_version


class ServiceDifference(Struct, frozen=True):
    """What only the neighbours of a run serve, and what only the run itself: an agent on a platform, in words."""

    elsewhere: tuple[str, ...]
    here_alone: tuple[str, ...]


class UnservedChats(Struct, frozen=True):
    """Chats of one agent on one platform in which something waits that no living run can serve."""

    platform: str
    agent: str
    chats: int
    newer: bool  # a gateway has the platform and the agent, but the journal is of a newer version


class PutAside(Struct, frozen=True):
    """A chat whose turn could not be taken over, why, and when it is tried again."""

    key: str
    problem: str
    retry_at: int


class RunServices:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def living_runs(self) -> list[LivingRun]:
        """Return the runs without an ending, each with its capabilities."""
        return await self._database.read(living_runs)

    async def unserved(self) -> list[UnservedChats]:
        """Count the chats in which something waits, and which no living run can serve."""
        return await self._database.read(_unserved)

    async def count_put_aside(self) -> int:
        """Count the turns that could not be taken over yet."""
        row = await self._database.read(lambda tx: tx.one(_COUNT_PUT_ASIDE))
        return row[0] if row else 0

    async def account_conflict(self, run: str) -> tuple[str, str, str] | None:
        """Return a platform that another living run has with another account, with that account and ours."""
        row = await self._database.read(lambda tx: tx.one(_ACCOUNT_CONFLICT, run=run))
        return (split_parts(row[0])[0], row[1], row[2]) if row else None

    async def difference(self, run: str) -> ServiceDifference:
        """Compare what a run serves with what the other living runs serve, if there are any."""
        return _difference(await self.living_runs(), run)

    async def put_aside(self, limit: int = 20) -> list[PutAside]:
        """Return the chats whose turn could not be taken over, the next to be tried first."""
        return await self._database.read(lambda tx: [PutAside(*row) for row in tx.all(_PUT_ASIDE, limit=limit)])


def record(tx: Tx, run: str, capabilities: RunCapabilities) -> None:
    """Record what a run that begins can serve."""
    sql = "UPDATE runs SET entry_version = :version WHERE id = :run"
    tx.run(sql, version=capabilities.entry_version, run=run)
    for each in capabilities.services:
        platform, agent = join_parts(each.platform), join_parts(each.agent)
        tx.run(_RECORD_SERVICE, run=run, platform=platform, agent=agent, account=each.account)


def living_runs(tx: Tx) -> list[LivingRun]:
    """Return the runs without an ending, each with its capabilities."""
    found: dict[str, LivingRun] = {}
    services: dict[str, list[RunService]] = {}
    for run, instance, draining, version, platform, agent, account in tx.all(_LIVING):
        served = services.setdefault(run, [])
        if platform is not None:
            served.append(RunService(split_parts(platform)[0], split_parts(agent)[0], account))
        capabilities = None if version is None else RunCapabilities(tuple(served), version)
        found[run] = LivingRun(run, instance, bool(draining), capabilities)
    return list(found.values())


def _difference(runs: Iterable[LivingRun], run: str) -> ServiceDifference:
    served = {
        each.id: {f"{service.agent} on {service.platform}" for service in each.capabilities.services}
        for each in runs
        if each.capabilities is not None
    }
    ours, others = served.pop(run, set()), list(served.values())
    theirs = set[str]().union(*others)
    return ServiceDifference(tuple(sorted(theirs - ours)), tuple(sorted(ours - theirs)) if others else ())


def _unserved(tx: Tx) -> list[UnservedChats]:
    runs, chats, newer = living_runs(tx), Counter[tuple[str, str]](), set[tuple[str, str]]()
    for escaped_platform, escaped_agent, version, count in tx.all(_WAITING_SERVICES):
        platform, agent = split_parts(escaped_platform)[0], split_parts(escaped_agent)[0]
        if not _is_served(runs, platform, agent, version):
            chats[platform, agent] += count
            if _is_served(runs, platform, agent, 0):
                newer.add((platform, agent))
    return [
        UnservedChats(platform, agent, count, (platform, agent) in newer)
        for (platform, agent), count in chats.items()
    ]


def _is_served(runs: Iterable[LivingRun], platform: str, agent: str, version: int) -> bool:
    return any(run.can_serve(platform, agent, version) for run in runs)

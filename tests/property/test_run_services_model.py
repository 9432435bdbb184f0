"""Runs with capabilities: no chat is ever held by a run that cannot serve it, and none is stranded.

Drives `store/run_services`, `store/leases` and `store/turns`.

Three gateways begin, drain, end and die in any order, each time with other capabilities, and try everything that
they could do to any chat.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import hypothesis.strategies as st
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from psycopg import sql

from perdure.core.address import Address, session_key, split_session_key
from perdure.core.journal import TurnFinished, TurnInterrupted
from perdure.core.messages import Inbound, Sender
from perdure.core.states import TurnState
from perdure.store.api import Store, open_database
from perdure.store.outbox import OutboxReply
from perdure.store.run_services import LivingRun, RunCapabilities, RunService
from perdure.store.runs import Instance

INSTANCES = ("one", "two", "three")
PLATFORMS = ("web", "far")
AGENTS = ("main", "sales")
KEYS = [session_key(agent, Address(platform, "dm", "c")) for agent in AGENTS for platform in PLATFORMS]
services = st.sets(st.sampled_from([(platform, agent) for platform in PLATFORMS for agent in AGENTS]))
instances, keys = st.sampled_from(INSTANCES), st.sampled_from(KEYS)
actions = st.one_of(
    st.tuples(st.just("begin"), instances, services),
    st.tuples(st.sampled_from(["drain", "end", "beat", "send"]), instances, st.just(None)),
    st.tuples(st.sampled_from(["receive", "claim", "finish", "interrupt"]), instances, keys),
)


class GatewayWalk:
    """Runs of three installations on one database, and what each of them tries."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._runs: dict[str, str] = {}  # by installation
        self._messages = 0

    async def act(self, action: str, instance: str, value: object) -> None:
        if action == "begin":
            assert isinstance(value, set)
            capabilities = RunCapabilities(tuple(RunService(*each) for each in sorted(value)))
            started = await self._store.runs.begin(Instance(instance), "0", capabilities=capabilities)
            self._runs[instance] = started.run
        elif action == "receive":
            await self._receive(str(value))
        elif instance in self._runs:
            await getattr(self, f"_{action}")(self._runs[instance], value)

    async def _receive(self, key: str) -> None:
        self._messages += 1
        inbound = Inbound(split_session_key(key)[1], str(self._messages), Sender("ada", "Ada"), "hi")
        await self._store.inbox.receive(inbound, "hi", key, self._messages)

    async def _drain(self, run: str, _: object) -> None:
        await self._store.runs.start_draining(run)

    async def _end(self, run: str, _: object) -> None:
        await self._store.runs.end(run)

    async def _claim(self, run: str, key: str) -> None:
        await self._store.turns.claim(key, run, 1)

    async def _finish(self, run: str, key: str) -> None:
        turn = await self._store.turns.current(key)
        if turn is not None and turn.state is TurnState.RUNNING:
            reply = OutboxReply(split_session_key(key)[1], turn.id, ("done",))
            await self._store.turns.append(turn, [TurnFinished("done")], 1, replies=[reply])

    async def _interrupt(self, run: str, key: str) -> None:
        turn = await self._store.turns.current(key)
        if turn is not None and turn.state is TurnState.RUNNING:
            await self._store.turns.append(turn, [TurnInterrupted("shutdown_timeout")], 1)

    async def _beat(self, run: str, _: object) -> None:
        for lost in await self._store.turns.lost(run):
            await self._store.turns.take_over(lost.turn.id, lost.turn.key, "lease_lost", run, 1)

    async def _send(self, run: str, _: object) -> None:
        for row in await self._store.outbox.lane_heads(run, PLATFORMS):
            if await self._store.outbox.start_sending(row, run, 1):
                await self._store.outbox.record_sent(row, "receipt", 1)

    async def check(self) -> None:
        """Hold the laws: a living holder can serve its chat, and whoever can serve a lost turn is offered it."""
        living = {run.id: run for run in await self._store.run_services.living_runs()}
        leases = await self._store.database.read(lambda tx: tx.all("SELECT key, run FROM leases"))
        for key, holder in leases:
            assert holder not in living or _can_serve(living[holder], key), f"{key} is held by {living[holder]}"
        held: dict[str, str | None] = dict(leases)
        for key in KEYS:
            turn = await self._store.turns.current(key)
            if turn is None or held[key] in living:
                continue
            for run in (each for each in living.values() if _can_serve(each, key)):
                offered = [lost.turn.key for lost in await self._store.turns.lost(run.id)]
                assert key in offered, f"nobody is told of {key}"


def _can_serve(run: LivingRun, key: str) -> bool:
    agent, address = split_session_key(key)
    return run.can_serve(address.platform, agent)


@pytest.fixture(scope="module")
def model_url(postgres_server: object) -> Iterator[str]:
    from support.postgres import PostgresServer

    assert isinstance(postgres_server, PostgresServer)
    yield postgres_server.create_database("run_services_model")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(actions, min_size=5, max_size=30))
def test_b160_no_chat_is_held_by_a_run_that_cannot_serve_it(
    model_url: str, tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, object]]
) -> None:
    async def walk() -> None:
        _empty(model_url)
        database = await open_database(model_url, home=tmp_path_factory.mktemp("home"))
        try:
            gateways = GatewayWalk(Store(database))
            for action, instance, value in steps:
                await gateways.act(action, instance, value)
                await gateways.check()
        finally:
            await database.close()

    asyncio.run(walk())


def _empty(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("SET session_replication_role = replica")
        for (table,) in connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        ).fetchall():
            if table != "alembic_version":
                connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table)))

"""Runs a drill of several gateways on one PostgreSQL: people write, one fault comes, the others go on."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from perdure.config import Settings
from perdure.core import texts
from perdure.core.address import split_session_key
from perdure.errors import PerdureError
from perdure.store.backends.drill_database import DrillDatabase, server_address, through_port
from perdure.testing.drill.base import BaseDrill, DrillStuck
from perdure.testing.drill.findings import Audit
from perdure.testing.drill.group_faults import OF_THE_DATABASE, GroupFault
from perdure.testing.drill.group_member import POLL_SECONDS, GroupMember, MemberSpec
from perdure.testing.drill.people import SilenceWatch
from perdure.testing.drill.points import Point
from perdure.testing.drill.report import Report
from perdure.testing.drill.scenarios import PLATFORMS, DrillChat, chats_of_round
from perdure.testing.drill.settings import group_settings, may_give_up
from perdure.testing.drill.store_proxy import StoreProxy
from perdure.testing.simulated_platform import SimulatedPlatform

LONGER_THAN_A_LEASE = 1.3  # leases that an outage and a freeze last
CUTS_PER_ROUND = 6
MAX_CHUNK = 60  # chunks to the server until a connection is cut
PATIENCE_SECONDS = 30.0  # without a sign of work


class GroupDrill(BaseDrill):
    """Gateways with homes of their own on one empty PostgreSQL database; the last one lacks a platform."""

    def __init__(
        self,
        settings: Settings,
        faults: Sequence[GroupFault],
        *,
        gateways: int,
        store: str,
        seed: int | None = None,
        gateway: str = "",
        patience: float = PATIENCE_SECONDS,
        killed: Callable[[], None] = lambda: None,
    ) -> None:
        """`store` is the URL of the database; `patience` is the longest pause beyond that of a take-over."""
        self._lease = settings.store.lease
        # A take-over needs a lease and a few heartbeats, and waits for what may come back.
        longest = patience + 3 * self._lease
        super().__init__(settings, seed=seed, gateway=gateway, patience=longest, killed=killed)
        self._faults = faults
        self._store_url = store
        self._database = DrillDatabase(store)
        self._proxy = StoreProxy(*server_address(store))
        self._chance = random.Random(seed)  # noqa: S311 reason: nothing is secret about it
        homes = [self._home / f"home-{number}" for number in range(gateways)]
        self._homes = homes
        self._members: list[GroupMember] = []
        self._audit = Audit(store, homes, self._people, may_give_up=may_give_up(settings))
        self._silence = SilenceWatch(self._people)
        self._chats: list[DrillChat] = []  # of this round
        self._fault: GroupFault | None = None  # of this round
        self._made: Counter[str] = Counter()  # faults by kind
        self._stranded: list[str] = []
        self._left_out: list[str] = []

    # ── the beginning and the end ───────────────────────────────────────────────────────────────────────────

    async def _open(self) -> None:
        await asyncio.to_thread(self._database.check_empty)
        if not await asyncio.to_thread(self._database.may_set_read_only):
            self._left_out.append(texts.cli.DRILL_READ_ONLY_LEFT_OUT)
            self._faults = [fault for fault in self._faults if fault.kind != "read_only"]
        await self._proxy.open()
        settings = group_settings(self._user_settings, through_port(self._store_url, self._proxy.port))
        for number, home in enumerate(self._homes):
            spec = MemberSpec(number, home, settings, self._gateway_factory, self._user_settings.home)
            self._members.append(GroupMember(spec, self._platforms_of(number), len(self._homes)))
            await self._members[-1].open()

    def _platforms_of(self, number: int) -> dict[str, SimulatedPlatform]:
        lacking = list(PLATFORMS)[-1] if number == len(self._homes) - 1 else None
        return {name: platform for name, platform in self._platforms.items() if name != lacking}

    async def _close(self) -> None:
        for member in self._members:
            await member.close()
        await self._proxy.close()
        await self._audit.close()

    async def run(self) -> Report:
        """Run the drill and report. The database is emptied again, unless the drill failed."""
        report = await super().run()
        if not report.failed:
            await asyncio.to_thread(self._database.remove_tables)
        return report

    def _points_reached(self) -> list[str]:
        return [str(fault) for fault in self._faults[: self._made.total()]]

    def _own_findings(self) -> dict[str, list[str]]:
        return {"stranded": self._stranded}

    async def _own_facts(self) -> dict[str, Any]:
        return {
            "gateways": len(self._members),
            "faults": dict(self._made),
            "stayed": await self._audit.stayed(),
            "silence": round(self._silence.longest, 2),
            "silence_at": self._silence.where,
            "left_out": self._left_out,
        }

    # ── rounds ──────────────────────────────────────────────────────────────────────────────────────────────

    async def _run_rounds(self) -> None:
        for member in self._members:  # one after the other: the first makes the tables
            await member.start(0)
            await member.wait_until_ready(self._patience)
        await self._audit.open()
        for number, fault in enumerate(self._faults, 1):
            try:
                await self._run_round(chats_of_round(2 * number - 1) + chats_of_round(2 * number), fault)
            except DrillStuck:
                self._is_stuck = True
                return

    async def _run_round(self, new: list[DrillChat], fault: GroupFault) -> None:
        """Hold conversations, do harm, let the others go on, and put everything right again."""
        self._chats, self._fault = new, fault
        self._audit.begin_round(new, [fault])
        self._people.write_first(new)
        harm = self._harm_database if fault.kind in OF_THE_DATABASE else self._harm_gateway
        await harm(fault)
        self._made[fault.kind] += 1
        began = time.monotonic()
        await self._wait_until(lambda: False)
        self._answered_seconds.append(time.monotonic() - began)
        await self._audit.end_round(new)
        self._notify_killed()

    async def _harm_gateway(self, fault: GroupFault) -> None:
        member = self._members[fault.gateway]
        if fault.at_store_call:
            member.arm(Point("store", fault.nth, fault.after))
            self._at_rest += await self._wait_until(lambda: member.is_over)
            await member.kill()
            self._kills += 1
        else:
            await self._wait_for_signs(fault.nth)
            if fault.kind == "freeze":
                member.freeze()
            else:
                await member.stop()
        await self._audit.note_kill()
        self._people.write_late(self._chats)
        if fault.kind in ("kill", "stop", "freeze"):
            await self._wait_for_others()
        await self._bring_back(member, fault)

    async def _bring_back(self, member: GroupMember, fault: GroupFault) -> None:
        if fault.kind == "freeze":
            await self._wait_until_dead(member)
            member.thaw()
        else:
            await member.start(self._kills)
        ready = await member.wait_until_ready(self._patience)
        if fault.at_store_call:
            self._ready_seconds.append(ready)

    async def _harm_database(self, fault: GroupFault) -> None:
        await self._wait_for_signs(fault.nth)
        harms: dict[str, Callable[[], Awaitable[None]]] = {
            "outage": self._outage,
            "stall": self._stall,
            "read_only": self._read_only,
            "cut": self._cut_connections,
        }
        await harms[fault.kind]()

    async def _outage(self) -> None:
        self._proxy.go_away()
        await self._outlast_a_lease()
        self._proxy.come_back()

    async def _stall(self) -> None:
        self._proxy.stall()
        await self._outlast_a_lease()
        self._proxy.come_back()

    async def _read_only(self) -> None:
        await asyncio.to_thread(self._database.set_read_only, True)
        self._proxy.cut()  # only new sessions refuse writes
        await self._outlast_a_lease()
        await asyncio.to_thread(self._database.set_read_only, False)
        self._proxy.cut()

    async def _outlast_a_lease(self) -> None:
        self._people.write_late(self._chats)
        ends = time.monotonic() + LONGER_THAN_A_LEASE * self._lease
        while time.monotonic() < ends:
            await self._look()

    async def _cut_connections(self) -> None:
        self._people.write_late(self._chats)
        self._proxy.cut()
        for _ in range(CUTS_PER_ROUND):
            self._proxy.cut_at(self._chance.randint(1, MAX_CHUNK), after=self._chance.random() < 0.5)
            await self._wait_until(lambda: self._proxy.has_cut)

    # ── waiting ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _look(self) -> None:
        """Let people react, and see that no gateway has ended by itself."""
        await asyncio.sleep(POLL_SECONDS)
        self._people.react()
        self._silence.look(self._chats, time.monotonic(), self._fault)
        for member in self._members:
            if member.is_over and not member.is_away:
                raise PerdureError(f"gateway {member.number} ended by itself; its log is {member.log}")

    def _signs(self) -> int:
        return self._people.activity_count() + self._audit.traces.started_count()

    async def _wait_for_signs(self, count: int) -> None:
        before = self._signs()
        self._at_rest += await self._wait_until(lambda: self._signs() - before >= count)

    async def _wait_until(self, reached: Callable[[], bool]) -> bool:
        """Wait until the probe holds, or nothing is left to do (True)."""
        return await self._wait(reached, self._audit.is_quiet)

    async def _wait(self, reached: Callable[[], bool], is_quiet: Callable[[], Awaitable[bool]]) -> bool:
        signs, last = -1, time.monotonic()
        while not reached():
            await self._look()
            if await is_quiet():
                return True
            if (seen := self._signs()) != signs:
                signs, last = seen, time.monotonic()
            elif time.monotonic() - last > self._patience:
                raise DrillStuck
        return False

    async def _wait_for_others(self) -> None:
        """Wait until those that are left have done all that they can; what they leave alone is stranded."""
        try:
            await self._wait(lambda: False, self._is_quiet_without_those_away)
        except DrillStuck:
            self._stranded += [f"{key} was left alone: {self._fault}" for key in await self._left_alone()]

    async def _is_quiet_without_those_away(self) -> bool:
        unread = {name for name, platform in self._platforms.items() if platform.pending()}
        return not (unread & self._served_platforms()) and not await self._left_alone()

    async def _left_alone(self) -> list[str]:
        """Return the chats in which something is left to do that a gateway could do now."""
        served = self._served_platforms()
        keys = await self._audit.waiting_keys()
        return [key for key in keys if split_session_key(key)[1].platform in served]

    def _served_platforms(self) -> set[str]:
        return {name for member in self._members if not member.is_away for name in member.platforms}

    async def _wait_until_dead(self, member: GroupMember) -> None:
        """Wait until a frozen gateway was declared dead."""
        instance, began = member.instance, time.monotonic()
        while instance in await self._audit.living_instances():
            await self._look()
            if time.monotonic() - began > self._patience:
                raise PerdureError(f"gateway {member.number} was frozen, and nobody declared it dead")

"""Chooses which turns of dead gateways this one takes over now, so that several gateways share them."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.core.address import parent_session_key, split_session_key
from perdure.core.handover import Taker, choose_taker
from perdure.runtime.gateway_run import GatewayRun
from perdure.store.run_services import LivingRun
from perdure.store.turns import LostTurn

MAX_READ = 2_000  # lost turns that one look reads
MAX_TAKEN = 200  # turns of other gateways that one look takes over: a survivor does not take everything at once
PATIENCE_LOOKS = 2  # after so many looks, a turn is taken by whoever sees it, though it is another one's share


class LostTurns:
    """The turns of dead runs that this run can serve, and how often it has seen each of them."""

    def __init__(self, run: GatewayRun) -> None:
        self._run = run
        self._looks: dict[str, int] = {}  # by turn

    async def next_share(self) -> list[LostTurn]:
        """Return the lost turns that this run takes over now.

        Those that the same gateway had before it was started again are always all among them.
        """
        store = self._run.store
        if store.database.exclusive:
            return await store.turns.lost(self._run.id)
        lost = await store.turns.lost(self._run.id, MAX_READ)
        if not lost:
            self._looks = {}
            return []
        runs = await store.run_services.living_runs()
        instance = next((run.instance for run in runs if run.id == self._run.id), None)
        self._looks = {each.turn.id: self._looks.get(each.turn.id, -1) + 1 for each in lost}
        mine = [each for each in lost if self._is_ours(each, runs)]
        own = [each for each in mine if each.instance == instance]
        return own + [each for each in mine if each.instance != instance][:MAX_TAKEN]

    def _is_ours(self, lost: LostTurn, runs: Sequence[LivingRun]) -> bool:
        if self._looks[lost.turn.id] >= PATIENCE_LOOKS:
            return True
        agent, address = split_session_key(parent_session_key(lost.turn.key))
        takers = [
            Taker(run.id, run.instance)
            for run in runs
            if not run.draining and run.can_serve(address.platform, agent)
        ]
        return choose_taker(lost.turn.key, lost.instance, takers) == self._run.id

"""`/goal`: what a session works towards by itself. That it goes on is seen by whoever claims its next turn."""

from __future__ import annotations

from perdure.core import notes
from perdure.core.messages import Inbound
from perdure.store.api import Store
from perdure.store.goals import Goal, end_goal, set_goal
from perdure.store.ids import Clock
from perdure.store.orders import Order


class GoalCommand:
    """Sets, shows and ends the goal of a session."""

    def __init__(self, store: Store, budget: int, clock: Clock) -> None:
        self._store = store
        self._budget = budget
        self._clock = clock

    async def run(self, order: Order, rest: str) -> None:
        if not rest:
            goal = await self._store.goals.of_key(order.key)
            text = notes.NO_GOAL if goal is None else _told(goal)
            await self._store.orders.obey(order, lambda _: None, lambda _: text, self._clock())
        elif rest.lower() == "off":
            await self._store.orders.obey(order, end_goal(order.key), notes.goal_ended, self._clock())
        else:
            await self._set(order, rest)

    async def _set(self, order: Order, text: str) -> None:
        now, said = self._clock(), Inbound(order.address, order.message, order.sender, text)
        setting = set_goal(self._store.ids, order.key, said, self._budget, now)
        await self._store.orders.obey(order, setting, lambda busy: notes.goal_set(self._budget, busy=busy), now)

    async def lines(self, key: str) -> list[str]:
        """What `/status` tells of a goal that may go on."""
        goal = await self._store.goals.of_key(key)
        return [_told(goal)] if goal is not None and goal.state == "active" else []


def _told(goal: Goal) -> str:
    return notes.goal(goal.text, goal.state, goal.turns, goal.budget)

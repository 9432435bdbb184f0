"""`/goal`: sets, shows and ends the goal of a session. Whoever claims the next turn sees that the goal goes on."""

from __future__ import annotations

from perdure.core import texts
from perdure.core.messages import Inbound
from perdure.core.states import GoalState
from perdure.runtime.gateway_run import GatewayRun
from perdure.store.chat_commands import ChatCommand
from perdure.store.goals import Goal, end_goal, set_goal


class GoalCommand:
    """Sets, shows and ends the goal of a session."""

    def __init__(self, run: GatewayRun, budget: int) -> None:
        self._store = run.store
        self._clock = run.clocks.wall
        self._budget = budget  # turns that a goal may take

    async def run(self, command: ChatCommand, arguments: str) -> None:
        if not arguments:
            goal = await self._store.goals.of_key(command.key)
            text = texts.chat_commands.NO_GOAL if goal is None else _goal_line(goal)
            await self._store.chat_commands.answer(command, text, self._clock())
        elif arguments.lower() == "off":
            await self._store.chat_commands.execute(
                command, end_goal(command.key), texts.chat_commands.goal_ended, self._clock()
            )
        else:
            await self._set(command, arguments)

    async def _set(self, command: ChatCommand, text: str) -> None:
        now, said = self._clock(), Inbound(command.address, command.message, command.sender, text)
        setting = set_goal(command.key, said, self._budget)
        await self._store.chat_commands.execute(
            command, setting, lambda busy: texts.chat_commands.goal_started(self._budget, busy=busy), now
        )

    async def status_lines(self, key: str) -> list[str]:
        """Return the line of `/status` about an active goal."""
        goal = await self._store.goals.of_key(key)
        return [_goal_line(goal)] if goal is not None and goal.state is GoalState.ACTIVE else []


def _goal_line(goal: Goal) -> str:
    return texts.chat_commands.goal_status(goal.text, goal.state, goal.turns, goal.budget)

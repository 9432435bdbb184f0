"""Commands that act on a session: `/stop`, `/new`, `/resume`, `/drop`, `/undo`, `/retry`, `/approve`, `/deny`."""

from __future__ import annotations

from collections.abc import Container

from perdure.core import texts
from perdure.core.address import background_number
from perdure.core.messages import Inbound
from perdure.core.states import GoalState
from perdure.runtime.commands.spec import GatewayControl
from perdure.runtime.gateway_run import GatewayRun
from perdure.runtime.runner import TurnRunner
from perdure.store import answers, session_verbs
from perdure.store.authorisation import Authorisation
from perdure.store.chat_commands import ChatCommand
from perdure.store.goals import Goal, end_goal, set_goal
from perdure.store.ids import is_before
from perdure.store.runs import request_restart
from perdure.store.undo import UndoResult, retry_turn, undo_turn

TURN_ID_PREFIX = "t_"  # how the id of a turn begins, and that of a session does not


class SessionCommands:
    """Ends, renews and resumes the session of a chat, or takes its last turn back."""

    def __init__(self, run: GatewayRun, runner: TurnRunner, authorisation: Authorisation) -> None:
        self._run = run.id
        self._commands = run.store.chat_commands
        self._clock = run.clocks.wall
        self._runner = runner
        self._authorisation = authorisation

    async def stop(self, command: ChatCommand, arguments: str) -> None:
        if arguments.lower() not in ("", "all"):
            await self._commands.answer(
                command, texts.chat_commands.usage("/stop [all]", arguments), self._clock()
            )
            return
        stop = session_verbs.stop(
            command.key, _target_turn(command), everything=bool(arguments), before=command.position
        )
        done = await self._commands.execute(
            command,
            stop,
            lambda s: texts.chat_commands.stopped(s.turn, s.waiting, s.dropped, s.withdrawn),
            self._clock(),
        )
        self._stop_attempt(done.turn if done else None)

    async def new(self, command: ChatCommand, _: str) -> None:
        renew = session_verbs.renew(command.key, before=command.position)
        done = await self._commands.execute(
            command, renew, lambda r: texts.chat_commands.new_conversation(r.turn, r.dropped), self._clock()
        )
        self._stop_attempt(done.turn if done else None)

    async def resume(self, command: ChatCommand, arguments: str) -> None:
        request = Inbound(command.address, f"{command.message}.wish", command.sender, "")
        names_turn = arguments.startswith(TURN_ID_PREFIX)
        resume = session_verbs.resume(
            command.key,
            self._run,
            request,
            session="" if names_turn else arguments,
            bound=arguments if names_turn else _target_turn(command),
            may_take=lambda tx, there: self._authorisation.may_reach(
                tx, command.key, there, command.sender, "command"
            ),
        )
        await self._commands.execute(
            command, resume, lambda resumed: texts.chat_commands.RESUME_ANSWERS[resumed.outcome], self._clock()
        )

    async def drop(self, command: ChatCommand, arguments: str) -> None:
        if arguments and not arguments.startswith(TURN_ID_PREFIX):
            await self._commands.answer(command, texts.chat_commands.usage("/drop [ID]", arguments), self._clock())
            return
        drop = session_verbs.drop(command.key, bound=arguments or _target_turn(command))
        done = await self._commands.execute(command, drop, _drop_text, self._clock())
        self._stop_attempt(done.turn if done else None)

    def _stop_attempt(self, turn: str | None) -> None:
        """Stop the attempt at a turn that a command has ended."""
        if turn:
            self._runner.stop_attempt(turn)

    async def undo(self, command: ChatCommand, _: str) -> None:
        undo = undo_turn(command.key, command.sender, before=command.position)
        await self._commands.execute(command, undo, _undo_text, self._clock())

    async def retry(self, command: ChatCommand, _: str) -> None:
        retry = retry_turn(
            command.key,
            command.sender,
            command=command.id,
            message=command.message,
            before=command.position,
            may_join=self._authorisation.may_join,
        )
        await self._commands.execute(command, retry, _retry_text, self._clock())


class ApprovalCommands:
    """Approves or denies a call, by the name of its approval or by the turn that waits."""

    def __init__(self, run: GatewayRun) -> None:
        self._commands = run.store.chat_commands
        self._clock = run.clocks.wall

    async def approve(self, command: ChatCommand, arguments: str) -> None:
        await self._decide(command, arguments, "/approve [ID]", approve=True)

    async def deny(self, command: ChatCommand, arguments: str) -> None:
        await self._decide(command, arguments, "/deny [ID]", approve=False)

    async def _decide(self, command: ChatCommand, approval: str, usage: str, *, approve: bool) -> None:
        if approval and not approval.startswith(TURN_ID_PREFIX):
            await self._commands.answer(command, texts.chat_commands.usage(usage, approval), self._clock())
            return
        decide = answers.decide_approval(
            command.key,
            command.sender,
            answers.AnswerSource(command.address.platform, command.message),
            approve=approve,
            name=approval,
            bound=_target_turn(command),
        )
        await self._commands.execute(
            command, decide, lambda outcome: texts.questions.DECISION_ANSWERS[outcome], self._clock()
        )


def _target_turn(command: ChatCommand) -> str | None:
    """Return the turn that a command may act on; "none" if no turn was open when the command was stored.

    A background session is named by its number, so a command to it means any turn of it: None.
    """
    return None if background_number(command.key) is not None else command.bound or "none"


def _drop_text(dropped: session_verbs.DropResult) -> str:
    if dropped.over:
        return texts.chat_commands.TURN_OVER
    return texts.chat_commands.dropped(dropped.turn is not None)


def _undo_text(undone: UndoResult) -> str:
    if undone.outcome != "done":
        return texts.chat_commands.UNDO_REFUSALS[undone.outcome].format(command="undo")
    return texts.chat_commands.undone(
        undone.words, acted=undone.acted, still_running=undone.process_running, goal=undone.goal
    )


def _retry_text(undone: UndoResult) -> str:
    if undone.outcome != "done":
        return texts.chat_commands.UNDO_REFUSALS[undone.outcome].format(command="retry")
    return texts.chat_commands.retried(undone.words, acted=undone.acted, still_running=undone.process_running)


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


class RestartCommand:
    """Restarts the gateway, once per request."""

    def __init__(self, run: GatewayRun, control: GatewayControl, stored_before_start: Container[str]) -> None:
        """`stored_before_start` are the ids of the commands that waited when this run began."""
        self._run = run.id
        self._commands = run.store.chat_commands
        self._clock = run.clocks.wall
        self._control = control
        self._stored_before_start = stored_before_start

    async def restart(self, command: ChatCommand, _: str) -> None:
        """Restart the gateway; a request from before this start has been fulfilled by it, whatever caused it."""
        if command.id in self._stored_before_start or is_before(command.id, self._run):
            await self._commands.answer(command, texts.recovery.RESTARTED_SINCE, self._clock())
        elif self._control.stopping is not None:
            await self._commands.answer(command, texts.recovery.RESTART_UNDER_WAY, self._clock())
        else:
            request = request_restart(self._run, command.key)
            done = await self._commands.execute(
                command, request, lambda _: texts.recovery.RESTARTING, self._clock()
            )
            if done is not None:
                self._control.restart()

"""Slash commands: one registry, from which /help, menus and docs are made.

A command works at any time and never reaches the model. It is carried out once, in the same transaction as its
answer, and acts on the turn that was current when it was stored, not on whatever runs by the time it is read.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from perdure.containment import contain
from perdure.core import texts
from perdure.core.address import background_number
from perdure.core.commands import ParsedCommand, nearest_command, read_command
from perdure.core.messages import Inbound
from perdure.core.queue import QueueRules
from perdure.errors import NewerEntry, Unavailable
from perdure.logs import Log
from perdure.runtime.access import Access, Right
from perdure.runtime.commands.background import BACKGROUND_USAGE, BackgroundCommand
from perdure.runtime.commands.goal import GoalCommand
from perdure.runtime.commands.inspect import InspectCommands
from perdure.runtime.commands.queue import QueueCommand
from perdure.runtime.commands.spec import CommandSpec, GatewayControl
from perdure.runtime.commands.undo import UndoCommand
from perdure.runtime.gateway_run import GatewayRun
from perdure.runtime.runner import TurnRunner
from perdure.runtime.tasks import FailureLog
from perdure.store import answers, session_verbs
from perdure.store.chat_commands import ChatCommand
from perdure.store.ids import is_before
from perdure.store.runs import request_restart

log = Log("commands")

TURN_ID_PREFIX = "t_"  # how the id of a turn begins, and that of a session does not


class CommandLimits(Struct, frozen=True):
    """What commands are held to, by the configuration."""

    goal_turns: int  # turns that a goal may take
    max_background_sessions: int  # in one chat
    rules: QueueRules


class CommandLoop:
    """Carries out the commands that wait in the inbox."""

    def __init__(
        self,
        run: GatewayRun,
        runner: TurnRunner,
        control: GatewayControl,
        access: Access,
        limits: CommandLimits,
    ) -> None:
        self._run = run
        self._store = run.store
        self._clock = run.clocks.wall
        self._runner = runner
        self._control = control
        self._access = access
        self._stored_before_start: set[str] = set()  # orders that were stored before this start
        self._failures = FailureLog(log)
        self._goals = GoalCommand(run, limits.goal_turns)
        self._queue = QueueCommand(run, runner, limits.rules)
        self._undo = UndoCommand(run, access)
        self._background = BackgroundCommand(run, limits.max_background_sessions, access, self._run_by_name)
        status_lines = (self._queue.status_lines, self._goals.status_lines, self._background.status_lines)
        self._inspect = InspectCommands(run, control, access, status_lines, self._reply)
        self.registry = {spec.name: spec for spec in self._all()}
        self._inspect.specs = tuple(self.registry.values())

    def _all(self) -> list[CommandSpec]:
        return [
            CommandSpec("help", "/help", "list the commands", self._inspect.help, "look"),
            CommandSpec("status", "/status", "say what is going on here", self._inspect.status, "look"),
            CommandSpec(
                "whoami", "/whoami", "say who you are here, and what you may do", self._inspect.whoami, "look"
            ),
            CommandSpec(
                "stop", "/stop [all]", "end what is running; with `all`, drop what waits too", self._stop, "end"
            ),
            CommandSpec("new", "/new", "begin a fresh conversation", self._new),
            CommandSpec("reset", "/reset", "the same as /new", self._new),
            CommandSpec("resume", "/resume [ID]", "continue what was interrupted or suspended", self._resume),
            CommandSpec("drop", "/drop [ID]", "give up what was interrupted", self._drop),
            CommandSpec(
                "undo", "/undo", "take the last turn back: I forget it, what it did stays done", self._undo.undo
            ),
            CommandSpec("retry", "/retry", "take the last turn back, and ask the same again", self._undo.retry),
            CommandSpec(
                "approve", "/approve [ID]", "let the call run that waits for it", self._approve, "approve"
            ),
            CommandSpec("deny", "/deny [ID]", "do not let it run", self._deny, "approve"),
            CommandSpec(
                "sessions", "/sessions", "list the conversations of this chat", self._inspect.sessions, "look"
            ),
            CommandSpec("why", "/why", "explain what became of the last turn, and why", self._inspect.why, "look"),
            CommandSpec("goal", "/goal [TEXT | off]", "set, show or end what to work towards", self._goals.run),
            CommandSpec(
                "queue",
                texts.queue.USAGE,
                "show or switch what messages do while I work",
                self._queue.queue,
                "look",
            ),
            CommandSpec("steer", texts.queue.STEER_USAGE, "let what is running take this in", self._queue.steer),
            CommandSpec(
                "background",
                BACKGROUND_USAGE,
                "begin work beside the chat, list it or end it",
                self._background.run,
            ),
            CommandSpec("restart", "/restart", "restart the gateway", self._restart, "restart"),
        ]

    async def catch_up(self) -> None:
        """Obey what was stored before this start: a turn that somebody stopped must not go on first."""
        waiting = await self._store.chat_commands.waiting(self._run.id)
        self._stored_before_start = {order.id for order in waiting}
        for order in waiting:
            await self._run_or_report_failure(order)

    async def run(self) -> None:
        while True:
            await self._run.wakeups.commands.wait()
            await self._failures.contain("commands_not_read", self._run_waiting())

    async def _run_waiting(self) -> None:
        for order in await self._store.chat_commands.waiting(self._run.id):
            await self._run_or_report_failure(order)

    async def _run_or_report_failure(self, command: ChatCommand) -> None:
        """Carry out one command. While the store is away it waits; any other failure is its answer."""
        defects: list[BaseException] = []

        def report(error: BaseException) -> None:
            self._failures.report("command_failed", error, key=command.key, command=command.id)
            defects.extend([] if isinstance(error, Unavailable) else [error])

        await contain(self._authorise_and_run(command), report)
        for error in defects:
            text = texts.turns.NEWER_ENTRY if isinstance(error, NewerEntry) else texts.chat_commands.FAILED
            await self._failures.contain("not_answered", self._reply(command, text), command=command.id)
            self._run.wakeups.wake_delivery(command.key)

    async def _authorise_and_run(self, chat_command: ChatCommand) -> None:
        """Carry out a command. Its right is asked for in the transaction that does what it says."""
        words = read_command(chat_command.text) or ParsedCommand("", chat_command.text)
        command = self.registry.get(words.name)
        longest = self._run.connections.max_length(chat_command.address.platform)
        chat_command = self._with_right(
            replace(chat_command, longest=longest), command.right if command else "talk"
        )
        log.info("command", name=words.name, key=chat_command.key, command=chat_command.id)
        if command is None:
            await self._reply(
                chat_command, texts.chat_commands.unknown(words.name, nearest_command(words.name, self.registry))
            )
        elif words.arguments and not command.takes_words:
            await self._reply(chat_command, texts.chat_commands.usage(command.usage, words.arguments))
        else:
            await command.run(chat_command, words.arguments)
        self._run.wakeups.wake_delivery(chat_command.key)
        self._run.wakeups.wake_runner(chat_command.key)  # messages may wait behind it

    async def _run_by_name(self, chat_command: ChatCommand, name: str, arguments: str) -> None:
        """Carry out another command where this one leads."""
        command = self.registry[name]
        await command.run(self._with_right(chat_command, command.right), arguments)

    def _with_right(self, command: ChatCommand, right: Right) -> ChatCommand:
        """The command as one that needs a right in its conversation."""
        return replace(command, refusal=self._access.command_refusal(command.key, command.sender, right))

    async def _reply(self, command: ChatCommand, text: str) -> None:
        """Answer, and do nothing else."""
        await self._store.chat_commands.execute(command, lambda _: None, lambda _: text, self._clock())

    # ── commands that act ───────────────────────────────────────────────────────────────────────────────────

    async def _stop(self, command: ChatCommand, arguments: str) -> None:
        if arguments.lower() not in ("", "all"):
            await self._reply(command, texts.chat_commands.usage("/stop [all]", arguments))
            return
        now, everything = self._clock(), bool(arguments)
        stop = session_verbs.stop(
            command.key, _target_turn(command), everything=everything, before=command.position
        )
        done = await self._store.chat_commands.execute(
            command, stop, lambda s: texts.chat_commands.stopped(s.turn, s.waiting, s.dropped, s.withdrawn), now
        )
        if done and done.turn:
            self._runner.stop_attempt(done.turn)

    async def _new(self, command: ChatCommand, _: str) -> None:
        now = self._clock()
        renew = session_verbs.renew(command.key, before=command.position)
        done = await self._store.chat_commands.execute(
            command, renew, lambda r: texts.chat_commands.new_conversation(r.turn, r.dropped), now
        )
        if done and done.turn:
            self._runner.stop_attempt(done.turn)

    async def _resume(self, command: ChatCommand, arguments: str) -> None:
        now = self._clock()
        wish = Inbound(command.address, f"{command.message}.wish", command.sender, "")
        session, bound = (
            ("", arguments) if arguments.startswith(TURN_ID_PREFIX) else (arguments, _target_turn(command))
        )
        resume = session_verbs.resume(
            command.key,
            self._run.id,
            wish,
            session=session,
            bound=bound,
            may_take=lambda tx, there: self._access.may_reach(tx, command.key, there, command.sender, "command"),
        )
        await self._store.chat_commands.execute(
            command, resume, lambda resumed: texts.chat_commands.RESUME_ANSWERS[resumed.outcome], now
        )

    async def _drop(self, command: ChatCommand, arguments: str) -> None:
        if arguments and not arguments.startswith(TURN_ID_PREFIX):
            await self._reply(command, texts.chat_commands.usage("/drop [ID]", arguments))
            return
        now = self._clock()
        drop = session_verbs.drop(command.key, bound=arguments or _target_turn(command))
        done = await self._store.chat_commands.execute(
            command,
            drop,
            lambda done: (
                texts.chat_commands.TURN_OVER if done.over else texts.chat_commands.dropped(done.turn is not None)
            ),
            now,
        )
        if done and done.turn:
            self._runner.stop_attempt(done.turn)

    async def _approve(self, command: ChatCommand, arguments: str) -> None:
        await self._decide_approval(command, arguments, approve=True)

    async def _deny(self, command: ChatCommand, arguments: str) -> None:
        await self._decide_approval(command, arguments, approve=False)

    async def _decide_approval(self, command: ChatCommand, approval: str, *, approve: bool) -> None:
        if approval and not approval.startswith(TURN_ID_PREFIX):
            await self._reply(
                command, texts.chat_commands.usage(self.registry["approve" if approve else "deny"].usage, approval)
            )
            return
        now = self._clock()
        judge = answers.decide_approval(
            command.key,
            command.sender,
            approve=approve,
            name=approval,
            bound=_target_turn(command),
        )
        await self._store.chat_commands.execute(
            command, judge, lambda verdict: texts.questions.DECISION_ANSWERS[verdict], now
        )

    async def _restart(self, command: ChatCommand, _: str) -> None:
        """A request from before this start was fulfilled by it, however it came about."""
        if command.id in self._stored_before_start or is_before(command.id, self._run.id):
            await self._reply(command, texts.recovery.RESTARTED_SINCE)
        elif self._control.stopping is not None:
            await self._reply(command, texts.recovery.RESTART_UNDER_WAY)
        else:
            ask = request_restart(self._run.id, command.key)
            done = await self._store.chat_commands.execute(
                command, ask, lambda _: texts.recovery.RESTARTING, self._clock()
            )
            if done is not None:
                self._control.restart()


def _target_turn(command: ChatCommand) -> str | None:
    """The turn that a command may act on. One that found no turn must not act on one that began after it.

    Work in the background is named by its number, and any turn of it is meant.
    """
    return None if background_number(command.key) is not None else command.bound or "none"

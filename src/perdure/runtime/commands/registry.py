"""The table of slash commands, from which `/help`, the menus of platforms and the docs are made."""

from __future__ import annotations

from collections.abc import Container

from msgspec import Struct

from perdure.core import texts
from perdure.core.queue import QueueRules
from perdure.runtime.access import Access
from perdure.runtime.commands.background import BACKGROUND_USAGE, BackgroundCommand, RunByName
from perdure.runtime.commands.inspect import InspectCommands
from perdure.runtime.commands.queue import QueueCommand
from perdure.runtime.commands.session import ApprovalCommands, GoalCommand, RestartCommand, SessionCommands
from perdure.runtime.commands.spec import CommandSpec, GatewayControl
from perdure.runtime.gateway_run import GatewayRun
from perdure.runtime.runner import TurnRunner


class CommandLimits(Struct, frozen=True):
    """What commands are held to, by the configuration."""

    goal_turns: int  # turns that a goal may take
    max_background_sessions: int  # in one chat
    rules: QueueRules


def command_registry(
    run: GatewayRun,
    runner: TurnRunner,
    control: GatewayControl,
    access: Access,
    limits: CommandLimits,
    *,
    run_by_name: RunByName,
    stored_before_start: Container[str],
) -> dict[str, CommandSpec]:
    """Return every command by its name, in the order in which `/help` lists them."""
    session, approval = SessionCommands(run, runner, access.authorisation), ApprovalCommands(run)
    goal = GoalCommand(run, limits.goal_turns)
    queue = QueueCommand(run, runner, limits.rules)
    background = BackgroundCommand(run, limits.max_background_sessions, access.authorisation, run_by_name)
    restart = RestartCommand(run, control, stored_before_start)
    inspect = InspectCommands(
        run, control, access, (queue.status_lines, goal.status_lines, background.status_lines)
    )
    specs = (
        CommandSpec("help", "/help", "list the commands", inspect.help, "look"),
        CommandSpec("status", "/status", "say what is going on here", inspect.status, "look"),
        CommandSpec("whoami", "/whoami", "say who you are here, and what you may do", inspect.whoami, "look"),
        CommandSpec(
            "stop", "/stop [all]", "end what is running; with `all`, drop what waits too", session.stop, "end"
        ),
        CommandSpec("new", "/new", "begin a fresh conversation", session.new),
        CommandSpec("reset", "/reset", "the same as /new", session.new),
        CommandSpec("resume", "/resume [ID]", "continue what was interrupted or suspended", session.resume),
        CommandSpec("drop", "/drop [ID]", "give up what was interrupted", session.drop),
        CommandSpec("undo", "/undo", "take the last turn back: I forget it, what it did stays done", session.undo),
        CommandSpec("retry", "/retry", "take the last turn back, and ask the same again", session.retry),
        CommandSpec("approve", "/approve [ID]", "let the call run that waits for it", approval.approve, "approve"),
        CommandSpec("deny", "/deny [ID]", "do not let it run", approval.deny, "approve"),
        CommandSpec("sessions", "/sessions", "list the conversations of this chat", inspect.sessions, "look"),
        CommandSpec("why", "/why", "explain what became of the last turn, and why", inspect.why, "look"),
        CommandSpec("goal", "/goal [TEXT | off]", "set, show or end what to work towards", goal.run),
        CommandSpec(
            "queue", texts.turns.QUEUE_USAGE, "show or switch what messages do while I work", queue.queue, "look"
        ),
        CommandSpec("steer", texts.turns.STEER_USAGE, "let what is running take this in", queue.steer),
        CommandSpec(
            "background", BACKGROUND_USAGE, "begin work beside the chat, list it or end it", background.run
        ),
        CommandSpec("restart", "/restart", "restart the gateway", restart.restart, "restart"),
    )
    inspect.specs = specs
    return {spec.name: spec for spec in specs}

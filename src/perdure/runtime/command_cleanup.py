"""Stops shell commands whose turn is over, and removes the files of old commands.

A foreground command belongs to its call. Whatever ended the turn, a person or a failure, and whoever died on the
way, the journal says that the call has its result; then nobody waits for the command, and it is stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container
from functools import partial
from pathlib import Path

from perdure.core.effects import Effect
from perdure.core.journal import CallProgress, TurnCancelled, TurnFailed, TurnView, fold
from perdure.core.states import FINAL_STATES
from perdure.logs import Log
from perdure.runtime.gateway_run import GatewayRun
from perdure.runtime.tasks import FailureLog
from perdure.tools import keeper
from perdure.tools.blocking_jobs import run_in_thread
from perdure.tools.shell import call_directory, call_key, last_call_directory

log = Log("command_cleanup")

CHECK_SECONDS = 60.0  # between two checks that nobody asked for
RECHECK_SECONDS = 5.0  # until the next check if some commands could not be read
RETENTION_MS = 7 * 86_400_000  # how long the files of a command stay after its end
STOP_GRACE_SECONDS = 5.0  # for a command to end by itself


class CommandCleanup:
    def __init__(self, run: GatewayRun, root: Path) -> None:
        self._run = run
        self._store = run.store
        self._clock = run.clocks.wall
        self._root = root
        self._failures = FailureLog(log)
        self._next_check_seconds = RECHECK_SECONDS
        self._ended_at: dict[
            str, int
        ] = {}  # directories of ended commands, and when each ended; they are not read again

    def has_running_command(self, view: TurnView) -> bool:
        """Say whether a shell command that the turn waits for still runs."""
        return any(self._is_running(call) for call in view.open_calls)

    async def run(self) -> None:
        while True:
            self._next_check_seconds = RECHECK_SECONDS
            await self._failures.contain("commands_not_checked", self._check())
            await self._run.wakeups.cleanup.wait(self._next_check_seconds)

    async def _check(self) -> None:
        known = SkippedDirectories(self._ended_at, await self._store.processes.live_directories())
        seen = await run_in_thread(partial(keeper.read_all_statuses, self._root, known))
        self._remember(seen)
        await self._stop_orphans(seen)
        await self._remove_old(seen)
        if not any(isinstance(each, keeper.CommandUnreadable) for each in seen.values()):
            self._next_check_seconds = CHECK_SECONDS

    def _remember(self, statuses: dict[str, keeper.CommandStatus]) -> None:
        """Remember ended commands: reading those of a whole week again would take long."""
        self._ended_at |= {
            name: each.ended_at for name, each in statuses.items() if isinstance(each, keeper.CommandEnded)
        }
        self._ended_at |= {
            name: 0 for name, each in statuses.items() if isinstance(each, keeper.CommandNeverStarted)
        }

    # ── ending ──────────────────────────────────────────────────────────────────────────────────────────────

    async def _stop_orphans(self, statuses: dict[str, keeper.CommandStatus]) -> None:
        places = [self._root / name for name, each in statuses.items() if await self._should_stop(name, each)]
        # All at once: a command that does not end delays no other.
        await asyncio.gather(*(self._stop_command(place) for place in places))

    async def _stop_command(self, directory: Path) -> None:
        log.info("command_stopped", place=directory.name)
        await self._failures.contain(
            "command_not_stopped", keeper.stop(directory, STOP_GRACE_SECONDS), place=directory.name
        )

    async def _should_stop(self, name: str, status: keeper.CommandStatus) -> bool:
        """Say whether to stop a command. A command whose turn cannot be read is left alone."""
        found: list[bool] = []

        async def look() -> None:
            found.append(await self._is_orphaned(name, status))

        await self._failures.contain("command_not_checked", look(), place=name)
        return any(found)

    async def _is_orphaned(self, name: str, status: keeper.CommandStatus) -> bool:
        """Say whether a command runs, or may yet be started, though no call waits for its result any more."""
        if not isinstance(status, keeper.CommandRunning | keeper.CommandUnclaimed | keeper.CommandLost):
            return False
        turn = await self._turn_of(name)
        if turn is None or await self._store.processes.in_directory(name.split("#", 1)[0]):
            return False  # it is not of this database, or is a background process
        if isinstance(
            status, keeper.CommandLost
        ):  # its call has its result already: only the end of its turn can stop it
            return status.alive and isinstance(turn.ended, TurnCancelled | TurnFailed)
        return not _awaits_result(turn, name)

    async def _turn_of(self, name: str) -> TurnView | None:
        """Return the turn of a command; None if that turn is not in this database."""
        turn = await self._store.turns.get(_call_of(name)[0])
        return fold(await self._store.journal.of_turn(turn.session, turn.id)) if turn is not None else None

    def _is_running(self, call: CallProgress) -> bool:
        if call.started is None or call.started.effect is not Effect.ATTACHED:
            return False
        seen = keeper.read_status(last_call_directory(call_directory(self._root, call.started.key)))
        # A command whose files cannot be read is not known to be dead.
        return isinstance(seen, keeper.CommandRunning | keeper.CommandUnreadable)

    # ── clearing ────────────────────────────────────────────────────────────────────────────────────────────

    async def _remove_old(self, statuses: dict[str, keeper.CommandStatus]) -> None:
        """Remove the files of old commands, except of a command whose call has yet to read its result."""
        now = self._clock()
        old = [name for name, at in self._ended_at.items() if at <= now - RETENTION_MS]
        old += [
            name
            for name, each in statuses.items()
            if isinstance(each, keeper.CommandLost | keeper.CommandUnclaimed)
        ]
        due: set[str] = set()
        for name in old:
            await self._failures.contain("command_not_checked", self._collect_removable(name, due), place=name)
        if not due:
            return
        for name in await run_in_thread(
            lambda: keeper.remove_ended(self._root, RETENTION_MS, now, keeper.AllBut(due))
        ):
            self._ended_at.pop(name, None)
            log.info("command_cleared", place=name)

    async def _collect_removable(self, name: str, removable: set[str]) -> None:
        turn = await self._turn_of(name)
        if turn is None or not _awaits_result(turn, name):
            removable.add(name)


class SkippedDirectories:
    """Directories that need no check: their command has ended, or the process watcher watches them."""

    def __init__(self, ended: Container[str], watched: Container[str]) -> None:
        self._ended = ended
        self._watched = watched

    def __contains__(self, one: object) -> bool:
        return one in self._ended or str(one).split("#", 1)[0] in self._watched


def _call_of(name: str) -> tuple[str, str]:
    """Return the turn and the call that a directory belongs to."""
    turn, _, call = call_key(Path(name)).partition(":")
    return turn, call


def _awaits_result(turn: TurnView, name: str) -> bool:
    """Say whether the call that a command belongs to has no result yet."""
    call = turn.calls.get(_call_of(name)[1])
    return turn.state not in FINAL_STATES and (call is None or call.ended is None)

"""Runs the agent of one attempt; whatever the agent raises ends its turn at most."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from perdure.agents.api import Agent
from perdure.containment import find_error, raise_uncontained
from perdure.core import texts
from perdure.errors import ModelError, NewerEntry, TurnMoved, TurnWaits
from perdure.logs import Log
from perdure.runtime.attempt import Attempt, address_of
from perdure.runtime.backoff import Backoff
from perdure.runtime.tasks import FailureLog

log = Log("agent_run")


async def run_agent(attempt: Attempt, agent_for: Callable[[str], Agent], failures: FailureLog) -> None:
    """Run the agent to the end of the attempt: its turn then has ended, waits, or belongs to somebody else."""
    try:
        await attempt.journal.load_history()
        await attempt.append_recovery_note()
        agent = agent_for(address_of(attempt.key).platform)
        await attempt.finish(await agent.run(attempt))
    except BaseException as error:  # noqa: BLE001 reason: whatever an agent does, its session must stay usable
        raise_uncontained(error)
        await _end_with_error(attempt, error, failures)
    finally:
        await attempt.display.stop()


async def fail_turn(attempt: Attempt, error: str) -> bool:
    """End the turn of an attempt as failed. False: the turn no longer belongs to this attempt."""
    try:
        await attempt.fail(error)
    except TurnMoved as moved:
        log.info("attempt_ended", turn=attempt.turn, why=moved.message)
        return False
    return True


async def _end_with_error(attempt: Attempt, error: BaseException, failures: FailureLog) -> None:
    moved = find_error(error, TurnMoved, TurnWaits)
    if moved is not None:
        log.info("attempt_ended", turn=attempt.turn, why=moved.message)
    elif isinstance(error, ModelError):
        await _fail_until_saved(attempt, error.message, failures)
    else:
        log.crash("agent_crashed", error, turn=attempt.turn)
        text = texts.turns.NEWER_ENTRY if isinstance(error, NewerEntry) else texts.turns.AGENT_CRASHED
        await _fail_until_saved(attempt, text, failures)


async def _fail_until_saved(attempt: Attempt, error: str, failures: FailureLog) -> None:
    """End the turn as failed, and retry until that is stored: a turn that nobody runs must not stay open."""
    backoff = Backoff()
    while True:
        if await failures.contain("failure_not_saved", fail_turn(attempt, error)):
            return
        await asyncio.sleep(backoff.failed())

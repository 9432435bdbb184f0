"""SQL conditions that several modules share: an open turn, a waiting message, a lease that is free or ours."""

from __future__ import annotations

from collections.abc import Iterable

from perdure.core.delivery import OPEN_DELIVERY_STATES
from perdure.core.session import SessionState
from perdure.core.states import GoalState, InboxState, ProcessState
from perdure.core.turn import OPEN_STATES


def state_in(states: Iterable[str]) -> str:
    """Return the condition that a row's `state` is one of these."""
    names = ", ".join(f"'{state}'" for state in states)
    return f"state IN ({names})"


# These are the conditions of partial indexes in schema.sql. A query for open rows repeats the condition word for
# word, even where one state would be enough: only then does SQLite use the index instead of reading every row.
TURN_IS_OPEN = state_in(OPEN_STATES)
DELIVERY_IS_OPEN = state_in(OPEN_DELIVERY_STATES)
SESSION_IS_CURRENT = f"state <> '{SessionState.CLOSED}'"
MESSAGE_WAITS = f"state = '{InboxState.WAITING}'"
GOAL_IS_ACTIVE = f"state = '{GoalState.ACTIVE}'"
PROCESS_IS_LIVE = f"state = '{ProcessState.LIVE}'"

DEAD_RUNS = "SELECT id FROM runs WHERE ended_at IS NOT NULL"


def lease_is_free_or_ours(table: str = "") -> str:
    """Return the condition that a lease, of a table by that alias, belongs to nobody, a dead run or `:run`."""
    run = f"{table}.run" if table else "run"
    return f"({run} IS NULL OR {run} = :run OR {run} IN ({DEAD_RUNS}))"

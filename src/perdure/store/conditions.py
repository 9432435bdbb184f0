"""SQL conditions that several modules share: an open turn, a waiting message, a lease that is free or ours.

`split_part` is a function of PostgreSQL; `backends/sqlite.py` brings the same to SQLite.
"""

from __future__ import annotations

from collections.abc import Iterable

from perdure.core.delivery import OPEN_DELIVERY_STATES
from perdure.core.states import OPEN_STATES, GoalState, InboxState, ProcessState, SessionState


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
DRAINING_RUNS = "SELECT id FROM runs WHERE draining = 1"


def lease_is_free_or_ours(table: str) -> str:
    """Return the condition that a lease of a table belongs to `:run`, to nobody, or to a run that lets it go.

    A dead run lets go of everything, a draining one of the chats in which no turn is open.
    """
    idle = f"NOT EXISTS (SELECT 1 FROM turns o WHERE o.key = {table}.key AND o.{TURN_IS_OPEN})"
    return (
        f"({table}.run IS NULL OR {table}.run = :run OR {table}.run IN ({DEAD_RUNS}) "
        f"OR ({table}.run IN ({DRAINING_RUNS}) AND {idle}))"
    )


def may_move(lease: str) -> str:
    """Return the condition that the files and commands of a lease do not wait for their own gateway, at `:now`.

    They wait while that gateway lives, and for a while after it was stopped in order.
    """
    return (
        f"({lease}.instance IS NULL OR {lease}.run = :run "
        f"OR {lease}.instance = (SELECT m.instance FROM runs m WHERE m.id = :run) "
        f"OR NOT (EXISTS (SELECT 1 FROM runs h WHERE h.instance = {lease}.instance AND h.ended_at IS NULL) "
        f"OR EXISTS (SELECT 1 FROM runs h WHERE h.instance = {lease}.instance AND h.back_by IS NOT NULL "
        "AND h.back_by > :now)))"
    )


# ── what a run can serve ────────────────────────────────────────────────────────────────────────────────────


ANY_AGENT = "*"  # of the only gateway of a database: whatever its agent was called before, nobody else has it


def platform_of(key: str) -> str:
    """Return the expression for the platform in a session key, written as `join_parts` writes it."""
    return f"split_part({key}, ':', 3)"


def agent_of(key: str) -> str:
    """Return the expression for the agent in a session key; a background session has the agent of its chat."""
    return f"split_part(split_part({key}, ':', 2), '~', 1)"


def has_service(lease: str, run: str = ":run") -> str:
    """Return the condition that a run has the agent and the platform of a lease; one that does not say has all."""
    platform, agent = platform_of(f"{lease}.key"), agent_of(f"{lease}.key")
    return (
        f"(EXISTS (SELECT 1 FROM run_services v WHERE v.run = {run} AND v.platform = {platform} "
        f"AND v.agent IN ('{ANY_AGENT}', {agent})) "
        f"OR EXISTS (SELECT 1 FROM runs c WHERE c.id = {run} AND c.entry_version IS NULL))"
    )


def can_read(lease: str, run: str = ":run") -> str:
    """Return the condition that a run can read the entries of the current session of a lease."""
    return (
        f"NOT EXISTS (SELECT 1 FROM sessions e, runs c WHERE e.key = {lease}.key AND e.{SESSION_IS_CURRENT} "
        f"AND c.id = {run} AND e.entry_version > c.entry_version)"
    )


def can_serve(lease: str, run: str = ":run") -> str:
    """Return the condition that a run can serve the chat of a lease: its agent, its platform, its entries."""
    return f"{has_service(lease, run)} AND {can_read(lease, run)}"

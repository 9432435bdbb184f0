"""Goals: tasks that a session pursues by itself, one turn after the other.

Whether a goal goes on is not stored but derived: its session has completed a turn, and nothing else waits. So a
goal survives a crash at any point, and a person's message goes first. The turn and its cause are written together,
in the transaction that claims the turn, and the cause's event key names one turn of one goal.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from perdure.core import texts
from perdure.core.address import split_session_key
from perdure.core.commands import GoalOutcome, goal_outcome
from perdure.core.journal import Cause, TurnFinished
from perdure.core.messages import Inbound, Sender
from perdure.core.states import GoalState, SessionState, TurnState
from perdure.core.storable_text import to_json
from perdure.store import attachments, inbox, outbox
from perdure.store.conditions import GOAL_IS_ACTIVE, MESSAGE_WAITS, TURN_IS_OPEN
from perdure.store.database import Database, Row, Transaction, Tx
from perdure.store.journal import UNDONE_TURNS
from perdure.store.outbox import OutboxReply

_COLUMNS = "g.id, g.session, g.text, g.person, g.message, g.since, g.budget, g.turns, g.state"
_GOALS_OF_KEY = (
    f"SELECT {_COLUMNS} FROM goals g JOIN sessions s ON s.id = g.session "
    f"WHERE s.key = :key AND s.state = '{SessionState.OPEN}'"
)
_ACTIVE_GOAL = f"{_GOALS_OF_KEY} AND g.{GOAL_IS_ACTIVE}"
# An undone turn does not count as completed.
_LAST_TURN_STATE = (
    "SELECT CASE WHEN EXISTS (SELECT 1 FROM journal u WHERE u.session = t.session AND u.seq > t.first_seq "
    "AND u.turn = t.id AND u.kind = 'undone') THEN 'undone' ELSE t.state END "
    "FROM turns t WHERE t.session = {session} ORDER BY t.first_seq DESC LIMIT 1"
)
# The keys whose goal goes on: its first turn begins as soon as it can, a later one after a completed one. The
# order of the joins makes SQLite read only active goals, however many sessions there are.
DUE_KEYS = (
    "SELECT s.key FROM goals g CROSS JOIN sessions s CROSS JOIN leases l "
    f"WHERE s.id = g.session AND l.key = s.key AND g.{GOAL_IS_ACTIVE} AND s.state = '{SessionState.OPEN}' "
    f"AND NOT EXISTS (SELECT 1 FROM turns b WHERE b.key = s.key AND b.{TURN_IS_OPEN}) "
    f"AND (g.turns = 0 OR ({_LAST_TURN_STATE.format(session='g.session')}) = '{TurnState.DONE}')"
)


class Goal(Struct, frozen=True):
    id: str
    session: str
    text: str
    person: Sender  # who set it
    message: str  # the platform's id of the message that set it
    since: int  # the seq of the last journal entry before the goal was set
    budget: int  # how many turns the goal may begin
    turns: int  # how many turns it has begun
    state: GoalState


class Goals:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_key(self, key: str) -> Goal | None:
        """Return the newest goal of the key's open session."""
        return await self._database.read(
            lambda tx: _find_goal(tx, f"{_GOALS_OF_KEY} ORDER BY g.id DESC LIMIT 1", key=key)
        )


def set_goal(key: str, inbound: Inbound, budget: int) -> Transaction[bool]:
    """Set the goal of the key's session instead of any other. True: a turn or a message goes first."""

    def transaction(tx: Tx) -> bool:
        session = inbox.session_for_message(tx, key)
        end_goal(key)(tx)
        last = tx.one("SELECT coalesce(max(seq), 0) FROM journal WHERE session = :session", session=session)
        tx.run(
            "INSERT INTO goals (id, session, text, person, message, since, budget, turns, state, created_at) "
            f"VALUES (:id, :session, :text, :person, :message, :since, :budget, 0, '{GoalState.ACTIVE}', :now)",
            id=tx.ids.new("goal"),
            session=session,
            text=inbound.text,
            person=to_json(inbound.sender),
            message=inbound.message,
            since=last[0] if last else 0,
            budget=budget,
            now=tx.time,
        )
        return _has_open_turn(tx, key) or inbox.count_waiting(tx, key) > 0

    return transaction


def end_goal(key: str) -> Transaction[bool]:
    """End the key's active goal. False: there is none."""

    def transaction(tx: Tx) -> bool:
        goal = _find_goal(tx, _ACTIVE_GOAL, key=key)
        return goal is not None and _close(tx, goal, GoalState.ENDED)

    return transaction


def is_active(tx: Tx, key: str) -> bool:
    """Say whether the key's session has an active goal."""
    return tx.one(_ACTIVE_GOAL, key=key) is not None


def is_due(tx: Tx, key: str) -> bool:
    """Say whether the goal goes on now: no turn is open, nothing waits, and the last turn was completed."""
    goal = _find_goal(tx, _ACTIVE_GOAL, key=key)
    if goal is None or _has_open_turn(tx, key) or _anything_waits(tx, key) or not _may_go_on(tx, goal):
        return False
    command = _command_of_goal(tx, key, goal) if goal.turns == 0 else None
    return command is None or not attachments.has_pending(tx, command)


def next_causes(tx: Tx, key: str) -> list[Cause]:
    """Store and return the causes of the goal's next turn; none if it is not due, or has reached its end."""
    goal = _find_goal(tx, _ACTIVE_GOAL, key=key) if is_due(tx, key) else None
    if goal is None or _end_if_over(tx, key, goal):
        return []
    number = goal.turns + 1
    tx.run("UPDATE goals SET turns = :number WHERE id = :id", number=number, id=goal.id)
    inbound = Inbound(split_session_key(key)[1], goal.message, goal.person, goal.text)
    row = inbox.insert(tx, inbound, "", key, goal.session, "wish", event=f"goal:{goal.id}:{number}")
    if row is None:
        return []  # this turn has begun before
    note = texts.chat_commands.goal_turn_note(number, goal.budget)
    command = _command_of_goal(tx, key, goal) if number == 1 else None
    files = attachments.as_attachments(tx, command) if command else ()
    return [
        Cause(row, goal.text, goal.person, goal.message, attachments=files),
        Cause(row, note, goal.person, goal.message, note=True),
    ]


def _command_of_goal(tx: Tx, key: str, goal: Goal) -> str | None:
    """Return the command that set a goal: one of the chat's last, because the goal's first turn begins now."""
    sql = "SELECT id, body FROM inbox WHERE key = :key AND kind = 'command' ORDER BY position DESC LIMIT 50"
    rows = tx.all(sql, key=key)
    return next(
        (row[0] for row in rows if msgspec.json.decode(row[1], type=Inbound).message == goal.message), None
    )


def _end_if_over(tx: Tx, key: str, goal: Goal) -> bool:
    """Close the goal if the model said so or its budget is spent, of which the chat is told; True: it is over."""
    outcome = _find_outcome(tx, goal)
    if outcome is not None:
        return _close(tx, goal, outcome)
    if goal.turns < goal.budget:
        return False
    _close(tx, goal, GoalState.SPENT)
    notice = OutboxReply(
        split_session_key(key)[1], f"{goal.id}.spent", (texts.chat_commands.goal_budget_spent(goal.budget),)
    )
    outbox.enqueue(tx, key, None, notice)
    return True


def _find_outcome(tx: Tx, goal: Goal) -> GoalOutcome | None:
    """Return what the model has said about the goal since it was set, in any turn."""
    rows = tx.all(
        "SELECT body FROM journal WHERE session = :session AND seq > :since AND kind = 'finished' "
        f"AND turn NOT IN ({UNDONE_TURNS}) ORDER BY seq",
        session=goal.session,
        since=goal.since,
    )
    outcomes = (goal_outcome(msgspec.json.decode(row[0], type=TurnFinished).text) for row in rows)
    return next((outcome for outcome in outcomes if outcome is not None), None)


def _close(tx: Tx, goal: Goal, state: GoalState) -> bool:
    sql = f"UPDATE goals SET state = :state WHERE id = :id AND {GOAL_IS_ACTIVE}"
    return bool(tx.run(sql, state=state.value, id=goal.id))


def _may_go_on(tx: Tx, goal: Goal) -> bool:
    last = tx.one(_LAST_TURN_STATE.format(session=":session"), session=goal.session)
    return goal.turns == 0 or last == (TurnState.DONE,)


def _has_open_turn(tx: Tx, key: str) -> bool:
    return tx.one(f"SELECT 1 FROM turns WHERE key = :key AND {TURN_IS_OPEN}", key=key) is not None


def _anything_waits(tx: Tx, key: str) -> bool:
    """Say whether a message, a report or a command waits, which goes first and may be about the goal."""
    sql = f"SELECT 1 FROM inbox WHERE key = :key AND {MESSAGE_WAITS} AND kind <> 'aside'"
    return tx.one(sql, key=key) is not None


def _find_goal(tx: Tx, sql: str, **values: str) -> Goal | None:
    row = tx.one(sql, **values)
    return _as_goal(row) if row else None


def _as_goal(row: Row) -> Goal:
    return Goal(*(*row[:3], msgspec.json.decode(row[3], type=Sender), *row[4:8], GoalState(row[8])))

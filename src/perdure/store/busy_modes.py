"""What a message finds when it is stored: the mode of its conversation, a turn that runs, and those that wait."""

from __future__ import annotations

from perdure.core import texts
from perdure.core.messages import Inbound, Stored
from perdure.core.queue import Fate, QueueMode, interrupts_turn
from perdure.core.session import CancelReason
from perdure.store import outbox, sessions, transitions
from perdure.store.database import Tx
from perdure.store.outbox import OutboxReply


def mode_of(tx: Tx, key: str, default: QueueMode) -> QueueMode:
    """What a message does now that finds this conversation busy."""
    row = tx.one("SELECT mode FROM leases WHERE key = :key", key=key)
    mode: QueueMode | None = row[0] if row else None
    return mode or default


def cancel_replaced_turn(tx: Tx, key: str, manner: QueueMode | None) -> str | None:
    """End the turn that runs, for good, if a message of this manner does so; its id."""
    turn = transitions.current_turn(tx, key) if manner == "interrupt" else None
    if turn is None or not interrupts_turn(manner, turn.state):
        return None
    return turn.id if transitions.cancel(tx, turn, CancelReason.REPLACED) else None


def current_turn_id(tx: Tx, key: str) -> str | None:
    """The turn that a command is about which is given now."""
    turn = transitions.current_turn(tx, key)
    return turn.id if turn else None


# ── the cap ─────────────────────────────────────────────────────────────────────────────────────────────────


def is_queue_full(tx: Tx, key: str, cap: int) -> bool:
    """Whether no more messages may wait here. They are counted only if there may be so many."""
    row = tx.one(_MAX_WAITING, key=key)
    return row is not None and row[0] is not None and row[0] >= cap and _has_waiting(tx, key, cap)


_MAX_WAITING = (
    "SELECT 1 + l.position - (SELECT i.position FROM inbox i WHERE i.key = :key AND i.state = 'waiting' "
    "ORDER BY i.position LIMIT 1) FROM leases l WHERE l.key = :key"
)


def _has_waiting(tx: Tx, key: str, count: int) -> bool:
    """Whether so many wait, or more."""
    sql = (
        "SELECT 1 FROM inbox WHERE key = :key AND state = 'waiting' AND kind IN ('message', 'wish') "
        "ORDER BY position LIMIT 1 OFFSET :others"
    )
    return tx.one(sql, key=key, others=count - 1) is not None


def reject_queue_full(tx: Tx, inbound: Inbound, raw: str, key: str, cap: int) -> Stored | None:
    """Put on record that a message was not taken; the chat is told when that begins. None: it is here already."""
    session, message = sessions.ensure_current(tx, key), tx.ids.new("in")
    refused = tx.one(
        "INSERT INTO inbox (id, event_key, key, session, state, raw, problem, received_at) VALUES "
        "(:id, :event, :key, :session, 'rejected', :raw, :problem, :now) ON CONFLICT (event_key) DO UPDATE SET "
        "key = excluded.key, session = excluded.session, problem = excluded.problem "
        "WHERE inbox.key IS NULL RETURNING id",
        id=message,
        event=inbound.event_key,
        key=key,
        session=session,
        raw=raw,
        problem=texts.queue.refused_as_full(cap),
        now=tx.time,
    )
    if refused is None:
        return None
    if tx.run("UPDATE leases SET full_since = :now WHERE key = :key AND full_since IS NULL", now=tx.time, key=key):
        told = OutboxReply(inbound.address, f"full.{message}", (texts.queue.full(cap),), inbound.message)
        outbox.enqueue(tx, key, None, told)
    return Stored(refused[0], session, key, fresh=True, fate=Fate.FULL)


def clear_full_notice(tx: Tx, key: str, cap: int) -> None:
    """Forget that the chat was told once half of what waited is gone: before, it would be told all the time."""
    row = tx.one("SELECT 1 FROM leases WHERE key = :key AND full_since IS NOT NULL", key=key)
    if row is not None and not _has_waiting(tx, key, cap // 2 + 1):
        tx.run("UPDATE leases SET full_since = NULL WHERE key = :key", key=key)


# ── what is too old ─────────────────────────────────────────────────────────────────────────────────────────


def add_expired(tx: Tx, key: str, count: int) -> None:
    """Remember that so many messages were too old: the chat is told of all of them at once."""
    tx.run("UPDATE leases SET untold = untold + :count WHERE key = :key", key=key, count=count)

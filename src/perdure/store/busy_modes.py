"""Busy sessions: the queue mode of a key, the turn that a message interrupts, and the queue's limits."""

from __future__ import annotations

from perdure.core import texts
from perdure.core.messages import Inbound, Stored
from perdure.core.queue import Fate, QueueMode, interrupts_turn
from perdure.core.states import CancelReason, InboxState
from perdure.store import outbox, sessions, transitions
from perdure.store.conditions import MESSAGE_WAITS
from perdure.store.database import Tx
from perdure.store.outbox import OutboxReply


def mode_of(tx: Tx, key: str, default: QueueMode) -> QueueMode:
    """Return what a message does that arrives while a turn of the key runs."""
    row = tx.one("SELECT mode FROM leases WHERE key = :key", key=key)
    mode: QueueMode | None = row[0] if row else None
    return mode or default


def cancel_replaced_turn(tx: Tx, key: str, manner: QueueMode | None) -> str | None:
    """Cancel the running turn if a message of this mode interrupts it; return the turn's id."""
    turn = transitions.current_turn(tx, key) if manner == "interrupt" else None
    if turn is None or not interrupts_turn(manner, turn.state):
        return None
    return turn.id if transitions.cancel(tx, turn, CancelReason.REPLACED) else None


def current_turn_id(tx: Tx, key: str) -> str | None:
    """Return the id of the key's open turn, which a command given now is about."""
    turn = transitions.current_turn(tx, key)
    return turn.id if turn else None


# ── the cap ─────────────────────────────────────────────────────────────────────────────────────────────────


def is_queue_full(tx: Tx, key: str, cap: int) -> bool:
    """Say whether the key's queue is full. Messages are counted only if there may be that many."""
    row = tx.one(_MAX_WAITING, key=key)
    return row is not None and row[0] is not None and row[0] >= cap and _has_waiting(tx, key, cap)


_MAX_WAITING = (
    f"SELECT 1 + l.position - (SELECT i.position FROM inbox i WHERE i.key = :key AND i.{MESSAGE_WAITS} "
    "ORDER BY i.position LIMIT 1) FROM leases l WHERE l.key = :key"
)


def _has_waiting(tx: Tx, key: str, count: int) -> bool:
    """Say whether at least `count` messages wait."""
    sql = (
        f"SELECT 1 FROM inbox WHERE key = :key AND {MESSAGE_WAITS} AND kind IN ('message', 'wish') "
        "ORDER BY position LIMIT 1 OFFSET :others"
    )
    return tx.one(sql, key=key, others=count - 1) is not None


def reject_queue_full(tx: Tx, inbound: Inbound, raw: str, key: str, cap: int) -> Stored | None:
    """Record that a message was refused; the chat is told of the first one. None: it was stored already."""
    session, message = sessions.ensure_current(tx, key), tx.ids.new("in")
    refused = tx.one(
        "INSERT INTO inbox (id, event_key, key, session, state, raw, problem, received_at) VALUES "
        f"(:id, :event, :key, :session, '{InboxState.REJECTED}', :raw, :problem, :now) "
        "ON CONFLICT (event_key) DO UPDATE SET "
        "key = excluded.key, session = excluded.session, problem = excluded.problem "
        "WHERE inbox.key IS NULL RETURNING id",
        id=message,
        event=inbound.event_key,
        key=key,
        session=session,
        raw=raw,
        problem=texts.turns.refused_as_queue_full(cap),
        now=tx.time,
    )
    if refused is None:
        return None
    if tx.run("UPDATE leases SET full_since = :now WHERE key = :key AND full_since IS NULL", now=tx.time, key=key):
        notice = OutboxReply(inbound.address, f"full.{message}", (texts.turns.queue_full(cap),), inbound.message)
        outbox.enqueue(tx, key, None, notice)
    return Stored(refused[0], session, key, fresh=True, fate=Fate.FULL)


def clear_full_notice(tx: Tx, key: str, cap: int) -> None:
    """Allow another notice of a full queue once half of it is empty; earlier, notices would repeat."""
    row = tx.one("SELECT 1 FROM leases WHERE key = :key AND full_since IS NOT NULL", key=key)
    if row is not None and not _has_waiting(tx, key, cap // 2 + 1):
        tx.run("UPDATE leases SET full_since = NULL WHERE key = :key", key=key)


# ── what is too old ─────────────────────────────────────────────────────────────────────────────────────────


def add_expired(tx: Tx, key: str, count: int) -> None:
    """Count messages that were too old: the chat is told of all of them at once."""
    tx.run("UPDATE leases SET untold = untold + :count WHERE key = :key", key=key, count=count)

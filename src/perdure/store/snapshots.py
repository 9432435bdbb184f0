"""Snapshots: the state of a session, or the trace of a message, each read in one transaction."""

from __future__ import annotations

from msgspec import Struct

from perdure.core.journal import JournalRecord, TurnView, fold
from perdure.core.recovery.decision import ALONE_EVIDENCE, RecoveryRule, awaits_slot
from perdure.core.states import TurnState
from perdure.core.texts.explanation import SessionSnapshot
from perdure.store import inbox, journal, previews, runs, sessions
from perdure.store.conditions import DELIVERY_IS_OPEN, TURN_IS_OPEN
from perdure.store.database import Database, Row, Tx
from perdure.store.journal import as_record
from perdure.store.outbox import OutboxDelivery, of_turn
from perdure.store.previews import StoredPreview
from perdure.store.runs import Run
from perdure.store.sessions import Session


class MessageTrace(Struct, frozen=True):
    """A message, with its turn's journal, replies, previews and runs."""

    message: str
    event_key: str
    kind: str
    state: str
    key: str | None
    problem: str | None
    received_at: int
    turn: str | None
    records: list[JournalRecord]
    deliveries: list[OutboxDelivery]
    previews: list[StoredPreview]
    runs: list[Run]


class Snapshots:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_session(self, session: Session) -> SessionSnapshot:
        """Read what `/why` explains."""
        return await self._database.read(lambda tx: _read_snapshot(tx, session))

    async def find_session(self, name: str) -> Session | None:
        """Return a session by its id, or the current session of a key."""
        return await self._database.read(lambda tx: sessions.get(tx, name) or sessions.current(tx, name))

    async def trace_message(self, name: str) -> MessageTrace | None:
        """Trace a message, named by its inbox id, its event key, or the platform's id of it."""
        return await self._database.read(lambda tx: _trace_message(tx, name))


def _read_snapshot(tx: Tx, session: Session) -> SessionSnapshot:
    # Only the last turn is explained, however long the conversation is.
    last = tx.one(
        "SELECT id, first_seq FROM turns WHERE session = :id ORDER BY generation DESC LIMIT 1", id=session.id
    )
    records = journal.read_turn(tx, session.id, last[0], last[1]) if last else []
    view = fold(records) if records else None
    open_replies = tx.one(f"SELECT count(*) FROM outbox WHERE key = :key AND {DELIVERY_IS_OPEN}", key=session.key)
    return SessionSnapshot(
        session.state,
        sessions.read_recovery(tx, session.id),
        [view] if view else [],
        turns_ahead=_turns_ahead(tx, session.key, view) if view else None,
        unconfirmed_replies=open_replies[0] if open_replies else 0,
        waiting_messages=inbox.count_waiting(tx, session.key),
    )


# The turns that wait for a slot, the oldest first: their newest entry is the decision to resume.
_SLOT_QUEUE = (
    "SELECT t.key FROM turns t JOIN leases l ON l.key = t.key JOIN journal j ON j.session = t.session "
    f"AND j.seq = (SELECT max(n.seq) FROM journal n WHERE n.session = t.session) WHERE t.{TURN_IS_OPEN} "
    f"AND t.state IN ('{TurnState.INTERRUPTED}', '{TurnState.RUNNING}') AND j.kind = 'decided' AND j.turn = t.id "
    "AND j.body LIKE :resumed AND l.run = (SELECT run FROM leases WHERE key = :key) ORDER BY t.began_at, t.id"
)
_RESUME_PATTERN = f'%"rule":"{RecoveryRule.RESUME}"%'


def _turns_ahead(tx: Tx, key: str, view: TurnView) -> int | None:
    """Return how many turns get a slot before the key's turn; None: it waits for no slot."""
    if not awaits_slot(view):
        return None
    queue = [row[0] for row in tx.all(_SLOT_QUEUE, key=key, resumed=_RESUME_PATTERN)]
    if view.last_decision is not None and view.last_decision.evidence.get(ALONE_EVIDENCE):
        queue.sort(key=lambda other: not inbox.count_waiting(tx, other))  # keys with a waiting message first
    return queue.index(key) if key in queue else 0


_MESSAGE = "SELECT id, event_key, kind, state, key, problem, received_at, turn, session FROM inbox WHERE "


def _trace_message(tx: Tx, name: str) -> MessageTrace | None:
    row = tx.one(f"{_MESSAGE} id = :name OR event_key = :name", name=name) or _by_reply(tx, name)
    if row is None:
        # A platform's own id stands at the end of the event key.
        row = tx.one(f"{_MESSAGE} event_key LIKE :ending ORDER BY id DESC", ending=f"%:{name}")
    if row is None:
        return None
    turn, session = row[7], row[8]
    records = _records(tx, session, turn) if turn else []
    replies = of_turn(tx, turn) if turn else []
    shown = previews.of_turn(tx, turn) if turn else []
    return MessageTrace(*(*row[:8], records, replies, shown, runs.of_turn(tx, records)))


def _by_reply(tx: Tx, name: str) -> Row | None:
    return tx.one(
        f"{_MESSAGE} turn = (SELECT turn FROM outbox WHERE id = :name OR delivery_key = :name) ORDER BY id",
        name=name,
    )


def _records(tx: Tx, session: str, turn: str) -> list[JournalRecord]:
    row = tx.one("SELECT session FROM turns WHERE id = :turn", turn=turn)
    rows = tx.all(
        "SELECT seq, at, kind, version, body FROM journal WHERE session = :session AND turn = :turn ORDER BY seq",
        session=row[0] if row else session,
        turn=turn,
    )
    return [as_record(found) for found in rows]

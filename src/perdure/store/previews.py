"""Previews: messages that show an answer while it grows, on platforms where a message can be edited.

sending → shown → settled, or lost. A preview is on record before the platform is called, and it is never the
answer: the reply that ends the turn replaces it. A preview without a receipt is lost: it may still stand in the
chat, and only `trace` names it.
"""

from __future__ import annotations

from msgspec import Struct

from perdure.core import texts
from perdure.core.address import split_session_key
from perdure.core.states import FINAL_STATES, PreviewState, TurnState
from perdure.store import outbox
from perdure.store.conditions import state_in
from perdure.store.database import Database, Tx
from perdure.store.outbox import OutboxReply


class Preview(Struct, frozen=True):
    delivery_key: str
    turn: str
    key: str
    receipt: str | None = None  # the platform's id of the message, once it is known


class StoredPreview(Struct, frozen=True):
    """A row of the table `previews`."""

    delivery_key: str
    state: PreviewState
    receipt: str | None
    created_at: int


class Previews:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, turn: str, key: str, epoch: int, now: int) -> Preview | None:
        """Return the turn's shown preview, or a new one that is about to be sent. None: the turn is not ours.

        After return: if we die before the receipt is recorded, a new preview counts as lost.
        """
        return await self._database.write(lambda tx: _begin(tx, turn, key, epoch), key=key, at=now)

    async def record_shown(self, preview: Preview, receipt: str, now: int) -> bool:
        """Record the receipt. False: the turn ended meanwhile, and a notice will replace the preview."""
        return await self._database.write(lambda tx: _record_shown(tx, preview, receipt), key=preview.key, at=now)


def _begin(tx: Tx, turn: str, key: str, epoch: int) -> Preview | None:
    ours = f"SELECT attempt FROM turns WHERE id = :turn AND epoch = :epoch AND state = '{TurnState.RUNNING}'"
    row = tx.one(ours + tx.for_update, turn=turn, epoch=epoch)
    if row is None:
        return None
    shown = tx.one(
        f"SELECT delivery_key, receipt FROM previews WHERE turn = :turn AND state = '{PreviewState.SHOWN}'",
        turn=turn,
    )
    if shown is not None:
        return Preview(shown[0], turn, key, shown[1])
    tx.run(
        f"UPDATE previews SET state = '{PreviewState.LOST}' "
        f"WHERE turn = :turn AND state = '{PreviewState.SENDING}'",
        turn=turn,
    )
    name = f"{turn}.preview.{row[0]}"
    again = tx.one("SELECT count(*) FROM previews WHERE turn = :turn", turn=turn)
    preview = Preview(f"{name}.{again[0]}" if again and again[0] else name, turn, key)
    tx.run(
        "INSERT INTO previews (delivery_key, turn, state, created_at) "
        f"VALUES (:name, :turn, '{PreviewState.SENDING}', :now)",
        name=preview.delivery_key,
        turn=turn,
        now=tx.time,
    )
    return preview


def _record_shown(tx: Tx, preview: Preview, receipt: str) -> bool:
    row = tx.one("SELECT state FROM turns WHERE id = :turn", turn=preview.turn)
    over = row is None or TurnState(row[0]) in FINAL_STATES
    tx.run(
        "UPDATE previews SET state = :state, receipt = :receipt WHERE delivery_key = :name",
        state=(PreviewState.SETTLED if over else PreviewState.SHOWN).value,
        receipt=receipt,
        name=preview.delivery_key,
    )
    if over:
        enqueue_ended_notice(tx, preview.key, preview.turn, receipt)
    return not over


def settle(tx: Tx, turn: str) -> str | None:
    """End the turn's previews; return the receipt of the one that must be replaced, or None."""
    shown = tx.one(
        f"SELECT receipt FROM previews WHERE turn = :turn AND state = '{PreviewState.SHOWN}'", turn=turn
    )
    tx.run(
        f"UPDATE previews SET state = CASE state WHEN '{PreviewState.SHOWN}' THEN '{PreviewState.SETTLED}' "
        f"ELSE '{PreviewState.LOST}' END WHERE turn = :turn "
        f"AND {state_in((PreviewState.SENDING, PreviewState.SHOWN))}",
        turn=turn,
    )
    return shown[0] if shown else None


def enqueue_ended_notice(tx: Tx, key: str, turn: str, receipt: str) -> None:
    """Put a notice in the outbox that replaces a preview after which no answer comes."""
    reply = OutboxReply(
        split_session_key(key)[1], f"{turn}.ended.{receipt}", (texts.delivery.PREVIEW_UNFINISHED,), edits=receipt
    )
    outbox.enqueue(tx, key, None, reply)


def of_turn(tx: Tx, turn: str) -> list[StoredPreview]:
    """Return the previews of a turn, in order."""
    rows = tx.all(
        "SELECT delivery_key, state, receipt, created_at FROM previews WHERE turn = :turn ORDER BY created_at",
        turn=turn,
    )
    return [StoredPreview(row[0], PreviewState(row[1]), row[2], row[3]) for row in rows]

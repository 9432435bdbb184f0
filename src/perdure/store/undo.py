"""Undo and retry of a session's last turn, each in one transaction together with the command's answer.

Nothing is deleted: a journal entry says that the turn was undone, and models do not see the turn any more. The
command is executed before anything behind it begins, so the last turn is the one above it in the chat.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from perdure.core.address import split_session_key
from perdure.core.commands import RETRY_KEY_PREFIX
from perdure.core.effects import Effect
from perdure.core.journal import Cause, TurnUndone, TurnView
from perdure.core.messages import Inbound, Sender
from perdure.core.states import FINAL_STATES, SessionState
from perdure.store import attachments, goals, inbox, journal, outbox, previews, sessions, transitions
from perdure.store.authorisation import Beginner, MayJoin, everybody_may_join
from perdure.store.conditions import PROCESS_IS_LIVE
from perdure.store.database import Transaction, Tx
from perdure.store.inbox import MAX_POSITION
from perdure.store.transitions import TURN_COLUMNS, Turn, as_turn

_LAST_TURN = (
    f"SELECT {TURN_COLUMNS} FROM turns WHERE session = :session AND id NOT IN ({journal.UNDONE_TURNS}) "
    "ORDER BY first_seq DESC LIMIT 1"
)


class UndoResult(Struct, frozen=True):
    """The result of an undo. `outcome` is done, running, waiting, summed, unasked, unrightful or nothing."""

    outcome: str
    words: str = ""  # what the turn was about
    acted: bool = False  # its tools had effects, which are not undone
    process_running: bool = False  # a process that the turn started still runs
    goal: bool = False  # the session has a goal, which does not go on by itself now


def undo_turn(key: str, by: Sender, *, before: int = MAX_POSITION) -> Transaction[UndoResult]:
    """Undo the last turn of the key's session, if it has ended and nothing waits before a position."""

    def transaction(tx: Tx) -> UndoResult:
        found = _last_turn(tx, key, before)
        return found if isinstance(found, UndoResult) else _undo_turn(tx, key, found, by)

    return transaction


def retry_turn(
    key: str,
    by: Sender,
    *,
    command: str,
    message: str,
    before: int = MAX_POSITION,
    may_join: MayJoin = everybody_may_join,
) -> Transaction[UndoResult]:
    """Undo the last turn, and queue its message again at the position of the command of that id.

    `message` is the message to reply to if the undone turn's message was written in another chat. The new turn has
    the right of who began the first one, so `may_join` must let whoever retries it join such a turn.
    """

    def transaction(tx: Tx) -> UndoResult:
        found = _last_turn(tx, key, before)
        if isinstance(found, UndoResult):
            return found
        causes = transitions.read_view(tx, found).causes
        asked = [cause for cause in causes if _is_from_person(tx, cause)]
        if not asked:
            return UndoResult("unasked")
        if not may_join(tx, key, Beginner(asked[0].sender, found.key), by):
            return UndoResult("unrightful")
        taken = _undo_turn(tx, key, found, by)
        again = Inbound(
            split_session_key(key)[1],
            asked[-1].message if found.key == key else message,
            asked[0].sender,
            "\n\n".join(cause.text for cause in asked if cause.text),
            attachments=tuple(file for cause in asked for file in cause.attachments),
        )
        _repeat_message(tx, key, found.session, again, f"{RETRY_KEY_PREFIX}{command}", before)
        _repeat_reports(tx, key, found.session, causes, f"{RETRY_KEY_PREFIX}{command}")
        return taken

    return transaction


def _last_turn(tx: Tx, key: str, before: int) -> Turn | UndoResult:
    """Return the turn to undo, or the reason why there is none."""
    tx.one(f"SELECT 1 FROM leases WHERE key = :key{tx.for_update}", key=key)  # no turn begins meanwhile
    if transitions.current_turn(tx, key) is not None:
        return UndoResult("running")
    if inbox.count_waiting(tx, key, before=before):
        return UndoResult("waiting")
    session = sessions.current(tx, key)
    row = tx.one(_LAST_TURN, session=session.id) if session else None
    if session is None or row is None:
        return UndoResult("nothing")
    turn = as_turn(row)
    if turn.state not in FINAL_STATES:
        return UndoResult("running")
    return UndoResult("summed") if journal.compacted_through(tx, session.id) >= turn.first_seq else turn


def _undo_turn(tx: Tx, key: str, turn: Turn, by: Sender) -> UndoResult:
    view = transitions.read_view(tx, turn)
    journal.append(tx, turn.session, turn.id, [TurnUndone(by.id)])
    for receipt in outbox.withdraw_turn(tx, turn.id):
        previews.enqueue_ended_notice(tx, key, turn.id, receipt)
    lives = tx.one(f"SELECT 1 FROM processes WHERE turn = :turn AND {PROCESS_IS_LIVE}", turn=turn.id)
    return UndoResult("done", _text_of_turn(view), _had_effects(view), lives is not None, goals.is_active(tx, key))


def _text_of_turn(view: TurnView) -> str:
    """Return the text that a person wrote, or else the text that the turn began with."""
    written = [cause.text for cause in view.causes if not cause.note and cause.text.strip()]
    return next(iter([*written, *(cause.text for cause in view.causes)]), "")


def _had_effects(view: TurnView) -> bool:
    started = (call.started for call in view.calls.values())
    return any(intent is not None and intent.effect is not Effect.PURE for intent in started)


# ── asking again ────────────────────────────────────────────────────────────────────────────────────────────


def _is_from_person(tx: Tx, cause: Cause) -> bool:
    """Say whether a cause is a person's message, not a goal, a request to resume or a report."""
    row = tx.one("SELECT kind FROM inbox WHERE id = :id", id=cause.inbox)
    return not cause.note and not cause.wish and (row is None or row[0] not in ("wish", "report", "aside"))


def _repeat_message(tx: Tx, key: str, session: str, again: Inbound, event: str, position: int) -> None:
    """Queue the message at the position of its command; a suspended session is reopened."""
    current = sessions.get(tx, session)
    if current is not None and current.state is SessionState.SUSPENDED:
        sessions.reopen(tx, session)
    message = inbox.insert(tx, again, "", key, session, "message", event=event)
    if message is None:
        return
    if position < MAX_POSITION:  # or messages behind the command would be answered first
        tx.run("UPDATE inbox SET position = :position WHERE id = :id", position=position, id=message)
        sessions.release_position(tx, key)
    for ordinal, file in enumerate(again.attachments):
        attachments.record_reference(tx, message, ordinal, file)


def _repeat_reports(tx: Tx, key: str, session: str, causes: Sequence[Cause], event: str) -> None:
    """Queue the reports again that the undone turn got beside its message."""
    for number, cause in enumerate(cause for cause in causes if cause.note):
        row = tx.one("SELECT raw FROM inbox WHERE id = :id", id=cause.inbox)
        note = Inbound(split_session_key(key)[1], "", cause.sender, cause.text)
        about = row[0] if row else ""
        inbox.insert(tx, note, about, key, session, "aside", event=f"{event}:{number}")

"""Taking the last turn back, and asking the same again: each is one transaction, together with its answer.

Nothing is deleted: an entry says that the turn was taken back, and no model is told of it any more. The command is
obeyed before anything that came behind it begins, so the last turn is the one that stands above it in the chat.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from perdure.core.address import parse_session_key
from perdure.core.commands import AGAIN
from perdure.core.effects import Effect
from perdure.core.journal import Cause, TurnView, Undone, fold
from perdure.core.messages import Inbound, Sender
from perdure.core.session import SessionState
from perdure.core.turn import FINAL
from perdure.store import attachments, goals, inbox, journal, moves, outbox, previews, sessions
from perdure.store.database import Tx, Work
from perdure.store.ids import Ids
from perdure.store.inbox import LATEST
from perdure.store.moves import COLUMNS, Turn, as_turn

_LAST = (
    f"SELECT {COLUMNS} FROM turns WHERE session = :session AND id NOT IN ({journal.UNDONE}) "
    "ORDER BY first_seq DESC LIMIT 1"
)


class TakenBack(Struct, frozen=True):
    """What came of the wish. `what` is done, running, waiting, summed, unasked or nothing."""

    what: str
    words: str = ""  # what the turn was about
    acted: bool = False  # its tools did something, which stays done
    lives: bool = False  # a command that it began still runs
    goal: bool = False  # the session has a goal, which does not go on by itself now


def undo(ids: Ids, key: str, by: Sender, now: int, *, before: int = LATEST) -> Work[TakenBack]:
    """Take back the last turn of the key's session, if that has ended and nothing waits before a place."""

    def work(tx: Tx) -> TakenBack:
        found = _last(tx, key, before)
        return found if isinstance(found, TakenBack) else _take_back(tx, ids, key, found, by, now)

    return work


def retry(
    ids: Ids, key: str, by: Sender, now: int, *, order: str, message: str, before: int = LATEST
) -> Work[TakenBack]:
    """The same, and let its message wait for a turn again, as the order of that id wants it.

    `message` is what the answer is attached to if the first one was written in another chat.
    """

    def work(tx: Tx) -> TakenBack:
        found = _last(tx, key, before)
        if isinstance(found, TakenBack):
            return found
        causes = _view(tx, found).causes
        asked = [cause for cause in causes if _is_asked(tx, cause)]
        if not asked:
            return TakenBack("unasked")
        taken = _take_back(tx, ids, key, found, by, now)
        again = Inbound(
            parse_session_key(key)[1],
            asked[-1].message if found.key == key else message,
            asked[-1].sender,
            "\n\n".join(cause.text for cause in asked if cause.text),
            attachments=tuple(file for cause in asked for file in cause.attachments),
        )
        _ask_again(tx, ids, key, found.session, again, f"{AGAIN}{order}", before, now)
        _tell_again(tx, ids, key, found.session, causes, f"{AGAIN}{order}", now)
        return taken

    return work


def _last(tx: Tx, key: str, before: int) -> Turn | TakenBack:
    """The turn to take back, or why there is none."""
    tx.one(f"SELECT 1 FROM leases WHERE key = :key{tx.hold}", key=key)  # no turn begins before we have ended
    if moves.begun(tx, key) is not None:
        return TakenBack("running")
    if inbox.count_waiting(tx, key, before=before):
        return TakenBack("waiting")
    session = sessions.current(tx, key)
    row = tx.one(_LAST, session=session.id) if session else None
    if session is None or row is None:
        return TakenBack("nothing")
    turn = as_turn(row)
    if turn.state not in FINAL:
        return TakenBack("running")
    return TakenBack("summed") if journal.summed_up(tx, session.id) >= turn.first_seq else turn


def _take_back(tx: Tx, ids: Ids, key: str, turn: Turn, by: Sender, now: int) -> TakenBack:
    view = _view(tx, turn)
    journal.append(tx, turn.session, turn.id, [Undone(by.id)], now)
    for receipt in outbox.withdraw_turn(tx, turn.id, now):
        previews.say_ended(tx, ids, key, turn.id, receipt, now)
    lives = tx.one("SELECT 1 FROM processes WHERE turn = :turn AND state = 'live'", turn=turn.id)
    return TakenBack("done", _words(view), _acted(view), lives is not None, goals.is_active(tx, key))


def _view(tx: Tx, turn: Turn) -> TurnView:
    return fold(journal.read_turn(tx, turn.session, turn.id, turn.first_seq))


def _words(view: TurnView) -> str:
    """What a person wrote, or else whatever began the turn."""
    written = [cause.text for cause in view.causes if not cause.note and cause.text.strip()]
    return next(iter([*written, *(cause.text for cause in view.causes)]), "")


def _acted(view: TurnView) -> bool:
    started = (call.started for call in view.calls.values())
    return any(intent is not None and intent.effect is not Effect.PURE for intent in started)


# ── asking again ────────────────────────────────────────────────────────────────────────────────────────────


def _is_asked(tx: Tx, cause: Cause) -> bool:
    """Whether a person wrote it, and not a goal, a wish to go on, or we ourselves."""
    row = tx.one("SELECT kind FROM inbox WHERE id = :id", id=cause.inbox)
    return not cause.note and not cause.wish and (row is None or row[0] not in ("wish", "report", "aside"))


def _ask_again(tx: Tx, ids: Ids, key: str, session: str, again: Inbound, event: str, place: int, now: int) -> None:
    """Let the message wait, at the place of its command, in a session that goes on if it was set aside."""
    current = sessions.get(tx, session)
    if current is not None and current.state is SessionState.SUSPENDED:
        sessions.reopen(tx, session, now)
    message = inbox.put(tx, ids, again, "", key, session, now, "message", event=event)
    if message is None:
        return
    if place < LATEST:  # or else what came behind the command would be answered first
        tx.run("UPDATE inbox SET position = :place WHERE id = :id", place=place, id=message)
        sessions.give_back(tx, key)
    for ordinal, file in enumerate(again.attachments):
        attachments.refer(tx, ids, message, ordinal, file)


def _tell_again(tx: Tx, ids: Ids, key: str, session: str, causes: Sequence[Cause], event: str, now: int) -> None:
    """What the turn was told of processes beside its message is told again with it."""
    for number, cause in enumerate(cause for cause in causes if cause.note):
        row = tx.one("SELECT raw FROM inbox WHERE id = :id", id=cause.inbox)
        note = Inbound(parse_session_key(key)[1], "", cause.sender, cause.text)
        about = row[0] if row else ""
        inbox.put(tx, ids, note, about, key, session, now, "aside", event=f"{event}:{number}")

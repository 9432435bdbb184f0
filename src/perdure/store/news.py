"""News: words of ours that wait in the inbox, to begin a turn or to be taken along by the next one."""

from __future__ import annotations

from typing import Protocol

import msgspec

from perdure.core import notes
from perdure.core.address import parse_session_key, work_of
from perdure.core.messages import Inbound, Sender
from perdure.store import inbox, outbox
from perdure.store.database import Row, Tx
from perdure.store.ids import Ids
from perdure.store.inbox import InboxKind
from perdure.store.outbox import Owed


class About(Protocol):
    """What a note is about: who is concerned, and where."""

    @property
    def id(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def session(self) -> str: ...
    @property
    def person(self) -> str: ...


def put(tx: Tx, ids: Ids, about: About, event: str, text: str, kind: InboxKind, now: int) -> None:
    """Write words of ours that wait for a turn, once. `raw` says what they are about."""
    note = Inbound(parse_session_key(about.key)[1], "", Sender(about.person), text)
    inbox.put(tx, ids, note, about.id, about.key, about.session, now, kind, event=event)


def withdraw(tx: Tx, key: str, about: str) -> None:
    """Take back whatever waits to be told of something."""
    tx.run(
        "UPDATE inbox SET state = 'withdrawn' WHERE key = :key AND state = 'waiting' "
        "AND kind IN ('report', 'aside') AND raw = :about",
        key=key,
        about=about,
    )


def waits(tx: Tx, key: str, event: str) -> bool:
    sql = "SELECT 1 FROM inbox WHERE key = :key AND state = 'waiting' AND event_key = :event"
    return tx.one(sql, key=key, event=event) is not None


def leave_behind(tx: Tx, ids: Ids, key: str, now: int) -> None:
    """Reports for a session that nobody talks to any more become notices to the chat: they begin no turn."""
    for row in tx.all(_LEFT_BEHIND, key=key):
        _leave(tx, ids, row, "notice", now)


def leave_to_chat(tx: Tx, ids: Ids, message: str, now: int) -> None:
    """News of somebody's who may not talk any more begin no turn: at most, others in the chat hear of it."""
    row = tx.one(_LEFT_TO_CHAT, id=message)
    if row is not None:
        alone = parse_session_key(row[4])[1].kind == "dm" or row[5] == "aside"
        _leave(tx, ids, row, "nobody" if alone else "notice", now)


def _leave(tx: Tx, ids: Ids, row: Row, told: str, now: int) -> None:
    """Withdraw what waits for a turn, and say it in the chat, if it is to be told there."""
    tx.run("UPDATE inbox SET state = 'withdrawn' WHERE id = :id", id=row[0])
    tx.run("UPDATE processes SET told = :told WHERE id = :id AND told = 'report'", told=told, id=row[2])
    if told == "notice":
        name = row[3].removeprefix("process:").replace(":", ".", 1)
        note = msgspec.json.decode(row[1], type=Inbound)
        text = notes.of_work(work_of(row[4]), note.text)
        outbox.owe(tx, ids, row[4], None, Owed(note.address, name, (text,)), now)


_LEFT_TO_CHAT = "SELECT id, body, raw, event_key, key, kind FROM inbox WHERE id = :id AND state = 'waiting'"
_LEFT_BEHIND = (
    "SELECT id, body, raw, event_key, key FROM inbox WHERE key = :key AND state = 'waiting' "
    "AND kind IN ('report', 'aside') AND kind = 'report' "  # said as in the index of these rows
    "AND session NOT IN (SELECT id FROM sessions WHERE key = :key AND state = 'open') ORDER BY position"
)

"""News: words of ours that wait in the inbox, to begin a turn or to be taken along by the next one."""

from __future__ import annotations

from typing import Protocol

import msgspec

from perdure.core.address import parse_session_key
from perdure.core.messages import Inbound, Sender, storable
from perdure.store import inbox, outbox
from perdure.store.database import Tx
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
    note = Inbound(parse_session_key(about.key)[1], "", Sender(about.person), storable(text))
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
        tx.run("UPDATE inbox SET state = 'withdrawn' WHERE id = :id", id=row[0])
        tx.run("UPDATE processes SET told = 'notice' WHERE id = :id AND told = 'report'", id=row[2])
        name = row[3].removeprefix("process:").replace(":", ".", 1)
        note = msgspec.json.decode(row[1], type=Inbound)
        outbox.owe(tx, ids, key, None, Owed(note.address, name, (note.text,)), now)


_LEFT_BEHIND = (
    "SELECT id, body, raw, event_key FROM inbox WHERE key = :key AND state = 'waiting' AND kind = 'report' "
    "AND session NOT IN (SELECT id FROM sessions WHERE key = :key AND state = 'open') ORDER BY position"
)

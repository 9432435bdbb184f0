"""Reports: texts of the gateway in the inbox, which begin a turn or join the next one."""

from __future__ import annotations

from typing import Protocol

import msgspec

from perdure.core import texts
from perdure.core.address import background_number, split_session_key
from perdure.core.entries import Cause
from perdure.core.messages import Inbound, Sender
from perdure.core.states import InboxState, SessionState
from perdure.store import inbox, outbox
from perdure.store.conditions import MESSAGE_WAITS
from perdure.store.database import Row, Tx
from perdure.store.inbox import InboxKind
from perdure.store.outbox import OutboxReply


class ReportSubject(Protocol):
    """The process that a report is about: whose it is, and in which session."""

    @property
    def id(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def session(self) -> str: ...
    @property
    def person(self) -> str: ...


def insert(tx: Tx, about: ReportSubject, event: str, text: str, kind: InboxKind) -> None:
    """Insert a report that waits for a turn, once. Its `raw` column names its subject."""
    note = Inbound(split_session_key(about.key)[1], "", Sender(about.person), text)
    inbox.insert(tx, note, about.id, about.key, about.session, kind, event=event)


def insert_moved(tx: Tx, key: str, session: str, person: Sender, event: str) -> Cause:
    """Insert the report that files and commands of a chat stayed on another machine; return it as a cause."""
    note = Inbound(split_session_key(key)[1], "", person, texts.recovery.NOTE_STAYED_BEHIND)
    row = inbox.insert(tx, note, "", key, session, "aside", event=event)
    assert row is not None, f"{event} was told before"
    return Cause(row, note.text, note.sender, note.message, note=True)


def withdraw(tx: Tx, key: str, about: str) -> None:
    """Withdraw the waiting reports about a subject."""
    tx.run(
        f"UPDATE inbox SET state = '{InboxState.WITHDRAWN}' WHERE key = :key AND {MESSAGE_WAITS} "
        "AND kind IN ('report', 'aside') AND raw = :about",
        key=key,
        about=about,
    )


def is_waiting(tx: Tx, key: str, event: str) -> bool:
    sql = f"SELECT 1 FROM inbox WHERE key = :key AND {MESSAGE_WAITS} AND event_key = :event"
    return tx.one(sql, key=key, event=event) is not None


def convert_orphans_to_notices(tx: Tx, key: str) -> None:
    """Turn the reports of a session that is no longer open into notices to the chat, which begin no turn."""
    for row in tx.all(_ORPHANED_REPORTS, key=key):
        _withdraw_and_notify(tx, row, "notice")


def convert_to_notice(tx: Tx, message: str) -> None:
    """Withdraw a report whose person may no longer talk; others in the chat get a notice instead."""
    row = tx.one(_WAITING_REPORT, id=message)
    if row is not None:
        alone = split_session_key(row[4])[1].kind == "dm" or row[5] == "aside"
        _withdraw_and_notify(tx, row, "nobody" if alone else "notice")


def _withdraw_and_notify(tx: Tx, row: Row, told: str) -> None:
    """Withdraw a report; if `told` is "notice", send its text to the chat instead."""
    tx.run(f"UPDATE inbox SET state = '{InboxState.WITHDRAWN}' WHERE id = :id", id=row[0])
    tx.run("UPDATE processes SET told = :told WHERE id = :id AND told = 'report'", told=told, id=row[2])
    if told == "notice":
        name = row[3].removeprefix("process:").replace(":", ".", 1)
        note = msgspec.json.decode(row[1], type=Inbound)
        text = texts.chat_commands.background_label(background_number(row[4]), note.text)
        outbox.enqueue(tx, row[4], None, OutboxReply(note.address, name, (text,)))


_WAITING_REPORT = f"SELECT id, body, raw, event_key, key, kind FROM inbox WHERE id = :id AND {MESSAGE_WAITS}"
_ORPHANED_REPORTS = (
    f"SELECT id, body, raw, event_key, key FROM inbox WHERE key = :key AND {MESSAGE_WAITS} "
    "AND kind IN ('report', 'aside') AND kind = 'report' "  # said as in the index of these rows
    f"AND session NOT IN (SELECT id FROM sessions WHERE key = :key AND state = '{SessionState.OPEN}') "
    "ORDER BY position"
)

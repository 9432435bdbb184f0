"""Attachments: files that arrived with messages, were uploaded for one, or are sent by a turn.

The row has the path of the file below the home. A row is written after its file, and removed before it: so there
may be a file without a row, which nobody needs, but never a row without its file.
"""

from __future__ import annotations

from msgspec import Struct

from perdure.core import texts
from perdure.core.address import split_session_key
from perdure.core.file_names import display_file_name, safe_media_type
from perdure.core.messages import Attachment
from perdure.core.states import AttachmentState, InboxState
from perdure.store import leases, outbox
from perdure.store.conditions import GOAL_IS_ACTIVE, MESSAGE_WAITS, SESSION_IS_CURRENT
from perdure.store.database import Database, Row, Tx
from perdure.store.outbox import OutboxReply

_COLUMNS = (
    "a.id, a.inbox, a.turn, a.name, a.reference, a.media_type, a.size, a.state, a.path, a.problem, a.attempts"
)
# The order of the joins keeps SQLite from reading all attachments there ever were.
_REFERENCED_FILES = (
    f"SELECT {_COLUMNS}, i.key, a.due_at, i.position, a.ordinal FROM inbox i CROSS JOIN attachments a "
    f"CROSS JOIN leases WHERE a.inbox = i.id AND a.state = '{AttachmentState.REFERENCED}' AND leases.key = i.key"
)
_PENDING_OF_MESSAGES = f"{_REFERENCED_FILES} AND i.{MESSAGE_WAITS} AND i.kind = 'message'"
# Of commands, only those that set a goal whose first turn has not begun.
_PENDING_OF_GOALS = (
    f"{_REFERENCED_FILES.replace('FROM inbox i', 'FROM goals g CROSS JOIN sessions s CROSS JOIN inbox i')} "
    f"AND g.{GOAL_IS_ACTIVE} AND g.turns = 0 AND s.id = g.session AND i.key = s.key AND i.kind = 'command' "
    f"AND i.state = '{InboxState.OBEYED}' AND i.received_at > g.created_at - 3600000"
)
MAX_MESSAGES = 2000  # of a conversation, the newest, and as many turns, whose files its tools can use
MAX_FILES = 50  # of these files: each is a mount in the sandbox of every command
_RECENT_MESSAGES = "(SELECT id FROM inbox WHERE key = :key ORDER BY position DESC LIMIT :limit) m"
_RECENT_TURNS = (
    f"(SELECT t.id, t.key FROM sessions s CROSS JOIN turns t WHERE s.key = :key AND s.{SESSION_IS_CURRENT} "
    "AND t.session = s.id ORDER BY t.generation DESC LIMIT :limit) r"
)
_RECEIVED = f"SELECT m.id, a.path FROM {_RECENT_MESSAGES} CROSS JOIN attachments a WHERE a.inbox = m.id"
_SENT = f"SELECT r.id, a.path FROM {_RECENT_TURNS} CROSS JOIN attachments a WHERE a.turn = r.id"
_RECEIVED_ELSEWHERE = (  # by the session, when it was in another chat
    f"SELECT i.id, a.path FROM {_RECENT_TURNS} CROSS JOIN inbox i CROSS JOIN attachments a "
    "WHERE r.key <> :key AND i.turn = r.id AND a.inbox = i.id"
)


class StoredAttachment(Struct, frozen=True):
    """A row of the table `attachments`."""

    id: str
    inbox: str | None
    turn: str | None
    name: str
    reference: str
    media_type: str
    size: int | None
    state: AttachmentState
    path: str | None
    problem: str | None
    attempts: int


def _as_stored(row: Row) -> StoredAttachment:
    return StoredAttachment(*(*row[:7], AttachmentState(row[7]), *row[8:]))


class PendingAttachment(Struct, frozen=True):
    """A file that is to be fetched, for a message of a key."""

    file: StoredAttachment
    key: str
    due_at: int


class Attachments:
    def __init__(self, database: Database) -> None:
        self._database = database

    def new_id(self) -> str:
        return self._database.ids.new("att")

    async def pending(self, run: str) -> list[PendingAttachment]:
        """Return the files that messages wait for, where the lease is ours or free, in the order of the chats."""

        def transaction(tx: Tx) -> list[PendingAttachment]:
            selects = (f"{sql} AND {leases.OURS_OR_IDLE}" for sql in (_PENDING_OF_MESSAGES, _PENDING_OF_GOALS))
            rows = [row for sql in selects for row in tx.all(sql, run=run)]
            rows.sort(key=lambda row: (row[11], row[13], row[14]))  # sorted here: SQLite would read all messages
            return [PendingAttachment(_as_stored(row[:11]), row[11], row[12]) for row in rows]

        return await self._database.read(transaction)

    async def hold_lease(self, pending: PendingAttachment, run: str) -> bool:
        """Take the lease of the key before fetching. False: another run has it, or no message waits any more."""

        def transaction(tx: Tx) -> bool:
            return leases.hold(tx, pending.key, run) and has_pending(tx, str(pending.file.inbox))

        return await self._database.write(transaction, key=pending.key)

    async def fetched_path(self, pending: PendingAttachment) -> str | None:
        """Return the path of a file that was fetched before by the same reference, from the same platform."""
        return await self._database.read(lambda tx: _fetched_path(tx, pending))

    async def fetched_bytes(self, key: str) -> int:
        """Return how many bytes the files have that came in a conversation."""
        sql = (
            "SELECT COALESCE(SUM(a.size), 0) FROM inbox i CROSS JOIN attachments a "
            f"WHERE i.key = :key AND a.inbox = i.id AND a.state = '{AttachmentState.FETCHED}'"
        )
        return await self._database.read(lambda tx: int(tx.all(sql, key=key)[0][0]))

    async def of_conversation(self, key: str) -> list[str]:
        """Return the paths of the newest files that came or were sent in a conversation, the newest first."""
        return await self._database.read(lambda tx: _paths_of_conversation(tx, key))

    async def record_fetched(self, pending: PendingAttachment, path: str, size: int) -> bool:
        """Record that the file is on disk. After return: the message no longer waits for this file.

        False: the message is gone, and nobody needs the file.
        """
        sql = (
            f"UPDATE attachments SET state = '{AttachmentState.FETCHED}', path = :path, size = :size "
            f"WHERE id = :id AND state = '{AttachmentState.REFERENCED}'"
        )
        values = {"path": path, "size": size, "id": pending.file.id}
        return await self._database.write(lambda tx: bool(tx.run(sql, **values)), key=pending.key)

    async def retry_later(self, pending: PendingAttachment, due_at: int, *, counts: bool) -> None:
        """Set the time of the next attempt. After return: this attempt counts, if `counts`."""
        sql = (
            "UPDATE attachments SET attempts = attempts + :used, due_at = :due_at "
            f"WHERE id = :id AND state = '{AttachmentState.REFERENCED}'"
        )
        values = {"used": int(counts), "due_at": due_at, "id": pending.file.id}
        await self._database.write(lambda tx: tx.run(sql, **values), key=pending.key)

    async def record_failed(self, pending: PendingAttachment, problem: str, now: int) -> None:
        """Give up a file, and tell the chat. After return: the message no longer waits for it."""
        await self._database.write(lambda tx: _record_failed(tx, pending, problem), key=pending.key, at=now)

    async def record_upload(
        self,
        name: str,
        kind: str,
        path: str,
        size: int,
        now: int,
        *,
        id: str,  # noqa: A002
    ) -> StoredAttachment:
        """Record a file that was uploaded before the message that will name it."""
        file = StoredAttachment(
            id,
            None,
            None,
            display_file_name(name),
            id,
            safe_media_type(kind),
            size,
            AttachmentState.FETCHED,
            path,
            None,
            0,
        )
        await self._database.write(lambda tx: insert(tx, file), key=id, at=now)
        return file

    async def get(self, file: str) -> StoredAttachment | None:
        sql = f"SELECT {_COLUMNS} FROM attachments a WHERE a.id = :id"
        row = await self._database.read(lambda tx: tx.one(sql, id=file))
        return _as_stored(row) if row else None

    async def of_turns(self, turns: list[str]) -> list[StoredAttachment]:
        """Return the files that these turns have sent."""
        sql = f"SELECT {_COLUMNS} FROM attachments a WHERE a.turn = :turn ORDER BY a.id"
        return await self._database.read(
            lambda tx: [_as_stored(row) for turn in turns for row in tx.all(sql, turn=turn)]
        )

    async def delete_unused(self, before: int) -> list[str]:
        """Delete the rows of uploads from before a time that no message names; return their ids."""
        sql = f"SELECT id FROM attachments WHERE {_UNUSED} AND created_at < :before"
        if not await self._database.read(lambda tx: tx.one(f"{sql} LIMIT 1", before=before)):
            return []
        delete = f"DELETE FROM attachments WHERE {_UNUSED} AND created_at < :before RETURNING id"
        return await self._database.write(lambda tx: [row[0] for row in tx.all(delete, before=before)])

    async def ids_without_row(self, ids: list[str]) -> list[str]:
        """Return those of the ids that no row has."""
        sql = "SELECT 1 FROM attachments WHERE id = :id"
        return await self._database.read(lambda tx: [name for name in ids if tx.one(sql, id=name) is None])


_UNUSED = "inbox IS NULL AND turn IS NULL"


# ── in ──────────────────────────────────────────────────────────────────────────────────────────────────────


def record_reference(tx: Tx, message: str, ordinal: int, attachment: Attachment) -> None:
    """Record a file that arrived with a message; an upload that the message names is adopted."""
    adopted = tx.run(
        f"UPDATE attachments SET inbox = :inbox, ordinal = :ordinal WHERE id = :id AND {_UNUSED}",
        inbox=message,
        ordinal=ordinal,
        id=attachment.reference,
    )
    if adopted:
        return
    tx.run(
        "INSERT INTO attachments (id, inbox, ordinal, name, reference, media_type, size, state) "
        f"VALUES (:id, :inbox, :ordinal, :name, :reference, :media_type, :size, '{AttachmentState.REFERENCED}')",
        id=tx.ids.new("att"),
        inbox=message,
        ordinal=ordinal,
        name=display_file_name(attachment.name),
        reference=attachment.reference,
        media_type=safe_media_type(attachment.media_type),
        size=attachment.size,
    )


def insert(tx: Tx, file: StoredAttachment) -> None:
    """Insert the row of a file that is on disk, once."""
    tx.run(
        "INSERT INTO attachments (id, ordinal, turn, name, reference, media_type, size, state, path, created_at) "
        "VALUES (:id, 0, :turn, :name, :reference, :media_type, :size, :state, :path, :now) "
        "ON CONFLICT DO NOTHING",
        now=tx.time,
        state=file.state.value,
        **{name: getattr(file, name) for name in _INSERTED_FIELDS},
    )


def record_sent(tx: Tx, reply: OutboxReply, turn: str) -> None:
    """Record a file that a turn sends, so that it can be downloaded, and is erased with its session."""
    if (file := reply.file) is not None:
        named = (file.name, file.id, file.media_type, file.size)
        insert(tx, StoredAttachment(file.id, None, turn, *named, AttachmentState.FETCHED, file.path, None, 0))


_INSERTED_FIELDS = ("id", "turn", "name", "reference", "media_type", "size", "path")


def of_message(tx: Tx, message: str) -> list[StoredAttachment]:
    """Return the files of a message, in their order."""
    sql = f"SELECT {_COLUMNS} FROM attachments a WHERE a.inbox = :inbox ORDER BY a.ordinal"
    return [_as_stored(row) for row in tx.all(sql, inbox=message)]


def as_attachments(tx: Tx, message: str) -> tuple[Attachment, ...]:
    """Return the files of a message as its turn records them."""
    return tuple(
        Attachment(file.name, file.reference, file.media_type, file.size, file.path, file.problem)
        for file in of_message(tx, message)
    )


def has_files(body: str) -> bool:
    """Say whether a message's body lists files; quotes within its text are escaped, so they never match."""
    return '"attachments":[]' not in body


def any_pending(tx: Tx, rows: list[Row]) -> bool:
    """Say whether a file of one of these messages, (id, body, …), is still to be fetched."""
    return any(has_files(row[1]) and has_pending(tx, row[0]) for row in rows)


def before_first_pending(tx: Tx, rows: list[Row]) -> list[Row]:
    """Return the messages before the first that waits for a file, so that none overtakes an earlier one."""
    for index, row in enumerate(rows):
        if any_pending(tx, [row]):
            return rows[:index]
    return rows


def has_pending(tx: Tx, message: str) -> bool:
    """Say whether a file of a message is still to be fetched."""
    sql = f"SELECT 1 FROM attachments WHERE inbox = :inbox AND state = '{AttachmentState.REFERENCED}' LIMIT 1"
    return tx.one(sql, inbox=message) is not None


def _paths_of_conversation(tx: Tx, key: str) -> list[str]:
    sources = (_RECEIVED, _SENT, _RECEIVED_ELSEWHERE)
    selects = (f"{sql} AND a.state = '{AttachmentState.FETCHED}'" for sql in sources)
    rows = [row for sql in selects for row in tx.all(sql, key=key, limit=MAX_MESSAGES)]
    rows.sort(key=lambda row: row[0].rpartition("_")[2], reverse=True)  # by the time in the id, of either kind
    return list(dict.fromkeys(row[1] for row in rows))[:MAX_FILES]


def _fetched_path(tx: Tx, pending: PendingAttachment) -> str | None:
    rows = tx.all(
        "SELECT a.path, i.key FROM attachments a JOIN inbox i ON i.id = a.inbox "
        f"WHERE a.reference = :reference AND a.state = '{AttachmentState.FETCHED}' AND a.id <> :id",
        reference=pending.file.reference,
        id=pending.file.id,
    )
    platform = split_session_key(pending.key)[1].platform
    return next((row[0] for row in rows if split_session_key(row[1])[1].platform == platform), None)


def _record_failed(tx: Tx, pending: PendingAttachment, problem: str) -> None:
    changed = tx.run(
        f"UPDATE attachments SET state = '{AttachmentState.FAILED}', problem = :problem "
        f"WHERE id = :id AND state = '{AttachmentState.REFERENCED}'",
        problem=problem,
        id=pending.file.id,
    )
    if changed:
        words = texts.files.attachment_not_fetched(pending.file.name, problem)
        notice = OutboxReply(
            split_session_key(pending.key)[1], f"{pending.file.inbox}.file.{pending.file.id}", (words,)
        )
        outbox.enqueue(tx, pending.key, None, notice)

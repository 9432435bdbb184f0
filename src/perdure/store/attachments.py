"""Attachments: files that came with messages, were uploaded for one, or are sent by a turn.

The row says where the bytes are, the folder of that name in the home has them. A row is written behind its bytes,
and removed before them: so bytes without a row are nobody's, and never the other way round.
"""

from __future__ import annotations

from msgspec import Struct

from perdure.core import notes
from perdure.core.address import parse_session_key
from perdure.core.files import media_type, shown_name
from perdure.core.messages import Attachment
from perdure.store import leases, outbox
from perdure.store.database import Database, Row, Tx
from perdure.store.ids import Ids
from perdure.store.outbox import Owed

_COLUMNS = (
    "a.id, a.inbox, a.turn, a.name, a.reference, a.media_type, a.size, a.state, a.path, a.problem, a.attempts"
)
# The joins are in this order, or SQLite would rather walk through all files there ever were.
_FILES = (
    f"SELECT {_COLUMNS}, i.key, a.due_at, i.position, a.ordinal FROM inbox i CROSS JOIN attachments a "
    "CROSS JOIN leases WHERE a.inbox = i.id AND a.state = 'referenced' AND leases.key = i.key"
)
_OF_MESSAGES = f"{_FILES} AND i.state = 'waiting' AND i.kind = 'message'"
# Of commands, only what came with one that has set a goal which has not begun.
_OF_GOALS = (
    f"{_FILES.replace('FROM inbox i', 'FROM goals g CROSS JOIN sessions s CROSS JOIN inbox i')} "
    "AND g.state = 'active' AND g.turns = 0 AND s.id = g.session AND i.key = s.key AND i.kind = 'command' "
    "AND i.state = 'obeyed' AND i.received_at > g.created_at - 3600000"
)


class StoredFile(Struct, frozen=True):
    """A row."""

    id: str
    inbox: str | None
    turn: str | None
    name: str
    reference: str
    media_type: str
    size: int | None
    state: str
    path: str | None
    problem: str | None
    attempts: int


class Awaited(Struct, frozen=True):
    """A file that is to be fetched, for the conversation of a key."""

    file: StoredFile
    key: str
    due_at: int


class Attachments:
    def __init__(self, database: Database, ids: Ids) -> None:
        self._database = database
        self._ids = ids

    def new_id(self) -> str:
        return self._ids.new("att")

    async def awaited(self, run: str) -> list[Awaited]:
        """The files that messages wait for in conversations which are ours or free, in the order of the chats."""
        return await self._database.read(lambda tx: _awaited(tx, run))

    async def hold(self, awaited: Awaited, run: str) -> bool:
        """Say that we fetch it, and so have its conversation. False: it is somebody else's, or nobody waits."""

        def work(tx: Tx) -> bool:
            return leases.hold(tx, awaited.key, run) and is_awaited(tx, str(awaited.file.inbox))

        return await self._database.write(work, key=awaited.key)

    async def known(self, awaited: Awaited) -> str | None:
        """The path of a file that came before by the same reference, from the same platform."""
        return await self._database.read(lambda tx: _known(tx, awaited))

    async def fetched(self, awaited: Awaited, path: str, size: int) -> bool:
        """Record that the bytes are here. After return: the message no longer waits for this file.

        False: the message is gone, and nobody wants the bytes.
        """
        sql = (
            "UPDATE attachments SET state = 'fetched', path = :path, size = :size "
            "WHERE id = :id AND state = 'referenced'"
        )
        values = {"path": path, "size": size, "id": awaited.file.id}
        return await self._database.write(lambda tx: bool(tx.run(sql, **values)), key=awaited.key)

    async def retry(self, awaited: Awaited, due_at: int, *, counts: bool) -> None:
        """Try again later. After return: the try counts, whatever happens to us, if it was one."""
        sql = (
            "UPDATE attachments SET attempts = attempts + :used, due_at = :due_at "
            "WHERE id = :id AND state = 'referenced'"
        )
        values = {"used": int(counts), "due_at": due_at, "id": awaited.file.id}
        await self._database.write(lambda tx: tx.run(sql, **values), key=awaited.key)

    async def fail(self, awaited: Awaited, problem: str, now: int) -> None:
        """Give a file up, and owe the chat the news. After return: the message no longer waits for it."""
        await self._database.write(lambda tx: _fail(tx, self._ids, awaited, problem, now), key=awaited.key)

    async def uploaded(self, name: str, kind: str, path: str, size: int, now: int, *, id: str) -> StoredFile:  # noqa: A002
        """Record a file that somebody sent ahead of the message that will name it."""
        file = StoredFile(id, None, None, shown_name(name), id, media_type(kind), size, "fetched", path, None, 0)
        await self._database.write(lambda tx: put(tx, file, now), key=id)
        return file

    async def get(self, file: str) -> StoredFile | None:
        sql = f"SELECT {_COLUMNS} FROM attachments a WHERE a.id = :id"
        row = await self._database.read(lambda tx: tx.one(sql, id=file))
        return StoredFile(*row) if row else None

    async def of_turns(self, turns: list[str]) -> list[StoredFile]:
        """The files that these turns have sent."""
        sql = f"SELECT {_COLUMNS} FROM attachments a WHERE a.turn = :turn ORDER BY a.id"
        return await self._database.read(
            lambda tx: [StoredFile(*row) for turn in turns for row in tx.all(sql, turn=turn)]
        )

    async def unused(self, before: int) -> list[str]:
        """Forget what was uploaded before a moment and named by no message; their ids."""
        sql = f"SELECT id FROM attachments WHERE {_UNUSED} AND created_at < :before"
        if not await self._database.read(lambda tx: tx.one(f"{sql} LIMIT 1", before=before)):
            return []
        delete = f"DELETE FROM attachments WHERE {_UNUSED} AND created_at < :before RETURNING id"
        return await self._database.write(lambda tx: [row[0] for row in tx.all(delete, before=before)])

    async def strangers(self, names: list[str]) -> list[str]:
        """Of these ids, those that no row has."""
        sql = "SELECT 1 FROM attachments WHERE id = :id"
        return await self._database.read(lambda tx: [name for name in names if tx.one(sql, id=name) is None])


_UNUSED = "inbox IS NULL AND turn IS NULL"


# ── in ──────────────────────────────────────────────────────────────────────────────────────────────────────


def refer(tx: Tx, ids: Ids, message: str, ordinal: int, attachment: Attachment) -> None:
    """Write down that a file came with a message; one that was uploaded for it is here already."""
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
        "VALUES (:id, :inbox, :ordinal, :name, :reference, :media_type, :size, 'referenced')",
        id=ids.new("att"),
        inbox=message,
        ordinal=ordinal,
        name=shown_name(attachment.name),
        reference=attachment.reference,
        media_type=media_type(attachment.media_type),
        size=attachment.size,
    )


def put(tx: Tx, file: StoredFile, now: int) -> None:
    """Write down a file that is here, once."""
    tx.run(
        "INSERT INTO attachments (id, ordinal, turn, name, reference, media_type, size, state, path, created_at) "
        "VALUES (:id, 0, :turn, :name, :reference, :media_type, :size, :state, :path, :now) "
        "ON CONFLICT DO NOTHING",
        now=now,
        **{name: getattr(file, name) for name in _PUT},
    )


def put_sent(tx: Tx, reply: Owed, turn: str, now: int) -> None:
    """Write down a file that a turn sends, so that it can be had, and goes with its session."""
    if (file := reply.file) is not None:
        named = (file.name, file.id, file.media_type, file.size)
        put(tx, StoredFile(file.id, None, turn, *named, "fetched", file.path, None, 0), now)


_PUT = ("id", "turn", "name", "reference", "media_type", "size", "state", "path")


def of_message(tx: Tx, message: str) -> list[StoredFile]:
    """The files of a message, in their order."""
    sql = f"SELECT {_COLUMNS} FROM attachments a WHERE a.inbox = :inbox ORDER BY a.ordinal"
    return [StoredFile(*row) for row in tx.all(sql, inbox=message)]


def as_attached(tx: Tx, message: str) -> tuple[Attachment, ...]:
    """The files of a message as its turn keeps them."""
    return tuple(
        Attachment(file.name, file.reference, file.media_type, file.size, file.path, file.problem)
        for file in of_message(tx, message)
    )


def has_files(body: str) -> bool:
    """Whether a message came with files, as far as its body says; a quote within a text is never bare."""
    return '"attachments":[]' not in body


def are_awaited(tx: Tx, rows: list[Row]) -> bool:
    """Whether a file of one of these messages, (id, body, …), is still to be fetched."""
    return any(has_files(row[1]) and is_awaited(tx, row[0]) for row in rows)


def up_to_awaited(tx: Tx, rows: list[Row]) -> list[Row]:
    """The messages before the first that waits for a file: nobody is heard before those who wrote earlier."""
    for place, row in enumerate(rows):
        if are_awaited(tx, [row]):
            return rows[:place]
    return rows


def is_awaited(tx: Tx, message: str) -> bool:
    """Whether a file of a message is still to be fetched."""
    sql = "SELECT 1 FROM attachments WHERE inbox = :inbox AND state = 'referenced' LIMIT 1"
    return tx.one(sql, inbox=message) is not None


def _awaited(tx: Tx, run: str) -> list[Awaited]:
    rows = [
        row for sql in (_OF_MESSAGES, _OF_GOALS) for row in tx.all(f"{sql} AND {leases.OURS_OR_FREE}", run=run)
    ]
    rows.sort(key=lambda row: (row[11], row[13], row[14]))  # not by SQLite, which would walk through all messages
    return [Awaited(StoredFile(*row[:11]), row[11], row[12]) for row in rows]


def _known(tx: Tx, awaited: Awaited) -> str | None:
    rows = tx.all(
        "SELECT a.path, i.key FROM attachments a JOIN inbox i ON i.id = a.inbox "
        "WHERE a.reference = :reference AND a.state = 'fetched' AND a.id <> :id",
        reference=awaited.file.reference,
        id=awaited.file.id,
    )
    platform = parse_session_key(awaited.key)[1].platform
    return next((row[0] for row in rows if parse_session_key(row[1])[1].platform == platform), None)


def _fail(tx: Tx, ids: Ids, awaited: Awaited, problem: str, now: int) -> None:
    changed = tx.run(
        "UPDATE attachments SET state = 'failed', problem = :problem WHERE id = :id AND state = 'referenced'",
        problem=problem,
        id=awaited.file.id,
    )
    if changed:
        words = notes.file_not_fetched(awaited.file.name, problem)
        told = Owed(parse_session_key(awaited.key)[1], f"{awaited.file.inbox}.file.{awaited.file.id}", (words,))
        outbox.owe(tx, ids, awaited.key, None, told, now)

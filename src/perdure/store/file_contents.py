"""The bytes of attachments in a database that several gateways share: in chunks, each written and read by itself.

The chunks of a file are written first, under a content that counts for nothing. The transaction that records the
attachment makes it count (`settle`), and the one that deletes the attachment ends that (`release`). So a crash
leaves at most a content that nobody reads, and `delete_dead` removes it. On SQLite, files are in the home alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator

from msgspec import Struct

from perdure.core.states import AttachmentState, ContentState
from perdure.errors import ContentDamaged
from perdure.store.database import FILES, Database, Tx

CHUNK_BYTES = 256 * 1024
CHUNKS_PER_DELETION = 64
ABANDONED_AFTER_MS = 86_400_000  # since the last chunk, for a content that was never made to count

_RUN_LIVES = "EXISTS (SELECT 1 FROM runs r WHERE r.id = file_contents.run AND r.ended_at IS NULL)"
_DEAD = (
    f"SELECT id FROM file_contents WHERE state = '{ContentState.ERASED}' "
    f"OR (state = '{ContentState.WRITING}' AND (written_at < :before OR NOT {_RUN_LIVES})) ORDER BY id LIMIT 1"
)


class StoredContent(Struct, frozen=True):
    """The bytes of an attachment that can be read."""

    id: str
    size: int
    digest: str


class FileContents:
    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def shared(self) -> bool:
        """Whether files belong into the database: where no lock keeps other gateways out."""
        return not self._database.exclusive

    async def begin(self, attachment: str, run: str) -> str:
        """Begin to write the bytes of an attachment; return the id of the content, which does not count yet."""
        content = self._database.ids.new("fc")
        sql = (
            "INSERT INTO file_contents (id, attachment, state, run, size, written_at) "
            f"VALUES (:id, :attachment, '{ContentState.WRITING}', :run, 0, :now)"
        )

        def transaction(tx: Tx) -> None:
            tx.run(sql, id=content, attachment=attachment, run=run, now=tx.time)

        await self._database.write(transaction, key=FILES)
        return content

    async def append(self, content: str, number: int, piece: bytes) -> bool:
        """Write a chunk. False: the content was given up meanwhile, because its run was declared dead."""
        return await self._database.write(lambda tx: _append(tx, content, number, piece), key=FILES)

    async def complete(self, content: str, digest: str) -> None:
        """Record the digest of a content whose chunks are all written."""
        sql = "UPDATE file_contents SET digest = :digest WHERE id = :id"
        await self._database.write(lambda tx: tx.run(sql, digest=digest, id=content), key=FILES)

    async def discard(self, content: str) -> None:
        """Give up a content that was never made to count, and delete what was written of it."""
        sql = (
            f"UPDATE file_contents SET state = '{ContentState.ERASED}' "
            f"WHERE id = :id AND state = '{ContentState.WRITING}'"
        )
        await self._database.write(lambda tx: tx.run(sql, id=content), key=FILES)
        await self.delete_dead()

    async def settle_older(self, attachment: str) -> bool:
        """Make the content of an attachment count whose row is from before. False: the row is gone."""

        def transaction(tx: Tx) -> bool:
            sql = f"SELECT 1 FROM attachments WHERE id = :id AND state = '{AttachmentState.FETCHED}'"
            if tx.one(f"{sql}{tx.for_update}", id=attachment) is None:
                return False
            settle(tx, attachment)
            return True

        return await self._database.write(transaction, key=attachment)

    async def find(self, attachment: str) -> StoredContent | None:
        """Return the content of an attachment; None: the database does not have it."""
        sql = (
            "SELECT id, size, digest FROM file_contents "
            f"WHERE attachment = :id AND state = '{ContentState.STORED}'"
        )
        row = await self._database.read(lambda tx: tx.one(sql, id=attachment))
        return StoredContent(*row) if row else None

    async def chunks(self, content: StoredContent) -> AsyncGenerator[bytes]:
        """Yield the bytes of a content, a chunk at a time. `ContentDamaged`: they changed, or are erased."""
        digest, number, size = hashlib.sha256(), 0, 0
        while size < content.size:
            chunk = await self._chunk(content.id, number)
            digest.update(chunk)
            yield chunk
            number, size = number + 1, size + len(chunk)
        if digest.hexdigest() != content.digest:
            raise ContentDamaged(f"the bytes of {content.id} are not those that were written")

    async def _chunk(self, content: str, number: int) -> bytes:
        sql = "SELECT bytes FROM file_chunks WHERE content = :id AND number = :number"
        row = await self._database.read(lambda tx: tx.one(sql, id=content, number=number))
        if row is None:
            raise ContentDamaged(f"chunk {number} of {content} is gone")
        return bytes(row[0])

    async def total_bytes(self) -> int:
        """Return how many bytes all contents have, also those that are being written."""
        sql = f"SELECT COALESCE(SUM(size), 0) FROM file_contents WHERE state <> '{ContentState.ERASED}'"
        return await self._database.read(lambda tx: int(tx.all(sql)[0][0]))

    async def missing(self, attachments: list[str]) -> list[tuple[str, str]]:
        """Return the id and path of those recorded attachments whose bytes are not in the database."""
        sql = (
            f"SELECT id, path FROM attachments WHERE id = :id AND state = '{AttachmentState.FETCHED}' "
            "AND NOT EXISTS (SELECT 1 FROM file_contents c WHERE c.attachment = attachments.id "
            f"AND c.state = '{ContentState.STORED}')"
        )
        found = await self._database.read(lambda tx: [tx.one(sql, id=each) for each in attachments])
        return [(row[0], row[1]) for row in found if row is not None]

    async def delete_dead(self) -> int:
        """Delete every content that was erased, or whose writing was given up; return how many there were.

        If we die inside: some chunks are gone, and the next call deletes the rest.
        """
        count = 0
        while (content := await self._next_dead()) is not None:
            count += await self._delete(content)
        return count

    async def _delete(self, content: str) -> bool:
        """Delete some chunks of a content; True: all are gone, and so is the content."""
        return await self._database.write(lambda tx: _delete_some(tx, content), key=FILES)

    async def _next_dead(self) -> str | None:
        row = await self._database.read(lambda tx: tx.one(_DEAD, before=tx.time - ABANDONED_AFTER_MS))
        return row[0] if row else None


def settle(tx: Tx, attachment: str) -> None:
    """Make the newest complete content of an attachment count, which is recorded in the same transaction."""
    tx.run(
        f"UPDATE file_contents SET state = '{ContentState.STORED}' WHERE id = (SELECT MAX(id) FROM file_contents "
        f"WHERE attachment = :id AND state = '{ContentState.WRITING}' AND digest IS NOT NULL) "
        "AND NOT EXISTS (SELECT 1 FROM file_contents c "
        f"WHERE c.attachment = :id AND c.state = '{ContentState.STORED}')",
        id=attachment,
    )


def release(tx: Tx, attachments: str, **values: object) -> None:
    """Let nobody read the contents of attachments that are deleted in the same transaction.

    `attachments` is SQL that selects their ids.
    """
    tx.run(
        f"UPDATE file_contents SET state = '{ContentState.ERASED}' WHERE attachment IN ({attachments})", **values
    )


def _append(tx: Tx, content: str, number: int, piece: bytes) -> bool:
    held = tx.run(  # the row is ours until the commit: nobody deletes it meanwhile
        "UPDATE file_contents SET size = size + :size, written_at = :now "
        f"WHERE id = :id AND state = '{ContentState.WRITING}'",
        size=len(piece),
        now=tx.time,
        id=content,
    )
    if held:
        sql = "INSERT INTO file_chunks (content, number, bytes) VALUES (:id, :number, :bytes)"
        tx.run(sql, id=content, number=number, bytes=piece)
    return bool(held)


def _delete_some(tx: Tx, content: str) -> bool:
    """Delete a bounded number of a content's chunks; True: all are gone, and so is the content."""
    erased, stored = ContentState.ERASED, ContentState.STORED
    sql = f"UPDATE file_contents SET state = '{erased}' WHERE id = :id AND state <> '{stored}'"
    if not tx.run(sql, id=content):
        return True  # it counts since we looked, or another gateway was quicker
    gone = tx.run(
        "DELETE FROM file_chunks WHERE content = :id AND number IN "
        "(SELECT number FROM file_chunks WHERE content = :id ORDER BY number LIMIT :limit)",
        id=content,
        limit=CHUNKS_PER_DELETION,
    )
    if gone == CHUNKS_PER_DELETION:
        return False
    tx.run("DELETE FROM file_contents WHERE id = :id", id=content)
    return True

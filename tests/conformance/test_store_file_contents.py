"""The bytes of attachments in the store, on both databases: what counts, what can be read, what is deleted.

Drives `store/file_contents`, `store/attachments` and `store/erasure`.
"""

from __future__ import annotations

import hashlib

import pytest

from perdure.core.messages import Attachment, Inbound, Sender
from perdure.errors import ContentDamaged
from perdure.store.file_contents import ABANDONED_AFTER_MS, StoredContent
from perdure.testing import SettableClock
from support.store_gateway import StoreGateway, chat_address, everybody_may_join, key_of

pytestmark = pytest.mark.anyio

PIECES = (b"half of it, ", bytes(range(256)))
WHOLE = b"".join(PIECES)


async def write(gateway: StoreGateway, attachment: str, *pieces: bytes, digest: str | None = None) -> str:
    contents = gateway.store.file_contents
    content = await contents.begin(attachment, gateway.run)
    for number, piece in enumerate(pieces):
        assert await contents.append(content, number, piece)
    await contents.complete(content, digest or hashlib.sha256(b"".join(pieces)).hexdigest())
    return content


async def upload(gateway: StoreGateway, attachment: str = "att_1") -> None:
    path = f"attachments/{attachment}/a.txt"
    await gateway.store.attachments.record_upload("a.txt", "", path, len(WHOLE), gateway.now(), id=attachment)


async def read(gateway: StoreGateway, attachment: str = "att_1") -> bytes | None:
    content = await gateway.store.file_contents.find(attachment)
    return await read_content(gateway, content) if content else None


async def read_content(gateway: StoreGateway, content: StoredContent) -> bytes:
    return b"".join([chunk async for chunk in gateway.store.file_contents.chunks(content)])


async def rows(gateway: StoreGateway) -> tuple[int, int]:
    [(contents,)] = await gateway.query("SELECT count(*) FROM file_contents")
    [(chunks,)] = await gateway.query("SELECT count(*) FROM file_chunks")
    return contents, chunks


async def test_b165_bytes_count_from_the_record_of_their_attachment_until_it_is_gone(
    gateway: StoreGateway,
) -> None:
    contents = gateway.store.file_contents
    await write(gateway, "att_1", *PIECES)
    assert await read(gateway) is None, "nothing names them yet"
    assert await contents.delete_dead() == 0, "their run lives"
    assert await contents.missing(["att_1", "att_2"]) == []
    await upload(gateway)
    assert await read(gateway) == WHOLE
    assert await contents.total_bytes() == len(WHOLE)
    assert await gateway.store.attachments.delete_unused(gateway.now() + 1) == ["att_1"]
    assert (await read(gateway), await contents.total_bytes()) == (None, 0)
    assert await contents.delete_dead() == 1
    assert await rows(gateway) == (0, 0)


async def test_b165_attachment_from_before_gets_its_bytes_once(gateway: StoreGateway) -> None:
    contents = gateway.store.file_contents
    await upload(gateway)
    assert await contents.missing(["att_1", "att_2"]) == [("att_1", "attachments/att_1/a.txt")]
    await write(gateway, "att_1", *PIECES)
    await write(gateway, "att_2", b"of nobody")
    assert await contents.settle_older("att_1")
    assert not await contents.settle_older("att_2")
    await write(gateway, "att_1", b"others")
    assert await contents.settle_older("att_1")
    assert await read(gateway) == WHOLE
    assert await contents.missing(["att_1"]) == []


async def test_b165_what_a_dead_run_or_nobody_for_long_has_written_is_deleted(gateway: StoreGateway) -> None:
    left = await write(gateway, "att_1", *PIECES)
    gateway.clock = clock = SettableClock()
    await gateway.reopen()
    assert await gateway.store.file_contents.delete_dead() == 1
    fresh = await write(gateway, "att_2", b"fresh")
    assert await gateway.store.file_contents.delete_dead() == 0
    clock.move(ABANDONED_AFTER_MS / 1000 + 1)
    assert await gateway.store.file_contents.delete_dead() == 1
    assert await rows(gateway) == (0, 0)
    for gone in (left, fresh):
        assert not await gateway.store.file_contents.append(gone, 2, b"late"), "it was given up"


async def test_bytes_that_changed_or_went_are_not_taken_for_the_file(gateway: StoreGateway) -> None:
    await write(gateway, "att_1", *PIECES, digest="another")
    await upload(gateway)
    with pytest.raises(ContentDamaged, match="not those that were written"):
        await read(gateway)
    await write(gateway, "att_2", *PIECES)
    await upload(gateway, "att_2")
    found = await gateway.store.file_contents.find("att_2")
    assert found is not None
    await gateway.store.attachments.delete_unused(gateway.now() + 1)
    await gateway.store.file_contents.delete_dead()
    with pytest.raises(ContentDamaged, match="is gone"):
        await read_content(gateway, found)


async def test_b104_bytes_go_with_their_session(gateway: StoreGateway) -> None:
    await write(gateway, "att_1", *PIECES)
    await upload(gateway)
    said = Inbound(chat_address(), "1", Sender("ada"), "look", attachments=(Attachment("a.txt", "att_1"),))
    stored = await gateway.store.inbox.receive(said, "raw", key_of(), gateway.now(), may_join=everybody_may_join)
    assert await read(gateway) == WHOLE
    assert await gateway.store.erasure.begin(stored.session, gateway.now())
    erased = await gateway.store.erasure.finish(stored.session, gateway.now())
    assert erased is not None and erased.attachments == 1
    assert await read(gateway) is None
    assert await gateway.store.file_contents.delete_dead() == 1
    assert await rows(gateway) == (0, 0)

"""Files through any of several gateways on one PostgreSQL, whichever took them, and whoever dies on the way.

Drives `store/file_contents`, `runtime/attachment_cache`, `runtime/erasure` and `operations/personal_data`.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import psycopg
import pytest

from perdure.core.address import Address, session_key
from perdure.core.messages import Attachment, Inbound, Sender
from perdure.store.file_contents import CHUNK_BYTES
from perdure.tools.attachments import AttachmentFiles
from support.chat_folders import chat_workspace
from support.gateway import COMMAND, GatewayProcess, Person
from support.gateway_pair import GatewayPair, call
from support.store_gateway import DatabaseLocation, StoreGateway, everybody_may_join
from support.waiting import wait_for

CONTENT = os.urandom(3 * CHUNK_BYTES + 1)
ROWS = "SELECT (SELECT count(*) FROM file_contents), (SELECT count(*) FROM file_chunks)"


@pytest.fixture
def pair(tmp_path: Path, postgres_url: str) -> Iterator[GatewayPair]:
    pair = GatewayPair(tmp_path, postgres_url)
    yield pair
    pair.close()


def upload(process: GatewayProcess, name: str = "notes.bin", content: bytes = CONTENT) -> str:
    answered = call(process, "POST", f"/api/attachments?name={name}", content=content)
    assert answered.status_code == 201, answered.text
    return str(answered.json()["id"])


def download(process: GatewayProcess, file: str) -> httpx.Response:
    return call(process, "GET", f"/api/attachments/{file}")


def say(process: GatewayProcess, text: str, *files: str, chat: str = "home") -> Person:
    person = Person(process, chat)
    person.request(
        "POST", "/messages", json={"id": f"m{len(person.messages())}", "text": text, "attachments": files}
    )
    return person


def sent_file(person: Person) -> str:
    """The id of the newest file that the agent has sent."""
    files = [
        file["id"]
        for each in person.messages()
        if each["author"] == "agent"
        for file in each.get("attachments", [])
    ]
    return str(files[-1])


def key(chat: str = "home") -> str:
    return f"agent:main:web:dm:{chat}"


def test_b165_upload_to_one_gateway_is_read_through_the_other_at_once_and_by_its_agent(pair: GatewayPair) -> None:
    pair.start()
    file = upload(pair.first)
    given = download(pair.second, file)
    assert given.content == CONTENT
    assert not list((pair.first.home / "attachments").glob("*/.part"))
    assert pair.first.stop() == 0
    path = pair.second.home / "attachments" / file / "notes.bin"
    path.unlink()  # the home is a cache
    person = say(pair.second, f"run: cp {path} copy.bin\nsend: copy.bin\nsay: done", file)
    assert person.wait_for_replies(2)[-1] == "done"
    assert download(pair.second, sent_file(person)).content == CONTENT
    assert pair.query("SELECT state, size FROM file_contents ORDER BY id") == [("stored", len(CONTENT))] * 2


def test_b165_file_that_an_agent_sends_is_given_out_by_every_gateway(pair: GatewayPair) -> None:
    pair.first.start()
    (chat_workspace(pair.first.home) / "plan.bin").write_bytes(CONTENT)
    person = say(pair.first, "send: plan.bin\nsay: done")
    person.wait_for_replies(2)
    file = sent_file(person)
    pair.first.kill()
    pair.second.start()
    assert download(pair.second, file).content == CONTENT


def test_b165_all_files_together_have_one_limit_over_all_gateways(tmp_path: Path, postgres_url: str) -> None:
    pair = GatewayPair(tmp_path, postgres_url, ATTACHMENTS__MAX_TOTAL="1")
    try:
        pair.start()
        upload(pair.first, content=bytes(600_000))
        refused = call(pair.second, "POST", "/api/attachments?name=b", content=bytes(600_000))
        assert (refused.status_code, "there is no room for it" in refused.json()["error"]) == (507, True)
        assert not list((pair.second.home / "attachments").glob("*/*"))
        upload(pair.second, content=bytes(300_000))
        (chat_workspace(pair.second.home) / "plan.bin").write_bytes(bytes(200_000))
        person = say(pair.second, "send: plan.bin\nsay: done")
        person.wait_for_replies(1)
        assert pair.query(ROWS) == [(2, 5)]
    finally:
        pair.close()


def test_b104_erasing_through_one_gateway_removes_the_bytes_and_every_copy(pair: GatewayPair) -> None:
    pair.start()
    file = upload(pair.first)
    person = say(pair.first, "say: thanks", file)
    person.wait_for_replies(1)
    assert download(pair.second, file).content == CONTENT
    erased = subprocess.run(
        [*COMMAND, "erase", key(), "--yes"], env=pair.second.environment(), capture_output=True, text=True
    )
    assert erased.returncode == 0, erased.stderr
    assert pair.query(ROWS) == [(0, 0)]
    assert download(pair.second, file).status_code == 404
    assert download(pair.first, file).status_code == 404
    assert not list((pair.second.home / "attachments").glob("*/*"))
    assert pair.first.stop() == 0
    pair.first.start()
    wait_for("its copy is gone too", lambda: not list((pair.first.home / "attachments").glob("*/*")))


def test_b165_killed_upload_counts_for_nothing_and_is_removed(pair: GatewayPair) -> None:
    pair.start()
    content = os.urandom(15_000_000)

    def upload_until_it_dies() -> None:
        with pytest.raises(httpx.HTTPError):
            upload(pair.first, content=content)

    sender = threading.Thread(target=upload_until_it_dies)
    with psycopg.connect(pair.url) as connection:
        sender.start()
        wait_for("some chunks are there", lambda: pair.query("SELECT 1 FROM file_contents WHERE size > 0"))
        connection.execute("LOCK TABLE file_chunks IN EXCLUSIVE MODE")
        pair.first.kill()
    sender.join()
    [(state, size, digest)] = pair.query("SELECT state, size, digest FROM file_contents")
    assert (state, digest) == ("writing", None)
    assert 0 < size < len(content)
    assert pair.query("SELECT count(*) FROM attachments") == [(0,)]
    pair.first.start()
    wait_for("what was left is gone", lambda: pair.query(ROWS) == [(0, 0)])


def test_b104_export_has_the_files_that_another_home_took(pair: GatewayPair, tmp_path: Path) -> None:
    pair.start()
    say(pair.first, "say: thanks", upload(pair.first)).wait_for_replies(1)
    command = [*COMMAND, "export", "--session", key(), "--output", str(tmp_path / "out.json")]
    done = subprocess.run(command, env=pair.second.environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    [copy] = (tmp_path / "out-files").glob("*/*")
    assert (copy.name, copy.read_bytes()) == ("notes.bin", CONTENT)
    assert not (pair.second.home / "attachments").exists()


@pytest.mark.anyio
async def test_b165_files_of_a_home_from_before_are_copied_by_their_gateway(pair: GatewayPair) -> None:
    """Files that were recorded when each home had its own."""

    async def pieces() -> AsyncIterator[bytes]:
        yield CONTENT

    old = await StoreGateway(DatabaseLocation(pair.url, pair.first.home.parent), "one").open()
    file = old.store.attachments.new_id()
    saved = await AttachmentFiles(pair.first.home).save(file, "old.bin", pieces(), len(CONTENT))
    await old.store.attachments.record_upload("old.bin", "", saved.path, saved.size, old.now(), id=file)
    said = Inbound(
        Address("web", "dm", "home"), "1", Sender("owner"), "look", attachments=(Attachment("old.bin", file),)
    )
    await old.store.inbox.receive(
        said, "raw", session_key("main", said.address), old.now(), may_join=everybody_may_join
    )
    await old.stop()
    await asyncio.to_thread(pair.second.start)
    missing = await asyncio.to_thread(download, pair.second, file)
    assert (missing.status_code, "it copies it when it runs" in missing.json()["hint"]) == (404, True)
    await asyncio.to_thread(pair.first.start)
    await asyncio.to_thread(
        wait_for, "it is copied", lambda: pair.query("SELECT 1 FROM file_contents WHERE state = 'stored'")
    )
    assert (await asyncio.to_thread(download, pair.second, file)).content == CONTENT

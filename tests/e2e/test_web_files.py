"""Files over HTTP through a real gateway: sent ahead of their message, named by it, and given back.

Drives `web/api/attachments` and `tools/attachments`.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from perdure.core import texts
from perdure.testing import SettableClock, SimulatedPlatform
from support.gateway import GatewayProcess, Person, gateway
from support.inprocess import make_gateway
from support.openapi_check import check_response
from support.telegram import query_database
from support.waiting import eventually, wait_for

CONTENT = os.urandom(3_000_000)


@pytest.fixture
def process(tmp_path: Path) -> Iterator[GatewayProcess]:
    with gateway(tmp_path / "home", INBOX__MAX_FILE="5") as running:
        yield running


def call(process: GatewayProcess, method: str, path: str, **options: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {process.token}"} | options.pop("headers", {})
    response = httpx.request(
        method, f"{process.url}/api/attachments{path}", headers=headers, timeout=30, **options
    )
    check_response(response)
    return response


def upload(process: GatewayProcess, name: str, content: bytes = b"content", kind: str = "text/plain") -> Any:
    answered = call(process, "POST", f"?name={quote(name)}", content=content, headers={"Content-Type": kind})
    assert answered.status_code == 201, answered.text
    return answered.json()


def test_b70_uploaded_file_is_part_of_its_message_and_given_back(process: GatewayProcess) -> None:
    ann = Person(process)
    file = upload(process, "trip to Rome.bin", CONTENT, "Application/X-Trip; v=1")
    assert file == {
        "id": file["id"],
        "name": "trip to Rome.bin",
        "size": len(CONTENT),
        "media_type": "application/x-trip",
    }
    body = {"id": "1", "text": "", "attachments": [file["id"]]}
    first = ann.request("POST", "/messages", json=body)
    assert (first.status_code, ann.request("POST", "/messages", json=body).status_code) == (202, 200)
    [reply] = ann.wait_for_replies(1)
    [kept] = list((process.home / "attachments").glob("*/*"))
    assert texts.files.attached_line(file["name"], file["media_type"], len(CONTENT), str(kept)) in reply
    said = ann.messages()[0]
    assert said["attachments"] == [file | {"state": "fetched"}]
    event = ann.wait_for_event("the message is told", id=said["id"])
    assert event["attachments"] == said["attachments"]
    given = call(process, "GET", f"/{file['id']}")
    assert given.content == CONTENT
    assert given.headers["content-disposition"].startswith("attachment;")
    assert given.headers["x-content-type-options"] == "nosniff"
    # Named once more, in another chat: it is here, and needs no second upload.
    bob = Person(process, "bob")
    bob.request("POST", "/messages", json=body | {"text": "again"})
    assert (
        texts.files.attached_line(file["name"], file["media_type"], len(CONTENT), "")[:-1]
        in bob.wait_for_replies(1)[0]
    )
    assert len(list((process.home / "attachments").glob("*/*"))) == 2
    # It goes with its session, and stays with the other.
    headers = {"Authorization": f"Bearer {process.token}"}
    session = first.json()["session"]
    erased = httpx.post(f"{process.url}/api/sessions/{session}/erase", headers=headers, timeout=30)
    assert erased.status_code == 200, erased.text
    [left] = list((process.home / "attachments").iterdir())
    assert left.name != file["id"]
    assert call(process, "GET", f"/{file['id']}").status_code == 404
    assert call(process, "GET", f"/{left.name}").content == CONTENT


def test_what_cannot_be_taken_is_refused_and_leaves_nothing(process: GatewayProcess) -> None:
    large = call(process, "POST", "?name=large.bin", content=bytes(5_000_001))
    assert (large.status_code, "larger than 5 MB" in large.json()["error"]) == (413, True)
    assert call(process, "POST", "", content=b"x").status_code == 400
    assert httpx.post(f"{process.url}/api/attachments?name=x", content=b"x").status_code == 401
    assert call(process, "GET", "/att_0").status_code == 404
    assert call(process, "GET", "/..%2Ftoken").status_code == 404
    ann = Person(process)
    unknown = ann.request("POST", "/messages", json={"id": "1", "text": "look", "attachments": ["att_0"]})
    assert (unknown.status_code, unknown.json()["hint"]) == (400, texts.files.UPLOAD_HINT)
    assert ann.request("POST", "/messages", json={"id": "1", "text": " ", "attachments": []}).status_code == 400
    page = upload(process, "../../page.html", b"<script>alert(1)</script>", "text/html")
    given = call(process, "GET", f"/{page['id']}")
    assert "sandbox" in given.headers["content-security-policy"]
    assert [each.name for each in (process.home / "attachments").glob("*/*")] == ["page.html"]


def test_kill_in_the_middle_of_an_upload_leaves_no_file(process: GatewayProcess) -> None:
    with socket.create_connection(("127.0.0.1", process.port)) as line:
        head = (
            f"POST /api/attachments?name=half.bin HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {process.token}\r\n"
        )
        line.sendall(f"{head}Content-Length: {len(CONTENT)}\r\n\r\n".encode() + CONTENT[: len(CONTENT) // 2])
        attachments = process.home / "attachments"
        wait_for(
            "a part is on disk", lambda: [part for part in attachments.glob("*/.part") if part.stat().st_size]
        )
        process.kill()
    assert query_database(process, "SELECT id FROM attachments") == []
    process.start()
    assert list(attachments.glob("*/half.bin")) == []
    assert upload(process, "whole.bin", CONTENT)["size"] == len(CONTENT)


@pytest.mark.anyio
async def test_unused_uploads_and_what_crashes_left_are_removed_by_age(tmp_path: Path) -> None:
    clock, platform, home = SettableClock(), SimulatedPlatform("web"), tmp_path / "home"

    async def pieces() -> Any:
        yield b"content"

    async def run(age: float) -> None:
        clock.move(age)
        serving = make_gateway(home, platform, clock=clock)
        running = asyncio.create_task(serving.run())
        await eventually("it is ready", lambda: serving.phase == "ready")
        if not age:
            taken = await serving.loops.uploads.receive("old.txt", "text/plain", pieces())
            left = home / "attachments" / "att_left"
            left.mkdir()
            (left / ".part").write_bytes(b"half")
            os.utime(left, (1, 1))
            assert await serving.store.attachments.get(taken.id)
        else:
            await eventually("all is removed", lambda: not list((home / "attachments").iterdir()))
        serving.stop()
        await running

    await run(0)
    await run(2 * 86400)


def test_b108_file_is_refused_when_all_files_together_have_no_room(tmp_path: Path) -> None:
    with gateway(tmp_path / "home", ATTACHMENTS__MAX_TOTAL="4") as process:
        kept = upload(process, "first.bin", CONTENT)
        for _ in range(2):
            refused = call(process, "POST", "?name=second.bin", content=CONTENT)
            assert refused.status_code == 507
            assert texts.files.no_room_for_attachments(4_000_000) in refused.json()["error"]
            assert refused.json()["hint"] == texts.files.MAKE_ROOM_HINT
        assert [each.name for each in (process.home / "attachments").iterdir()] == [kept["id"]]
        assert call(process, "GET", f"/{kept['id']}").content == CONTENT
        assert upload(process, "small.txt")["size"] == len(b"content"), "what has room is taken"
        Person(process).say("say: and all goes on")
        assert Person(process).wait_for_replies(1) == ["and all goes on"]

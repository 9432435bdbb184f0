"""Names that others chose, and the place where their files are kept.

Drives `core/file_names` and `tools/attachments`.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.address import Address, session_key
from perdure.core.file_names import (
    MAX_NAME_BYTES,
    UNKNOWN_MEDIA_TYPE,
    chat_folder,
    display_file_name,
    safe_file_name,
    safe_media_type,
)
from perdure.errors import AttachmentQuotaReached, FileTooLarge, ToolFailed
from perdure.tools.attachments import AttachmentFiles, SavedAttachment
from perdure.tools.workspace import ChatFolders, Workspace

NAMES = [
    ("report.pdf", "report.pdf"),
    ("my report (1).pdf", "my_report__1_.pdf"),
    ("/etc/passwd", "passwd"),
    ("..\\..\\boot.ini", "boot.ini"),
    ("..", "file"),
    ("", "file"),
    (".bashrc", "bashrc"),
    ("con.TXT", "_con.TXT"),
    ("$(reboot)`x`;'\"&|.sh", "__reboot__x______.sh"),
    ("Grüße.txt", "Grüße.txt"),
    ("cat\N{RIGHT-TO-LEFT OVERRIDE}gpj.exe", "cat_gpj.exe"),
]


@pytest.mark.parametrize(("name", "safe"), NAMES)
def test_name_is_made_harmless(name: str, safe: str) -> None:
    assert safe_file_name(name) == safe


@given(st.text() | st.text(min_size=200, max_size=400))
def test_any_name_is_one_short_part_of_a_path(name: str) -> None:
    safe = safe_file_name(name)
    assert 0 < len(safe.encode()) <= MAX_NAME_BYTES
    assert Path(safe).name == safe and safe not in (".", "..")
    assert all(each.isalnum() or each in "._-+" for each in safe)
    assert display_file_name(name).isprintable() and len(display_file_name(name)) <= 120


def test_long_name_keeps_its_ending() -> None:
    assert safe_file_name("ü" * 300 + ".docx").endswith("ü.docx")


def test_media_type_is_kept_only_if_it_is_one() -> None:
    assert safe_media_type("Image/PNG; charset=x") == "image/png"
    assert {safe_media_type(odd) for odd in ("", "png", "a/b\r\nX: y", "é/é", "x/" + "y" * 200)} == {
        UNKNOWN_MEDIA_TYPE
    }


# ── the folders of chats ────────────────────────────────────────────────────────────────────────────────────

PARTS = st.text(min_size=1, max_size=8) | st.text(alphabet="abAB01.-_~+/%: ", min_size=1, max_size=4)
KEYS = st.builds(
    lambda chat, thread, person: session_key("main", Address("web", "group", chat, thread), person),
    PARTS | st.text(min_size=200, max_size=300),
    st.none() | PARTS,
    st.none() | PARTS,
)


def test_b180_folder_of_a_chat_can_be_read_by_people() -> None:
    assert chat_folder("agent:main:telegram:dm:12345") == "chats/main~telegram~dm~12345"
    assert chat_folder("agent:main~3:telegram:dm:12345") == "chats/main~telegram~dm~12345"
    assert chat_folder("agent:main:web:dm:Tea%20time") != chat_folder("agent:main:web:dm:tea%20time")


@given(KEYS, KEYS)
def test_b180_every_conversation_has_a_folder_of_its_own(one: str, other: str) -> None:
    folder = chat_folder(one)
    assert (folder.casefold() == chat_folder(other).casefold()) == (one == other)
    top, name = folder.split("/")
    assert top == "chats" and 0 < len(name.encode()) < 200 and not name.startswith(".")
    assert re.fullmatch(r"[a-z0-9._~+-]+", name)


# ── the files ─────────────────────────────────────────────────────────────────────────────────────────────


async def pieces(*contents: bytes) -> AsyncIterator[bytes]:
    for content in contents:
        yield content


def keep(files: AttachmentFiles, *contents: bytes, most: int = 100) -> SavedAttachment:
    return asyncio.run(files.save("att_1", "a b.txt", pieces(*contents), most))


def test_file_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    files = AttachmentFiles(tmp_path)
    kept = keep(files, b"one", b"two")
    assert kept == SavedAttachment("attachments/att_1/a_b.txt", 6)
    place = files.find(kept.path)
    assert place is not None
    assert (place.read_bytes(), stat.S_IMODE(place.stat().st_mode)) == (b"onetwo", 0o600)
    with pytest.raises(FileTooLarge):
        keep(files, b"x" * 60, b"x" * 60)
    assert not (tmp_path / "attachments" / "att_1").exists()


def test_b108_files_together_have_a_limit_whoever_writes_them(tmp_path: Path) -> None:
    people, agent = AttachmentFiles(tmp_path, 100), AttachmentFiles(tmp_path, 100)
    first = people.copy("att_1", "a.txt", io.BytesIO(b"x" * 60), 1000)
    with pytest.raises(AttachmentQuotaReached):
        agent.copy("att_2", "b.txt", io.BytesIO(b"x" * 60), 1000)
    assert not (tmp_path / "attachments" / "att_2").exists()
    assert agent.link("att_3", "a.txt", first.path) is not None, "another name takes no room"
    agent.copy("att_4", "c.txt", io.BytesIO(b"x" * 40), 1000)
    people.remove("att_1", "att_3")
    people.copy("att_5", "d.txt", io.BytesIO(b"x" * 60), 1000)
    with pytest.raises(AttachmentQuotaReached):
        asyncio.run(people.save("att_6", "e.txt", pieces(b"x"), 1000))


def test_what_a_crash_left_is_written_over(tmp_path: Path) -> None:
    files, folder = AttachmentFiles(tmp_path), tmp_path / "attachments" / "att_1"
    folder.mkdir(parents=True)
    (folder / ".part").write_bytes(b"half of something longer")
    keep(files, b"whole")
    assert {each.name: each.read_bytes() for each in folder.iterdir()} == {"a_b.txt": b"whole"}


def test_only_files_of_the_files_are_found(tmp_path: Path) -> None:
    files = AttachmentFiles(tmp_path)
    kept = keep(files, b"x")
    (tmp_path / "token").write_text("secret")
    (tmp_path / "attachments" / "att_1" / "link").symlink_to(tmp_path / "token")
    odd = ["token", "attachments/../token", str(tmp_path / "token"), "attachments/att_1/link", "attachments/att_1"]
    assert [files.find(path) for path in [None, *odd]] == [None] * 6
    assert files.find(kept.path) is not None


def test_copy_and_link_live_on_without_the_first(tmp_path: Path) -> None:
    files = AttachmentFiles(tmp_path)
    first = files.copy("att_1", "plan.txt", io.BytesIO(b"a plan"), 100)
    second = files.link("att_2", "plan.txt", first.path)
    assert second is not None
    files.remove("att_1")
    assert (files.find(first.path), files.link("att_3", "x", first.path)) == (None, None)
    place = files.find(second.path)
    assert place is not None and place.read_bytes() == b"a plan"
    os.utime(tmp_path / "attachments" / "att_2", (1, 1))
    assert files.ids_before(before_seconds=100) == ["att_2"]


def test_tools_read_what_arrived_and_nothing_around_it(tmp_path: Path) -> None:
    files, root = AttachmentFiles(tmp_path), tmp_path / "workspace"
    root.mkdir()
    kept = keep(files, b"x")
    folder, place = Workspace(ChatFolders(root, root, (tmp_path / kept.path,))), str(tmp_path / kept.path)
    found = folder.find(place, allow_attachments=True)
    assert (str(found.path), found.name) == (place, place)
    around = [str(tmp_path / "attachments"), str(tmp_path / "attachments" / "att_1"), str(tmp_path / "token")]
    for path, arrived in [(place, False), *((each, True) for each in around)]:
        with pytest.raises(ToolFailed):
            folder.find(path, allow_attachments=arrived)
    with pytest.raises(ToolFailed), folder.locked(place):
        pass

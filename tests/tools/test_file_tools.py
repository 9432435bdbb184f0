"""The file tools, on real files: what they show, what they change, and that they never leave their folder.

Drives `tools/file_tools`, `tools/file_search` and `tools/file_contents`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from perdure.core.effects import Effect
from perdure.core.tools import Use
from perdure.errors import ToolFailed
from perdure.tools import file_contents, file_search
from perdure.tools.file_tools import file_tools, send_file_tool
from perdure.tools.workspace import OpenBeneath, open_beneath, open_by_parts
from support.chat_folders import shared_folders
from support.waiting import eventually, wait_for

pytestmark = pytest.mark.anyio


class Desk:
    """The file tools over a folder."""

    def __init__(self, root: Path, **more: Any) -> None:
        self.root = root
        sends = send_file_tool(shared_folders(root), root.parent / "home", opener=more.get("opener", open_beneath))
        self.tools = {tool.name: tool for tool in [*file_tools(shared_folders(root), **more), sends]}

    async def use(self, name: str, /, **arguments: Any) -> str:
        return await self.tools[name].run(Use(arguments, "turn:call"))

    async def refusal(self, name: str, /, **arguments: Any) -> str:
        with pytest.raises(ToolFailed) as refused:
            await self.use(name, **arguments)
        return refused.value.message

    def put(self, path: str, content: str | bytes) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    (tmp_path / "root").mkdir()
    return Desk(tmp_path / "root")


def test_b61_effects_say_what_may_be_repeated(desk: Desk) -> None:
    assert {name: tool.effect for name, tool in desk.tools.items()} == {
        "read_file": Effect.PURE,
        "write_file": Effect.PURE,
        "edit_file": Effect.ONCE,
        "search_files": Effect.PURE,
        "send_file": Effect.PURE,
    }


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_file_is_shown_under_a_line_that_says_what_of_it(desk: Desk) -> None:
    desk.put("notes.txt", "one\ntwo\nthree")
    assert await desk.use("read_file", path="notes.txt") == "`notes.txt`, lines 1 to 3 of 3\none\ntwo\nthree"


async def test_part_of_a_file_is_shown_when_it_is_asked_for(desk: Desk) -> None:
    desk.put("notes.txt", "".join(f"line {number}\n" for number in range(1, 101)))
    shown = await desk.use("read_file", path="notes.txt", offset=40, limit=2)
    assert shown == "`notes.txt`, lines 40 to 41 of 100; go on with offset=42\nline 40\nline 41\n"


async def test_whole_lines_are_shown_up_to_the_bound_when_a_file_is_long(desk: Desk) -> None:
    line = "x" * 99 + "\n"
    desk.put("long.txt", line * 5000)
    fit = file_contents.MAX_SHOWN_BYTES // len(line)
    head, _, shown = (await desk.use("read_file", path="long.txt")).partition("\n")
    assert head == f"`long.txt`, lines 1 to {fit} of 5000; go on with offset={fit + 1}"
    assert shown == line * fit


async def test_line_is_cut_at_a_whole_character_when_it_is_too_long(desk: Desk) -> None:
    desk.put("wide.txt", "a" + "é" * 1_000_000 + "\nnext\n")
    head, first, second = (await desk.use("read_file", path="wide.txt")).splitlines()
    assert head == "`wide.txt`, lines 1 to 2 of 2"
    assert (
        first == "a" + "é" * ((file_contents.MAX_LINE_BYTES - 1) // 2) + " [… the rest of this line is left out]"
    )
    assert second == "next"


async def test_huge_file_is_looked_at_only_so_far(desk: Desk) -> None:
    with (desk.root / "huge.txt").open("wb") as file:
        file.write(b"a line\n" * (file_contents.MAX_SCANNED_BYTES // 7 + 10))
        file.truncate(50 << 30)  # sparse: it takes no room
    shown = await desk.use("read_file", path="huge.txt", limit=1)
    assert "lines 1 to 1 of more than" in shown
    assert "is too large" in await desk.refusal(
        "read_file", path="huge.txt", offset=file_contents.MAX_SCANNED_BYTES
    )


@pytest.mark.parametrize(
    ("content", "offset", "sentence"),
    [
        ("", 1, "is empty"),
        ("a\n", 1, "lines 1 to 1 of 1\na\n"),
        ("a", 1, "lines 1 to 1 of 1\na"),
        ("a\nb", 2, "lines 2 to 2 of 2\nb"),
        ("\n\n\nb\n", 4, "lines 4 to 4 of 4\nb\n"),
        ("\n\n\nb\n", 2, "lines 2 to 4 of 4\n\n\nb\n"),
        ("x\n" * 2_000_000 + "y", 2_000_001, "lines 2000001 to 2000001 of 2000001\ny"),
        ("x" * 2_000_000 + "\ny", 2, "lines 2 to 2 of 2\ny"),
    ],
    ids=lambda case: str(case)[:30].encode("unicode_escape").decode(),
)
async def test_edges_of_files_are_named(desk: Desk, content: str, offset: int, sentence: str) -> None:
    desk.put("edge.txt", content)
    assert sentence in await desk.use("read_file", path="edge.txt", offset=offset)


async def test_line_after_the_end_is_refused(desk: Desk) -> None:
    desk.put("short.txt", "a\nb\n")
    assert (
        await desk.refusal("read_file", path="short.txt", offset=3) == "`short.txt` has no line 3: it has 2 lines."
    )


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"\x7fELF\0\0", "is a binary file"),
        ((b"a" * 99 + b"\n") * 100 + b"\0\n", "is a binary file"),
        ("caf\xe9".encode("latin-1"), "is not encoded in UTF-8"),
        ("text".encode("utf-16"), "is a binary file"),
    ],
    ids=["binary", "zero bytes late", "latin-1", "utf-16"],
)
async def test_file_is_refused_in_words_when_it_is_no_text(desk: Desk, content: bytes, sentence: str) -> None:
    desk.put("odd", content)
    assert sentence in await desk.refusal("read_file", path="odd")
    assert sentence in await desk.refusal("edit_file", path="odd", old="a", new="b")
    assert (desk.root / "odd").read_bytes() == content


async def test_folder_is_listed(desk: Desk) -> None:
    desk.put("src/main.py", "")
    desk.put("README", "")
    desk.put(os.fsdecode(b"odd-\xff"), "")
    expected = ["The folder `.`, 3 entries:", "README", "odd-\N{REPLACEMENT CHARACTER}", "src/"]
    assert (await desk.use("read_file", path=".")).splitlines() == expected
    assert await desk.use("read_file", path="src/") == "The folder `src`, 1 entry:\nmain.py"


async def test_listing_is_bounded(desk: Desk) -> None:
    for number in range(file_contents.MAX_ENTRIES + 1):
        desk.put(f"many/{number}", "")
    shown = (await desk.use("read_file", path="many")).splitlines()
    assert shown[0] == f"The folder `many`, {file_contents.MAX_ENTRIES} of more:"
    assert len(shown) == file_contents.MAX_ENTRIES + 1


async def test_pipe_is_refused_and_not_waited_for(desk: Desk) -> None:
    os.mkfifo(desk.root / "pipe")
    for name, more in {
        "read_file": {},
        "write_file": {"content": "a"},
        "edit_file": {"old": "a", "new": ""},
        "send_file": {},
    }.items():
        assert "is not a file but" in await desk.refusal(name, path="pipe", **more)
    assert "No match" in await desk.use("search_files", pattern="a")


async def test_name_of_nothing_is_refused(desk: Desk) -> None:
    assert "`gone.txt` does not exist" in await desk.refusal("read_file", path="gone.txt")
    assert "`gone` does not exist" in await desk.refusal("search_files", pattern="a", path="gone")
    assert "does not exist" in await desk.refusal("edit_file", path="gone.txt", old="a", new="b")


# ── staying inside ──────────────────────────────────────────────────────────────────────────────────────────

WAYS_OUT = {
    "up": "../secret.txt",
    "up from below": "sub/../../secret.txt",
    "absolute": "{outside}/secret.txt",
    "a system file": "/etc/passwd",
    "a link to a file": "file-link",
    "a link to a folder": "folder-link/secret.txt",
    "a link to a link": "second-link/secret.txt",
    "a link that leads nowhere": "dangling-link",
    "a brother with the same beginning": "../root-two/secret.txt",
    "home": "~/secret.txt",
    "a magic path": "/proc/self/root{outside}/secret.txt",
    "a magic link": "magic-link/secret.txt",
    "a link to the descriptors": "descriptors/0",
}


@pytest.fixture(params=[open_beneath, open_by_parts], ids=["openat2", "part by part"])
def besieged(request: pytest.FixtureRequest, desk: Desk) -> Desk:
    outside = desk.root.parent
    desk = Desk(desk.root, opener=request.param)
    (outside / "secret.txt").write_text("secret")
    (outside / "root-two").mkdir()
    (outside / "root-two" / "secret.txt").write_text("secret")
    (desk.root / "sub").mkdir()
    (desk.root / "file-link").symlink_to(outside / "secret.txt")
    (desk.root / "folder-link").symlink_to("..")
    (desk.root / "second-link").symlink_to("folder-link")
    (desk.root / "dangling-link").symlink_to(outside / "not-there")
    (desk.root / "magic-link").symlink_to(f"/proc/self/root{outside}")
    (desk.root / "descriptors").symlink_to("/proc/self/fd")
    return desk


@pytest.mark.parametrize("way", WAYS_OUT.values(), ids=WAYS_OUT)
async def test_path_that_leads_out_is_refused_by_every_tool(besieged: Desk, way: str) -> None:
    path = way.format(outside=besieged.root.parent)
    before = sorted(besieged.root.parent.rglob("*"))
    for name, more in {
        "read_file": {},
        "write_file": {"content": "changed"},
        "edit_file": {"old": "secret", "new": "changed"},
        "search_files": {"pattern": "secret"},
        "send_file": {},
    }.items():
        sentence = await besieged.refusal(name, path=path, **more)
        assert f"leads out of `{besieged.root}`" in sentence
    assert (besieged.root.parent / "secret.txt").read_text() == "secret"
    assert sorted(besieged.root.parent.rglob("*")) == before


async def test_search_does_not_follow_links_out(besieged: Desk) -> None:
    assert "No match" in await besieged.use("search_files", pattern="secret")


async def test_b185_listing_does_not_tell_what_is_outside(besieged: Desk) -> None:
    assert "folder-link/" not in await besieged.use("read_file", path=".")


@pytest.mark.parametrize("opener", [open_beneath, open_by_parts], ids=["openat2", "part by part"])
async def test_b185_file_of_the_gateway_is_refused_under_a_second_name(
    tmp_path: Path, opener: OpenBeneath
) -> None:
    """A hard link from before there was a sandbox; files of the workspace may have several names."""
    (tmp_path / "token").write_text("secret")
    desk = Desk(tmp_path / "workspace", home=tmp_path, opener=opener)
    desk.put("mine", "one of two names")
    os.link(tmp_path / "token", desk.root / "second-name")
    os.link(desk.root / "mine", desk.root / "also-mine")
    sentence = "`second-name` is a file of the gateway itself under another name"
    assert sentence in await desk.refusal("read_file", path="second-name")
    assert sentence in await desk.refusal("edit_file", path="second-name", old="secret", new="x")
    assert sentence in await desk.refusal("search_files", path="second-name", pattern="secret")
    assert "No match" in await desk.use("search_files", pattern="secret")
    assert "one of two names" in await desk.use("read_file", path="also-mine")


async def test_b185_home_in_the_folder_is_left_out(tmp_path: Path) -> None:
    """With `tools.directory` above the home, as `/` is, everything but the home can be used."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "token").write_text("secret")
    desk = Desk(tmp_path, home=tmp_path / "home")
    desk.put("mine", "no secret")
    for path in ("home/token", "home", str(tmp_path / "home" / "token")):
        assert "leads out of" in await desk.refusal("read_file", path=path)
    assert (await desk.use("search_files", pattern="secret")).splitlines()[1:] == ["mine:1: no secret"]


async def test_links_inside_are_followed_and_stay_links(desk: Desk) -> None:
    desk.put("real/file.txt", "one")
    (desk.root / "link").symlink_to("real/file.txt")
    (desk.root / "absolute").symlink_to(desk.root / "real")
    assert "one" in await desk.use("read_file", path="absolute/file.txt")
    await desk.use("write_file", path="link", content="two")
    assert (desk.root / "link").is_symlink()
    assert (desk.root / "real/file.txt").read_text() == "two"


async def test_absolute_path_inside_is_taken(desk: Desk) -> None:
    desk.put("a.txt", "a")
    assert "`a.txt`, lines 1 to 1" in await desk.use("read_file", path=str(desk.root / "a.txt"))


async def test_root_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    desk = Desk(tmp_path / "link")
    await desk.use("write_file", path="a.txt", content="a")
    assert "1 match" in await desk.use("search_files", pattern="a")


async def test_everything_is_allowed_when_the_root_is_the_whole_machine(tmp_path: Path) -> None:
    desk = Desk(Path("/"))
    await desk.use("write_file", path=f"{tmp_path}/a.txt", content="a")
    assert f"`{tmp_path}/a.txt`, lines 1 to 1" in await desk.use(
        "read_file", path=f"{tmp_path}/../{tmp_path.name}/a.txt"
    )
    assert f"{tmp_path}/a.txt:1: a" in await desk.use("search_files", pattern="a", path=str(tmp_path))


@pytest.mark.parametrize(
    "path", ["a\0b", "x" * 5000, "/".join("x" * 200 for _ in range(100))], ids=["zero byte", "long", "deep"]
)
async def test_path_that_cannot_be_one_is_refused_in_words(desk: Desk, path: str) -> None:
    for name, more in {"read_file": {}, "write_file": {"content": "a"}, "search_files": {"pattern": "a"}}.items():
        assert "cannot be" in await desk.refusal(name, path=path, **more)


async def test_loop_of_links_is_refused_in_words(desk: Desk) -> None:
    (desk.root / "loop").symlink_to("loop")
    assert "loop" in await desk.refusal("read_file", path="loop")


# ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_file_is_made_with_its_folders(desk: Desk) -> None:
    assert await desk.use("write_file", path="a/b/c.txt", content="grüße\n") == "Wrote 8 bytes to `a/b/c.txt`."
    assert (desk.root / "a/b/c.txt").read_bytes() == "grüße\n".encode()


async def test_root_is_made_when_it_is_not_there(tmp_path: Path) -> None:
    await Desk(tmp_path / "new").use("write_file", path="a.txt", content="a")
    assert (tmp_path / "new/a.txt").read_text() == "a"


async def test_new_file_has_the_usual_mode(desk: Desk) -> None:
    await desk.use("write_file", path="new.txt", content="a")
    (desk.root / "usual.txt").touch()
    assert (desk.root / "new.txt").stat().st_mode == (desk.root / "usual.txt").stat().st_mode


@pytest.mark.parametrize("mode", [0o600, 0o755, 0o664])
async def test_mode_is_kept_when_a_file_is_replaced_or_edited(desk: Desk, mode: int) -> None:
    file = desk.put("script", "one")
    file.chmod(mode)
    await desk.use("write_file", path="script", content="two")
    await desk.use("edit_file", path="script", old="two", new="three")
    assert stat.S_IMODE(file.stat().st_mode) == mode
    assert file.read_text() == "three"


async def test_nothing_else_is_left_in_the_folder(desk: Desk) -> None:
    desk.put("a.txt", "one")
    await desk.use("write_file", path="a.txt", content="two")
    assert [file.name for file in desk.root.iterdir()] == ["a.txt"]


async def test_reader_sees_the_old_or_the_new_content_whole(desk: Desk) -> None:
    old, new = "old" * 500_000, "new" * 500_000
    file = desk.put("a.txt", old)
    with file.open() as reading:
        await desk.use("write_file", path="a.txt", content=new)
        assert reading.read() == old, "the file was replaced, not overwritten"
    assert file.read_text() == new


WRITER = """
import sys
from pathlib import Path
from perdure.tools.file_contents import replace_file
from perdure.tools.workspace import FileLocation
location = FileLocation(Path(sys.argv[1]), ("file",), "file")
while True:
    for letter in "ab":
        replace_file(location, letter.encode() * 3_000_000)
        print(letter, flush=True)
"""


def test_file_is_whole_when_its_writer_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "file"
    for _ in range(3):
        with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            for _ in range(3):
                writer.stdout.readline()
            writer.send_signal(signal.SIGKILL)
        content = file.read_text()
        assert content == content[0] * 3_000_000


@pytest.mark.parametrize("path", ["folder", "."])
async def test_folder_is_not_written_over(desk: Desk, path: str) -> None:
    desk.put("folder/a.txt", "a")
    assert "is not a file but" in await desk.refusal("write_file", path=path, content="a")


async def test_file_in_place_of_a_folder_is_named(desk: Desk) -> None:
    desk.put("a.txt", "a")
    for path in ("a.txt/b.txt", "a.txt/b/c.txt"):
        assert "a part of its path is a file" in await desk.refusal("write_file", path=path, content="a")


UNPRIVILEGED = """
import asyncio, ctypes, os, sys  # ctypes is loaded while its files can be read
from contextlib import suppress
from pathlib import Path
from perdure.core.tools import Use
from perdure.errors import ToolFailed
from perdure.tools.workspace import ChatFolders
from perdure.tools.file_tools import file_tools
async def find(key): return ChatFolders(Path(sys.argv[1]), Path(sys.argv[1]))
with suppress(PermissionError):  # whoever may become another user may also pass over rights
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
write = {tool.name: tool for tool in file_tools(find)}["write_file"]
for path in ("read-only.txt", "closed/new.txt"):
    try:
        asyncio.run(write.run(Use({"path": path, "content": "changed"}, "key")))
    except ToolFailed as error:
        print(error.message)
"""


def test_rights_are_respected_and_told() -> None:
    with TemporaryDirectory() as name:  # another user could not get to `tmp_path`
        folder = Path(name)
        folder.chmod(0o777)
        (folder / "read-only.txt").write_text("kept")
        (folder / "read-only.txt").chmod(0o444)
        (folder / "closed").mkdir(0o555)
        run = subprocess.run(
            [sys.executable, "-c", UNPRIVILEGED, name], capture_output=True, text=True, check=True
        )
        assert run.stdout.splitlines() == [
            "`read-only.txt` cannot be used: it is read-only.",
            "`closed/new.txt` cannot be used: Permission denied.",
        ]
        assert (folder / "read-only.txt").read_text() == "kept"


# ── editing ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_text_is_replaced_when_it_occurs_once(desk: Desk) -> None:
    file = desk.put("a.py", "x = 1\ny = 2\nz = 3\n")
    sentence = await desk.use("edit_file", path="a.py", old="y = 2\n", new="y = 4\nw = 5\n")
    assert sentence == "Changed `a.py` in 1 place, line 2."
    assert file.read_text() == "x = 1\ny = 4\nw = 5\nz = 3\n"


async def test_every_occurrence_is_replaced_when_all_are_meant(desk: Desk) -> None:
    file = desk.put("a.py", "x\ny\nx\n")
    assert (
        await desk.use("edit_file", path="a.py", old="x", new="z", all=True)
        == "Changed `a.py` in 2 places, lines 1, 3."
    )
    assert file.read_text() == "z\ny\nz\n"


@pytest.mark.parametrize(
    ("content", "old", "sentence"),
    [
        ("a\nb\n", "c", "`old` does not occur in it. It must be the exact text"),
        (
            "a\nb\na\n",
            "a",
            "`old` occurs 2 times, in the lines 1, 3. Give more of the text around it, or all=true.",
        ),
        ("aaa", "aa", "`old` occurs 2 times, in the lines 1, 1."),
        ("a\n" * 50, "a", "`old` occurs 50 times, in the lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 40 more."),
        ("same\n", "same", None),
    ],
    ids=["never", "twice", "overlapping", "often", "no change"],
)
async def test_nothing_is_changed_when_it_is_not_clear_what(
    desk: Desk, content: str, old: str, sentence: str | None
) -> None:
    file = desk.put("a.txt", content)
    refused = await desk.refusal("edit_file", path="a.txt", old=old, new=old if sentence is None else "new")
    assert (sentence or "`old` and `new` are the same") in refused
    assert file.read_text() == content


async def test_line_ends_of_windows_are_kept(desk: Desk) -> None:
    file = desk.put("dos.txt", "one\r\ntwo\r\nthree\r\n")
    await desk.use("edit_file", path="dos.txt", old="one\ntwo", new="1\n2")
    assert file.read_bytes() == b"1\r\n2\r\nthree\r\n"


async def test_file_is_not_edited_when_it_is_too_large(desk: Desk) -> None:
    file = desk.put("large.txt", "")
    os.truncate(file, file_contents.MAX_EDITED_BYTES + 1)
    assert "too large to be edited" in await desk.refusal("edit_file", path="large.txt", old="a", new="b")


async def test_no_edit_is_lost_when_many_come_at_once(desk: Desk) -> None:
    file = desk.put("list.txt", "".join(f"<{number}>\n" for number in range(20)))
    edits = (desk.use("edit_file", path="list.txt", old=f"<{number}>", new=f"[{number}]") for number in range(20))
    await asyncio.gather(*edits)
    assert file.read_text() == "".join(f"[{number}]\n" for number in range(20))


# ── searching ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def library(desk: Desk) -> Desk:
    desk.put("README.md", "Find me\nnot this\n")
    desk.put("src/main.py", "def find_me():\r\n    pass\r\n")
    desk.put("src/deep/er/util.js", "findMe()\n")
    desk.put(".git/config", "find me\n")
    desk.put("image.png", b"\x89PNG\0find me\n")
    desk.put("latin.txt", "find me, caf\xe9\n".encode("latin-1"))
    return desk


async def test_matches_are_listed_with_file_and_line(library: Desk) -> None:
    found = await library.use("search_files", pattern=r"(?i)find_?\s?me")
    assert found.splitlines() == [
        "4 matches in 5 files under `.`.",
        "README.md:1: Find me",
        "latin.txt:1: find me, caf\N{REPLACEMENT CHARACTER}",
        "src/main.py:1: def find_me():",
        "src/deep/er/util.js:1: findMe()",
    ]


async def test_end_of_a_line_is_found_when_it_is_one_of_windows(library: Desk) -> None:
    assert "src/main.py:2:     pass" in await library.use("search_files", pattern="pass$")


async def test_search_can_be_narrowed_to_a_folder_or_a_file(library: Desk) -> None:
    within = await library.use("search_files", pattern="find", path="src")
    assert within.splitlines()[1:] == ["src/main.py:1: def find_me():", "src/deep/er/util.js:1: findMe()"]
    alone = await library.use("search_files", pattern="find", path="src/main.py")
    assert alone.splitlines() == ["1 match in 1 file under `src/main.py`.", "src/main.py:1: def find_me():"]


@pytest.mark.parametrize(
    ("glob", "files"),
    [
        ("**/*", ["a.py", "b.md", "src/c.py", "src/deep/d.js", "src/deep/[e].py"]),
        ("*", ["a.py", "b.md", "src/c.py", "src/deep/d.js", "src/deep/[e].py"]),
        ("*.py", ["a.py", "src/c.py", "src/deep/[e].py"]),
        ("./*.md", ["b.md"]),
        ("src/*.py", ["src/c.py"]),
        ("src/**", ["src/c.py", "src/deep/d.js", "src/deep/[e].py"]),
        ("src/**/*.py", ["src/c.py", "src/deep/[e].py"]),
        ("**/deep/*", ["src/deep/d.js", "src/deep/[e].py"]),
        ("*.{js,md}", ["b.md", "src/deep/d.js"]),
        ("?.py", ["a.py", "src/c.py"]),
        ("[ab].*", ["a.py", "b.md"]),
        ("[!ab].*", ["src/c.py", "src/deep/d.js"]),
        ("[a-c].py", ["a.py", "src/c.py"]),
        ("[[]e].py", ["src/deep/[e].py"]),
        ("{a,b}.*", ["a.py", "b.md"]),
        ("{a.py", ["a.py"]),
        ("nothing", []),
    ],
)
async def test_glob_chooses_the_files(desk: Desk, glob: str, files: list[str]) -> None:
    for file in ("a.py", "b.md", "src/c.py", "src/deep/d.js", "src/deep/[e].py"):
        desk.put(file, "match")
    found = await desk.use("search_files", pattern="match", glob=glob)
    assert sorted(line.split(":")[0] for line in found.splitlines()[1:]) == sorted(files)


@pytest.mark.parametrize("pattern", ["(", "[a", "*", "(?P<x", "a{99999999999}", "\\"])
async def test_pattern_is_refused_in_words_when_it_is_none(library: Desk, pattern: str) -> None:
    assert f"`{pattern}` cannot be searched for: " in await library.refusal("search_files", pattern=pattern)


async def test_matches_are_bounded_and_that_is_said(desk: Desk) -> None:
    desk.put("many.txt", f"{'x' * 300}match{'y' * 300}\n" * (file_search.MAX_MATCHES + 1))
    head, *found = (await desk.use("search_files", pattern="match")).splitlines()
    assert head.endswith("There are more: narrow `pattern`, `path` or `glob`.")
    assert len(found) == file_search.MAX_MATCHES
    assert all("match" in line and len(line) < file_search.MAX_SHOWN_CHARACTERS + 30 for line in found)


async def test_large_files_are_left_out_and_that_is_said(desk: Desk) -> None:
    desk.put("large.txt", "match\n" + "x" * file_search.MAX_FILE_BYTES)
    assert "1 was too large to be searched" in await desk.use("search_files", pattern="match")


async def test_search_is_given_up_when_the_pattern_would_take_for_ever(tmp_path: Path) -> None:
    desk = Desk(tmp_path, search_seconds=1.0)
    desk.put("a.txt", "a is found first\n")
    desk.put("b.txt", "a" * 60 + "!\n")
    sentence = await desk.refusal("search_files", pattern="^(a+)+( .*)?$")
    assert "was given up after 1 s" in sentence
    assert sentence.endswith("Found until then:\na.txt:1: a is found first")


async def test_search_program_ends_when_nobody_waits_for_it(desk: Desk) -> None:
    desk.put("b.txt", "a" * 60 + "!\n")
    search = asyncio.create_task(desk.use("search_files", pattern="^(a+)+$"))
    await eventually("the search runs", lambda: children(is_search))
    [child] = children(is_search)
    search.cancel()
    with pytest.raises(asyncio.CancelledError):
        await search
    wait_for("it is gone", lambda: child not in children(is_search))


def children(chosen: Callable[[int], bool]) -> set[int]:
    listed = (int(file.name) for file in Path("/proc").iterdir() if file.name.isdigit())
    return {pid for pid in listed if chosen(pid)}


def is_search(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
    except OSError:
        return False  # gone meanwhile
    return parent == str(os.getpid()) and b"file_search.py" in command

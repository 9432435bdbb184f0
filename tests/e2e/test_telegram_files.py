"""Files on Telegram through a real gateway: they come in before the turn begins, or the chat is told why not.

Drives `platforms/telegram` and `runtime/attachments`.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.core import texts
from perdure.testing.telegram import INTERNAL_ERROR, BotApiRefusal, Fault, LocalTelegram
from support.gateway import GatewayProcess
from support.telegram import query_database, telegram_gateway, wait_for_texts, wait_until_confirmed
from support.waiting import wait_for

NOT_FOUND = BotApiRefusal(404, "Not Found")
CONTENT = b"What was said at the meeting.\n" * 20_000


@pytest.fixture
def telegram() -> Iterator[LocalTelegram]:
    with LocalTelegram() as running:
        yield running


def files(process: GatewayProcess) -> list[Path]:
    root = process.home / "attachments"
    return sorted(each for each in root.rglob("*") if each.is_file()) if root.exists() else []


def states(process: GatewayProcess) -> list[str]:
    return [state for (state,) in query_database(process, "SELECT state FROM attachments ORDER BY id")]


def told(telegram: LocalTelegram, chat: int | None = None) -> str:
    """What the offline model says of the files it got."""
    found: str = wait_for("it is answered", lambda: [t for t in telegram.texts(chat) if "labels" in t])[-1]
    return found


def test_b70_files_are_fetched_before_the_turn_and_the_model_knows_where(
    tmp_path: Path, telegram: LocalTelegram
) -> None:
    with telegram_gateway(tmp_path / "home", telegram) as process:
        telegram.share("document", "minutes.txt", CONTENT, caption="have a look")
        said = told(telegram)
        [kept] = files(process)
        assert kept.read_bytes() == CONTENT
        assert texts.files.attached_line("minutes.txt", "text/plain", len(CONTENT), str(kept)) in said
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
        assert states(process) == ["fetched"]
        telegram.share("photo", "cat.jpg", b"a cat")
        telegram.share("voice", "hm.ogg", b"hm")
        wait_for("all are fetched", lambda: states(process) == ["fetched"] * 3)
        assert {each.name for each in files(process)} == {"minutes.txt", "photo.jpg", "voice.ogg"}
    assert telegram.token not in process.log()


def test_names_are_made_harmless_and_twins_do_not_meet(tmp_path: Path, telegram: LocalTelegram) -> None:
    names = [
        "../../etc/passwd",
        "..",
        "a\x00b\n.txt",
        "x" * 4000 + ".pdf",
        "NUL.txt",
        "$(rm -rf ~).sh",
        "a/b\\c.txt",
    ]
    with telegram_gateway(tmp_path / "home", telegram) as process:
        for number, name in enumerate([*names, "same.txt", "same.txt"]):
            telegram.share("document", name, f"content {number}".encode(), caption=f"say: {number}")
        wait_for_texts(telegram, *(str(number) for number in range(9)))
        kept = files(process)
        assert len(kept) == 9
        assert all(each.parent.parent == process.home / "attachments" for each in kept)
        assert all(len(each.name.encode()) <= 100 and not set(each.name) & set("$()~ \n\\") for each in kept)
        assert {each.read_bytes() for each in kept} == {f"content {number}".encode() for number in range(9)}


def test_b70_download_is_tried_again_until_it_is_whole(tmp_path: Path, telegram: LocalTelegram) -> None:
    faults = [Fault(cut=True), Fault(refusal=INTERNAL_ERROR)]
    for fault in faults:
        telegram.befall("download", fault)
    with telegram_gateway(tmp_path / "home", telegram) as process:
        telegram.share("document", "minutes.txt", CONTENT)
        told(telegram)
        assert [each.read_bytes() for each in files(process)] == [CONTENT], "and nothing of the part is left"
        assert telegram.count("download") == 3
        assert query_database(process, "SELECT attempts FROM attachments") == [(2,)]
        assert len(telegram.sent) == 1


@pytest.mark.parametrize("case", ["gone", "too large for us", "too large for Telegram"])
def test_b70_model_and_chat_are_told_when_a_file_does_not_come(
    tmp_path: Path, telegram: LocalTelegram, case: str
) -> None:
    content, why = b"x" * 1_000_001, texts.files.attachment_too_large(1_000_000)
    if case == "gone":
        telegram.befall("download", Fault(refusal=NOT_FOUND))
        content, why = b"x", texts.files.GONE_FROM_PLATFORM
    elif case == "too large for Telegram":
        content, why = bytes(21 * 1024 * 1024), texts.platforms.FILE_TOO_LARGE
    most = "1" if case == "too large for us" else "100"
    with telegram_gateway(tmp_path / "home", telegram, INBOX__MAX_FILE=most) as process:
        telegram.share("document", "minutes.txt", content)
        said = told(telegram)
        assert texts.files.missing_attachment_line("minutes.txt", why) in said
        assert texts.files.attachment_not_fetched("minutes.txt", why) in telegram.texts()
        assert files(process) == []
        assert states(process) == ["failed"]


def test_slow_download_delays_no_other_chat(tmp_path: Path, telegram: LocalTelegram) -> None:
    slow = telegram.befall("download", Fault(hold=True))
    bob = telegram.person("bob")
    allow = f"{telegram.ann},{bob}"
    with telegram_gateway(tmp_path / "home", telegram, PLATFORMS__TELEGRAM__ALLOW=allow):
        telegram.share("document", "slow.txt", CONTENT, caption="say: first")
        telegram.write("say: second")
        assert slow.reached.wait(30), "the download is under way"
        telegram.share("document", "quick.txt", b"quick", caption="say: mine", sender="bob")
        wait_for_texts(telegram, "mine", chat=bob)
        assert telegram.texts() == [], "and what was written behind it waits, in its order"
        slow.release()
        wait_for_texts(telegram, "first", "second")


def test_b70_kill_in_the_middle_of_a_download_fetches_it_once_in_effect(
    tmp_path: Path, telegram: LocalTelegram
) -> None:
    cut_off = telegram.befall("download", Fault(hold=True))
    with telegram_gateway(tmp_path / "home", telegram) as process:
        telegram.share("document", "minutes.txt", CONTENT)
        assert cut_off.reached.wait(30), "half of it is here"
        wait_until_confirmed(telegram)
        process.kill()
        assert states(process) == ["referenced"], "the kill met an open fetch"
        process.start()
        told(telegram)
        assert [each.read_bytes() for each in files(process)] == [CONTENT]
        assert (telegram.count("download"), len(telegram.sent)) == (2, 1)


def test_b108_chat_is_told_when_its_files_have_no_room(tmp_path: Path, telegram: LocalTelegram) -> None:
    """The file is refused, and nothing else: its message is answered, and the files that were there stay."""
    with telegram_gateway(tmp_path / "home", telegram, ATTACHMENTS__MAX_PER_CHAT="1") as process:
        telegram.share("document", "first.txt", CONTENT, caption="say: one")
        wait_for_texts(telegram, "one")
        telegram.share("document", "second.txt", CONTENT, caption="say: two")
        why = texts.files.no_room_in_chat(1_000_000)
        wait_for_texts(telegram, "one", texts.files.attachment_not_fetched("second.txt", why), "two")
        assert [each.name for each in files(process)] == ["first.txt"]
        assert states(process) == ["fetched", "failed"]

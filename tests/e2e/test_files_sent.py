"""Files that the agent sends: owed with the result of the call, sent once, and as they were at its moment.

Drives `tools/file_tools`, `runtime/attachments` and `store/attachments`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from perdure.core import texts
from perdure.platforms.api import Capabilities
from perdure.testing import SimulatedPlatform
from perdure.testing.telegram import BotApiRefusal, Fault, LocalTelegram
from support.chat_folders import WEB_CHAT, chat_workspace
from support.gateway import GatewayProcess, Person, gateway
from support.inprocess import serving
from support.recovery import key_of
from support.telegram import query_database, telegram_gateway, wait_until_settled
from support.waiting import eventually, wait_for

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 3000


@pytest.fixture
def telegram() -> Iterator[LocalTelegram]:
    with LocalTelegram() as running:
        yield running


def write(process: GatewayProcess, key: str, name: str, content: bytes = PNG) -> Path:
    place = chat_workspace(process.home, key) / name
    place.write_bytes(content)
    return place


def key_of_ann(telegram: LocalTelegram) -> str:
    return f"agent:main:telegram:dm:{telegram.ann}"


def shared(telegram: LocalTelegram) -> list[tuple[str, str, bytes]]:
    return [sent.file for sent in telegram.sent if sent.file]


def test_files_are_sent_as_what_they_are(tmp_path: Path, telegram: LocalTelegram) -> None:
    with telegram_gateway(tmp_path / "home", telegram) as process:
        for name in ("cat.png", "hm.ogg", 'a "plan".pdf', "not.broken.png"):
            write(process, key_of_ann(telegram), name)
        asked = telegram.write(
            'send: cat.png\nsend: hm.ogg\nsend: a "plan".pdf\nsend: not.broken.png\nsay: all sent'
        )
        wait_for("all is sent", lambda: "all sent" in telegram.texts())
        assert shared(telegram) == [
            ("photo", "cat.png", PNG),
            ("voice", "hm.ogg", PNG),
            ("document", "a _plan_.pdf", PNG),
            ("document", "not.broken.png", PNG),
        ]
        assert {sent.reply_to for sent in telegram.sent} == {asked}
        assert [text for text in telegram.texts() if text] == ["all sent"]
        # Whatever Telegram does not take is told in words.
        telegram.befall("sendDocument", Fault(refusal=BotApiRefusal(413, "Request Entity Too Large")))
        telegram.write('send: a "plan".pdf\nsay: and that')
        wait_for("it goes on", lambda: "and that" in telegram.texts())
        [told] = [text for text in telegram.texts() if "cannot be sent here" in text]
        assert 'a "plan".pdf' in told
    assert telegram.token not in process.log()


@pytest.mark.parametrize("arrived", [False, True], ids=["before it arrived", "before its receipt"])
def test_b74_kill_in_the_middle_of_a_send_is_told_as_any_other(
    tmp_path: Path, telegram: LocalTelegram, arrived: bool
) -> None:
    held = telegram.befall("sendPhoto", Fault(hold=True, effect=arrived))
    with telegram_gateway(tmp_path / "home", telegram) as process:
        place = write(process, key_of_ann(telegram), "cat.png")
        telegram.write("send: cat.png\nsay: there you are")
        assert held.reached.wait(30), "the file is on its way"
        process.kill()
        assert query_database(process, "SELECT state FROM outbox WHERE file IS NOT NULL") == [("sending",)]
        place.write_bytes(b"something else")  # what is sent is what was there at the call
        process.start()
        wait_for("it is answered", lambda: "there you are" in telegram.texts())
        wait_until_settled(process)
        assert shared(telegram) == [("photo", "cat.png", PNG)] * (1 + arrived)
        captions = [sent.text for sent in telegram.sent if sent.file]
        assert captions[-1] == texts.delivery.maybe_duplicate("cat.png")
        assert len(list((process.home / "attachments").glob("*/cat.png"))) == 1


def test_web_shows_a_message_with_the_file(tmp_path: Path) -> None:
    with gateway(tmp_path / "home") as process:
        write(process, WEB_CHAT, "cat.png")
        ann = Person(process)
        ann.say("send: cat.png\nsend: missing.txt\nsend: ../token\nsay: done")
        ann.wait_for_replies(2)
        [sent] = [each for each in ann.messages() if each.get("attachments")]
        [file] = sent["attachments"]
        assert (sent["author"], sent["text"]) == ("agent", "cat.png")
        assert (file["name"], file["media_type"], file["size"]) == ("cat.png", "image/png", len(PNG))
        url, headers = f"{process.url}/api/attachments/{file['id']}", {"Authorization": f"Bearer {process.token}"}
        response = httpx.get(url, headers=headers, timeout=30)
        assert response.content == PNG


@pytest.mark.anyio
async def test_platform_that_cannot_send_the_file_is_told_where_it_is(tmp_path: Path) -> None:
    """`files` and `max_file`: one byte too many is never handed to the adapter."""
    plain = SimulatedPlatform()
    small = SimulatedPlatform("small", capabilities=Capabilities(idempotent_send=True, files=True, max_file=5))
    able = SimulatedPlatform("able", capabilities=Capabilities(idempotent_send=True, files=True, max_file=6))
    async with serving(tmp_path, plain, small, able):
        for platform in (plain, small, able):
            (chat_workspace(tmp_path, key_of(platform)) / "plan.txt").write_bytes(b"a plan")
            platform.write("send: plan.txt\nsay: done")
        await eventually("it is sent", lambda: all(len(each.posted) == 2 for each in (plain, small, able)))
        for platform in (plain, small):
            assert "cannot be sent here: plan.txt. It is on the gateway's machine, at " in platform.replies()[0]
        assert [(posted.text, posted.file) for posted in able.posted] == [("plan.txt", b"a plan"), ("done", None)]

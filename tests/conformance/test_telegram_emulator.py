"""The emulator of Telegram speaks the Bot API: the models of a real client library read all that it says.

Drives `testing/telegram`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta

import httpx
import pytest
from telegram.error import BadRequest, Conflict, Forbidden, InvalidToken, NetworkError, RetryAfter
from telegram.request import HTTPXRequest

from perdure.testing.telegram import BOT_NAME, Fault, LocalTelegram, too_many_requests, units
from support.waiting import eventually
from telegram import Bot, InlineKeyboardButton, InlineKeyboardMarkup, ReplyParameters

pytestmark = pytest.mark.anyio


@pytest.fixture
def telegram() -> Iterator[LocalTelegram]:
    with LocalTelegram() as running:
        yield running


@asynccontextmanager
async def talking(telegram: LocalTelegram, token: str | None = None) -> AsyncIterator[Bot]:
    request = HTTPXRequest(read_timeout=20)
    files = f"{telegram.url}/file/bot"
    bot = Bot(token or telegram.token, f"{telegram.url}/bot", base_file_url=files, get_updates_request=request)
    async with bot:
        yield bot


async def test_bot_is_who_it_says(telegram: LocalTelegram) -> None:
    async with talking(telegram) as bot:
        me = await bot.get_me()
    assert (me.username, me.is_bot, me.has_topics_enabled) == (BOT_NAME, True, True)


async def test_update_comes_again_until_a_higher_offset_confirms_it(telegram: LocalTelegram) -> None:
    telegram.write("one")
    telegram.write("two")
    async with talking(telegram) as bot:
        first, second = await bot.get_updates()
        assert [update.update_id for update in await bot.get_updates()] == [first.update_id, second.update_id]
        again = await bot.get_updates(offset=first.update_id + 1)
        assert [update.message.text for update in again if update.message] == ["two"]
        assert await bot.get_updates(offset=second.update_id + 1) == ()
    assert telegram.unconfirmed() == []


async def test_negative_offset_forgets_all_but_the_newest(telegram: LocalTelegram) -> None:
    for text in ("one", "two", "three"):
        telegram.write(text)
    async with talking(telegram) as bot:
        [newest] = await bot.get_updates(offset=-1)
    assert newest.message and newest.message.text == "three"
    assert telegram.unconfirmed() == [newest.update_id]


async def test_long_poll_waits_for_what_comes(telegram: LocalTelegram) -> None:
    async with talking(telegram) as bot:
        polling = asyncio.create_task(bot.get_updates(timeout=20))
        await eventually("it polls", lambda: telegram.count("getUpdates"))
        telegram.write("late")
        [update] = await polling
    assert update.message and update.message.text == "late"


async def test_second_poll_ends_the_first(telegram: LocalTelegram) -> None:
    async with talking(telegram) as bot, talking(telegram) as other:
        polling = asyncio.create_task(bot.get_updates(timeout=20))
        await eventually("it polls", lambda: telegram.count("getUpdates"))
        assert await other.get_updates() == ()
        with pytest.raises(Conflict, match="terminated by other getUpdates request"):
            await polling


async def test_webhook_and_polls_exclude_each_other(telegram: LocalTelegram) -> None:
    async with talking(telegram) as bot:
        await bot.set_webhook("https://example.org/hook")
        with pytest.raises(Conflict, match="webhook is active"):
            await bot.get_updates()
        await bot.delete_webhook()
        assert await bot.get_updates() == ()


async def test_every_kind_of_update_is_read_by_the_models(telegram: LocalTelegram) -> None:
    forum = telegram.group("Forum", forum=True)
    topic, own = telegram.topic(forum), telegram.topic()
    first = telegram.write("in a topic", chat=forum, thread=topic)
    telegram.write("in my own topic", thread=own)
    telegram.write(f"hello @{BOT_NAME} \N{GRINNING FACE} /stop", chat=forum, reply_to=first)
    telegram.edit(telegram.write("wrogn"), "wrong")
    telegram.share("photo", "cat.jpg", caption="a cat", album="a1")
    telegram.share("document", "notes.txt", album="a1")
    telegram.share("voice", "hello.ogg")
    telegram.migrate(telegram.group("Small", basic=True))
    async with talking(telegram) as bot:
        updates = await bot.get_updates()
    messages = [update.effective_message for update in updates]
    assert all(messages)
    topics = [message.message_thread_id for message in messages if message and message.is_topic_message]
    assert topics == [topic, own]
    mentioned = messages[2]
    assert mentioned is not None
    assert set(mentioned.parse_entities().values()) == {f"@{BOT_NAME}", "/stop"}
    assert mentioned.reply_to_message and mentioned.reply_to_message.message_id == first
    assert updates[4].edited_message and updates[4].edited_message.text == "wrong"
    assert messages[5] and messages[5].photo[-1].width == 800 and messages[5].media_group_id == "a1"
    assert messages[6] and messages[6].document and messages[6].document.file_name == "notes.txt"
    assert messages[7] and messages[7].voice and messages[7].voice.mime_type == "audio/ogg"
    assert messages[8] and messages[9]
    assert messages[8].migrate_to_chat_id == messages[9].chat_id


async def test_message_is_sent_edited_and_pressed(telegram: LocalTelegram) -> None:
    asked = telegram.write("which?")
    keys = InlineKeyboardMarkup([[InlineKeyboardButton("Left", callback_data="go left")]])
    async with talking(telegram) as bot:
        await bot.get_updates()
        answer = ReplyParameters(asked, allow_sending_without_reply=True)
        sent = await bot.send_message(
            telegram.ann, "<b>Which</b> way?", "HTML", reply_markup=keys, reply_parameters=answer
        )
        assert sent.text == "Which way?" and sent.entities[0].type == "bold"
        assert sent.reply_to_message and sent.reply_to_message.message_id == asked
        telegram.press("Left")
        query = (await bot.get_updates())[-1].callback_query
        assert query and query.data == "go left" and query.message and query.message.message_id == sent.message_id
        assert await query.answer("Noted.")
        edited = await bot.edit_message_text("Left it is", telegram.ann, sent.message_id)
        assert not isinstance(edited, bool) and edited.text == "Left it is" and edited.reply_markup is None
        with pytest.raises(BadRequest, match="Message is not modified"):
            await bot.edit_message_text("Left it is", telegram.ann, sent.message_id)
        with pytest.raises(BadRequest, match="Query is too old"):
            await query.answer()
    assert [(each.text, each.before) for each in telegram.sent] == [("Left it is", ["Which way?"])]


async def test_menu_typing_and_files_are_there(telegram: LocalTelegram) -> None:
    telegram.share("document", "notes.txt", b"what I noted")
    async with talking(telegram) as bot:
        assert await bot.set_my_commands([("stop", "end what is running")])
        with pytest.raises(BadRequest):
            await bot.set_my_commands([("Stop!", "no such name")])
        assert await bot.send_chat_action(telegram.ann, "typing")
        [update] = await bot.get_updates()
        assert update.message and update.message.document
        file = await update.message.document.get_file()
        assert bytes(await file.download_as_bytearray()) == b"what I noted"
        with pytest.raises(BadRequest, match="Invalid file_id"):
            await bot.get_file("nothing")
    assert telegram.methods.commands[0]["command"] == "stop"
    assert telegram.methods.actions == [(telegram.ann, "typing")]


async def test_refusals_are_those_of_the_service(telegram: LocalTelegram) -> None:
    topic = telegram.topic()
    telegram.remove_topic(topic)
    group = telegram.group(basic=True)
    new = telegram.migrate(group)
    telegram.person("bob")
    telegram.block("bob")
    async with talking(telegram) as bot:
        with pytest.raises(BadRequest, match="Chat not found"):
            await bot.send_message(42, "hello")
        with pytest.raises(BadRequest, match="Message thread not found"):
            await bot.send_message(telegram.ann, "hello", message_thread_id=topic)
        with pytest.raises(BadRequest, match="can't find end tag corresponding to start tag"):
            await bot.send_message(telegram.ann, "<b>hello", "HTML")
        with pytest.raises(BadRequest, match="Message is too long"):
            await bot.send_message(telegram.ann, "\N{GRINNING FACE}" * 2049)
        with pytest.raises(BadRequest, match="Button_data_invalid"):
            keys = InlineKeyboardMarkup([[InlineKeyboardButton("Left", callback_data="é" * 33)]])
            await bot.send_message(telegram.ann, "hello", reply_markup=keys)
        with pytest.raises(Forbidden, match="blocked by the user"):
            await bot.send_message(telegram.person("bob"), "hello")
        with pytest.raises(Exception, match=f"New chat id: {new}"):
            await bot.send_message(group, "hello")
    with pytest.raises(InvalidToken):
        async with talking(telegram, "1:another"):
            pass
    assert telegram.sent == []


async def test_faults_befall_a_call_before_or_after_its_effect(
    telegram: LocalTelegram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PTB_TIMEDELTA", "true")  # without it the library warns
    async with talking(telegram) as bot:
        telegram.befall("sendMessage", Fault(refusal=too_many_requests(7)))
        with pytest.raises(RetryAfter) as found:
            await bot.send_message(telegram.ann, "one")
        assert found.value.retry_after == timedelta(seconds=7)
        telegram.befall("sendMessage", Fault(cut=True))
        with pytest.raises(NetworkError):
            await bot.send_message(telegram.ann, "two")
        assert telegram.sent == []
        telegram.befall("sendMessage", Fault(cut=True, effect=True))
        with pytest.raises(NetworkError):
            await bot.send_message(telegram.ann, "three")
        assert telegram.texts() == ["three"]
        telegram.befall("sendMessage", Fault(page=(502, b"<html>Bad Gateway</html>")))
        with pytest.raises(NetworkError):
            await bot.send_message(telegram.ann, "four")
        held = telegram.befall("sendMessage", Fault(hold=True, effect=True))
        sending = asyncio.create_task(bot.send_message(telegram.ann, "five"))
        await asyncio.to_thread(held.reached.wait)
        assert telegram.texts() == ["three", "five"] and not sending.done()
        held.release()
        assert (await sending).text == "five"


async def test_form_and_json_mean_the_same(telegram: LocalTelegram) -> None:
    url, said = f"{telegram.url}/bot{telegram.token}/SENDMESSAGE", {"chat_id": str(telegram.ann), "text": "hi"}
    async with httpx.AsyncClient() as client:
        for answer in (await client.post(url, data=said), await client.post(url, json=said)):
            assert answer.json()["result"]["text"] == "hi"
        unknown = await client.post(url.replace("SENDMESSAGE", "sendNothing"))
    assert unknown.json() == {"ok": False, "error_code": 404, "description": "Not Found"}


def test_length_is_counted_in_utf16() -> None:
    assert (units("abc"), units("\N{GRINNING FACE}")) == (3, 2)


async def test_files_go_there_and_back(telegram: LocalTelegram, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTB_TIMEDELTA", "true")  # without it the library warns
    content = b"\r\n--x\r\n" * 1000
    async with talking(telegram) as bot:
        document = await bot.send_document(telegram.ann, content, filename="a.bin", caption="look")
        photo = await bot.send_photo(telegram.ann, content, filename="a.png")
        voice = await bot.send_voice(telegram.ann, content, filename="a.ogg")
        assert document.document and voice.voice
        assert (document.caption, document.document.file_name) == ("look", "a.bin")
        for reference in (document.document.file_id, photo.photo[-1].file_id, voice.voice.file_id):
            file = await bot.get_file(reference)
            assert bytes(await file.download_as_bytearray()) == content
        with pytest.raises(BadRequest, match="non-empty"):
            await bot.send_document(telegram.ann, b"", filename="empty")
        with pytest.raises(BadRequest, match="caption is too long"):
            await bot.send_document(telegram.ann, content, caption="x" * 1025)
        large = telegram.state.upload(bytes(20 * 1024 * 1024 + 1), "large")["file_id"]
        with pytest.raises(BadRequest, match="too big"):
            await bot.get_file(large)
        telegram.befall("download", Fault(cut=True))
        with pytest.raises(NetworkError):
            await (await bot.get_file(document.document.file_id)).download_as_bytearray()
    assert [sent.file for sent in telegram.sent] == [
        ("document", "a.bin", content),
        ("photo", "a.png", content),
        ("voice", "a.ogg", content),
    ]

"""What Telegram's adapter makes of texts, buttons and updates.

Drives `platforms/telegram/markup`, `platforms/telegram/message_writer` and `platforms/telegram/updates`.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from perdure.core.address import Address
from perdure.core.delivery import split_reply
from perdure.core.messages import Attachment, Button, Inbound, Pick, is_id_of_question, question_id
from perdure.platforms.telegram.bot_api import MAX_CALLBACK_BYTES
from perdure.platforms.telegram.markup import render, utf16_units
from perdure.platforms.telegram.message_writer import decode_command, keyboard
from perdure.platforms.telegram.updates import NotUnderstood, Update, UpdateReader, User
from perdure.testing.telegram.texts import parse_text

SMILE = "\N{GRINNING FACE}"
US = User(7, is_bot=True, first_name="Bot", username="Our_Bot")
PIECES = [*"*_`[)\\& \n", "**", "__", "```", "~~", "](", "> ", "# ", "- ", "a", SMILE, "<b>", "http://x"]


def marked(markdown: str) -> list[tuple[str, str]]:
    """Each entity, and what it marks."""
    text, entities = render(markdown)
    raw = text.encode("utf-16-le")
    return [
        (each["type"], raw[2 * each["offset"] : 2 * (each["offset"] + each["length"])].decode("utf-16-le"))
        for each in entities
    ]


@pytest.mark.parametrize(
    ("markdown", "text", "entities"),
    [
        pytest.param("plain & <b>simple</b>", "plain & <b>simple</b>", [], id="what is no Markdown stays"),
        pytest.param(f"{SMILE} **bold** x", f"{SMILE} bold x", [("bold", "bold")], id="offsets behind an emoji"),
        pytest.param("*it* and _it_", "it and it", [("italic", "it"), ("italic", "it")], id="italic"),
        pytest.param("snake_case_name 2*3*4", "snake_case_name 2*3*4", [], id="inside words nothing is marked"),
        pytest.param("**a *b* c**", "a b c", [("bold", "a b c"), ("italic", "b")], id="nested"),
        pytest.param("~~no~~ `x = *y*`", "no x = *y*", [("strikethrough", "no"), ("code", "x = *y*")], id="code"),
        pytest.param("# Title #\ntext", "Title\ntext", [("bold", "Title")], id="heading"),
        pytest.param("- one\n  * two", "• one\n  • two", [], id="bullets"),
        pytest.param("> a\n> **b**\nc", "a\nb\nc", [("blockquote", "a\nb"), ("bold", "b")], id="quote"),
        pytest.param("[t](https://x.y/z_(a))", "t", [("text_link", "t")], id="link"),
        pytest.param("[t](javascript:x)", "t (javascript:x)", [], id="a link to nowhere is told"),
        pytest.param(r"\*no\*", "*no*", [], id="escaped"),
        pytest.param("```py\na **b**\n```\nc", "a **b**\nc", [("pre", "a **b**")], id="fenced"),
        pytest.param("```\nnever closed", "never closed", [("pre", "never closed")], id="open fence"),
    ],
)
def test_markdown_becomes_entities(markdown: str, text: str, entities: list[tuple[str, str]]) -> None:
    assert (render(markdown)[0], marked(markdown)) == (text, entities)


@settings(deadline=None)  # the machine may be busy
@given(st.lists(st.sampled_from(PIECES), max_size=200).map("".join) | st.text(max_size=200))
@example("`" * 4000)
@example("# x" + " " * 3990 + "y")
@example("**a " * 1000)
@example("[a](" * 1000)
@example("*a_b" * 1000)
@example("```" + "a" * 3990 + "`")
def test_any_text_is_taken_by_telegram_and_grows_no_longer(markdown: str) -> None:
    text, entities = render(markdown)
    assert utf16_units(text) <= utf16_units(markdown)
    if text.strip():
        assert parse_text({"text": text, "entities": entities}) == (text, entities)


@given(st.text(alphabet=f"a {SMILE}\n", max_size=300), st.integers(2, 40))
def test_parts_have_room_when_counted_as_telegram_does(text: str, limit: int) -> None:
    assert all(utf16_units(part) <= limit for part in split_reply(text, limit))


# ── buttons ─────────────────────────────────────────────────────────────────────────────────────────────────

LONG = "é" * 80


@pytest.mark.parametrize(
    "button",
    [
        Button("Approve", "/approve t_06gy501gf0gm9qg7qvkhsv.c1.1"),
        Button("Left", "Left"),
        Button(LONG, LONG),
        Button(LONG, f"/background answer 2 {LONG}"),
        Button("=1:x", "=1:x"),
    ],
    ids=["a command", "an answer", "a long answer", "a long answer to other work", "an odd answer"],
)
def test_button_says_its_command_when_it_is_pressed(button: Button) -> None:
    shown = keyboard([Button("First", "First"), button, Button(f"{button.label}!", f"{button.command}!")])
    assert shown is not None
    there = {each["callback_data"]: each["text"] for row in shown["inline_keyboard"] for each in row}
    assert len(there) == 3
    assert all(len(data.encode()) <= MAX_CALLBACK_BYTES for data in there)
    data = next(data for data, text in there.items() if text == button.label)
    assert decode_command(data, there) == button.command


def test_button_is_left_out_when_its_command_is_too_long() -> None:
    assert keyboard([Button("Go", "/approve " + "x" * 80)]) is None
    assert keyboard([]) is None


@pytest.mark.parametrize("data", ["", "x", "+", "+1:gone", "+x:y"])
def test_button_of_somebody_else_means_nothing(data: str) -> None:
    assert decode_command(data, {}) is None


# ── updates ─────────────────────────────────────────────────────────────────────────────────────────────────

ANN = {"id": 1, "is_bot": False, "first_name": "Ann", "last_name": "Lee"}
PRIVATE = {"id": 1, "type": "private"}
GROUP = {"id": -5, "type": "supergroup"}
MENTION = {"type": "mention", "offset": 0, "length": 8}


def update(kind: str = "message", extra: dict[str, Any] | None = None, **fields: Any) -> Update:
    message = {"message_id": 3, "date": 100, "chat": PRIVATE, "from": ANN, **fields, **(extra or {})}
    return msgspec.convert({"update_id": 9, kind: message}, Update)


def read(kind: str = "message", **fields: Any) -> Inbound | None:
    return UpdateReader(US).read(update(kind, **fields))


def test_message_is_read() -> None:
    said = read(text="hello", is_topic_message=True, message_thread_id=4)
    assert said is not None
    assert said.address == Address("telegram", "dm", "1", "4")
    assert (said.message, said.sender.id, said.sender.name, said.text) == ("3", "1", "Ann Lee", "hello")
    assert (said.sent_at, said.account) == (100_000, "7")


def test_reply_in_an_ordinary_group_is_in_no_topic() -> None:
    ours = {"message_id": 2, "chat": GROUP, "from": {"id": 7, "is_bot": True}}
    said = read(chat=GROUP, text="yes", message_thread_id=2, reply_to_message=ours)
    assert said is not None and said.address == Address("telegram", "group", "-5")


def test_b85_edit_names_the_message_and_differs_from_other_edits() -> None:
    said = read("edited_message", text="better", edit_date=160)
    assert said is not None
    assert (said.kind, said.message, said.version, said.sent_at) == ("edit", "3", "9", 160_000)


@pytest.mark.parametrize(
    ("fields", "heard"),
    [
        pytest.param({"text": "hello all"}, None, id="what others say among themselves is not heard"),
        pytest.param({"text": "@our_bot, hello", "entities": [MENTION]}, "hello", id="a mention is"),
        pytest.param({"text": "@our_boy hello", "entities": [MENTION]}, None, id="one of somebody else is not"),
        pytest.param(
            {"text": "/stop", "entities": [{"type": "bot_command", "offset": 0, "length": 5}]},
            "/stop",
            id="command",
        ),
        pytest.param(
            {"text": "/stop@Our_Bot", "entities": [{"type": "bot_command", "offset": 0, "length": 13}]},
            "/stop@Our_Bot",
            id="a command for us",
        ),
        pytest.param(
            {"text": "/stop@other_bot", "entities": [{"type": "bot_command", "offset": 0, "length": 15}]},
            None,
            id="a command for another bot is not",
        ),
        pytest.param(
            {"text": "ok", "reply_to_message": {"message_id": 1, "chat": GROUP, "from": {"id": 7}}},
            "ok",
            id="an answer to us",
        ),
        pytest.param(
            {
                "text": "ok",
                "reply_to_message": {"message_id": 1, "chat": GROUP, "from": {"id": 7}, "forum_topic_created": {}},
            },
            None,
            id="all in a topic that we began is no answer to us",
        ),
        pytest.param(
            {"text": "Bot?", "entities": [{"type": "text_mention", "offset": 0, "length": 3, "user": {"id": 7}}]},
            "Bot?",
            id="a mention without a name",
        ),
    ],
)
def test_b102_group_is_heard_only_when_it_is_meant_for_us(fields: dict[str, Any], heard: str | None) -> None:
    said = read(chat=GROUP, **fields)
    assert (said.text if said else None) == heard


def test_all_of_an_album_is_heard_when_one_part_is_meant_for_us() -> None:
    reader, photo = UpdateReader(US), [{"file_id": "small"}, {"file_id": "large", "file_size": 5}]
    part: dict[str, Any] = {"chat": GROUP, "photo": photo, "media_group_id": "m"}
    assert reader.read(update(**part)) is None
    first = reader.read(update(**part, caption="@our_bot look", caption_entities=[MENTION]))
    second = reader.read(update(**part))
    assert first is not None and second is not None
    assert (first.text, first.album, second.album) == ("look", "m", "m")
    assert second.attachments == (Attachment("photo.jpg", "large", "image/jpeg", 5),)


def test_files_are_kept_as_references() -> None:
    document = {"file_id": "d", "file_name": "notes.txt", "mime_type": "text/plain", "file_size": 3}
    said = read(document=document, voice={"file_id": "v"})
    assert said is not None
    assert said.attachments == (
        Attachment("notes.txt", "d", "text/plain", 3),
        Attachment("voice.ogg", "v", "audio/ogg"),
    )


def press(data: str, person: int = 1) -> Inbound | None:
    shown = {"inline_keyboard": [[{"text": "Left", "callback_data": "=Left"}]]}
    message = {"message_id": 3, "chat": PRIVATE, "reply_markup": shown}
    query = {"id": "q", "from": {"id": person}, "message": message, "data": data}
    return UpdateReader(US).read(msgspec.convert({"update_id": 9, "callback_query": query}, Update))


def test_b71_answer_by_button_counts_once_for_each_person_and_a_command_each_time() -> None:
    left, right, bob = press("=Left"), press("=Right"), press("=Left", 2)
    approve, deny = press("=/approve t_1"), press("=/deny t_1")
    assert left and right and bob and approve and deny
    assert left.event_key == right.event_key != bob.event_key
    assert approve.event_key != deny.event_key
    assert (left.kind, left.text, left.message) == ("button", "Left", "3")


def test_b67_option_names_its_question_however_long_that_name_is() -> None:
    for question in ("c1.1", "a question that a function has given a name of its own, and a long one"):
        pick = Pick(question_id("t_0123456789abcdefghjkmn", question), 7)
        shown = keyboard([Button("Left", "Left", pick)])
        assert shown is not None
        pressed = press(shown["inline_keyboard"][0][0]["callback_data"])
        assert pressed is not None and pressed.pick is not None
        assert is_id_of_question(pressed.pick.question, "t_0123456789abcdefghjkmn", question)
        assert not is_id_of_question(pressed.pick.question, "t_0123456789abcdefghjkmn", "another")
        assert pressed.pick.option == 7
    old = press("=Left")
    assert old is not None and old.pick == Pick(under="3")


@pytest.mark.parametrize("kind", ["sticker", "location", "new_chat_photo"])
def test_message_without_words_is_not_understood(kind: str) -> None:
    with pytest.raises(NotUnderstood):
        UpdateReader(US).read(update(extra={kind: {}}))


def test_other_bots_are_not_heard() -> None:
    assert UpdateReader(US).read(update(text="hi", extra={"from": {"id": 8, "is_bot": True}})) is None

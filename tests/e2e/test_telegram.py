"""Telegram through a real gateway, against an emulator of the Bot API.

Drives `platforms/telegram` and `runtime/gateway`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.core import texts
from perdure.testing.telegram import (
    BOT_NAME,
    UNPARSABLE,
    Fault,
    LocalTelegram,
    too_many_requests,
    units,
)
from support.chat_folders import chat_workspace
from support.gateway import Person
from support.operator_client import Operator
from support.telegram import (
    query_database,
    telegram_gateway,
    wait_for_texts,
    wait_until_confirmed,
    wait_until_settled,
)
from support.waiting import wait_for


@pytest.fixture
def telegram() -> Iterator[LocalTelegram]:
    with LocalTelegram() as running:
        yield running


def test_b79_message_is_answered_where_it_was_written(tmp_path: Path, telegram: LocalTelegram) -> None:
    topic = telegram.topic()
    with telegram_gateway(tmp_path / "home", telegram) as process:
        first = telegram.write("say: **hello**")
        second = telegram.write("say: there", thread=topic)
        wait_for("both are answered", lambda: len(telegram.sent) == 2)
        seen = {sent.text: (sent.reply_to, sent.thread) for sent in telegram.sent}
        assert seen == {"hello": (first, None), "there": (second, topic)}
        assert next(sent for sent in telegram.sent if sent.text == "hello").entities[0]["type"] == "bold"
        keys = {key for (key,) in query_database(process, "SELECT key FROM sessions")}
        assert keys == {f"agent:main:telegram:dm:{telegram.ann}", f"agent:main:telegram:dm:{telegram.ann}:{topic}"}
        menu = [each["command"] for each in telegram.methods.commands]
        assert {"help", "stop", "new", "resume"} <= set(menu)
        web = Person(process)
        web.say("say: on the web")
        assert web.wait_for_replies(1) == ["on the web"], "the web is served beside it"
        wait_until_confirmed(telegram)
        assert process.stop() == 0
    assert telegram.token not in process.log()


def test_b102_group_is_answered_when_the_bot_is_meant_and_by_those_who_may(
    tmp_path: Path, telegram: LocalTelegram
) -> None:
    forum = telegram.group("Forum", forum=True)
    topic = telegram.topic(forum)
    with telegram_gateway(tmp_path / "home", telegram) as process:
        telegram.write("say: among ourselves", chat=forum, thread=topic)
        telegram.write(f"@{BOT_NAME} say: mine", chat=forum, sender="eve", thread=topic)
        telegram.write("/stop@another_bot", chat=forum)
        telegram.write(f"@{BOT_NAME} say: one", chat=forum, thread=topic)
        [one] = wait_for_texts(telegram, "one", chat=forum)
        assert one.thread == topic
        telegram.write("say: two", chat=forum, thread=topic, reply_to=one.message)
        wait_for_texts(telegram, "one", "two", chat=forum)
        wait_until_confirmed(telegram)
        raw = "".join(str(row) for row in query_database(process, "SELECT raw FROM inbox"))
    assert "among ourselves" not in raw, "what is not meant for us is not kept"
    assert telegram.seen(telegram.person("eve")) == []


def test_stranger_is_told_a_code_and_let_in_with_it(tmp_path: Path, telegram: LocalTelegram) -> None:
    bob = telegram.person("bob")
    with telegram_gateway(tmp_path / "home", telegram):
        telegram.write("say: let me in", sender="bob")
        [told] = wait_for("bob is told", lambda: telegram.texts(bob))
        assert "code" in told


def test_b85_edit_changes_a_message_that_waits(tmp_path: Path, telegram: LocalTelegram) -> None:
    with telegram_gateway(tmp_path / "home", telegram):
        telegram.write("step slow 3s\nsay: first")
        second = telegram.write("say: wrogn")
        telegram.edit(second, "say: right")
        wait_for_texts(telegram, "first", "right")


def test_album_is_one_turn_and_files_are_references(tmp_path: Path, telegram: LocalTelegram) -> None:
    with telegram_gateway(tmp_path / "home", telegram, QUEUE__QUIET="200ms") as process:
        telegram.share("photo", "cat.jpg", caption="say: a cat", album="a")
        telegram.share("document", "notes.txt", album="a")
        wait_for("the album is answered", lambda: telegram.texts())
        kept = query_database(process, "SELECT name, media_type, state FROM attachments ORDER BY id")
        turns = query_database(process, "SELECT id FROM turns")
    assert [(name, kind) for name, kind, _ in kept] == [("photo.jpg", "image/jpeg"), ("notes.txt", "text/plain")]
    assert (len(turns), len(telegram.sent)) == (1, 1)


# ── buttons ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_b67_question_is_answered_by_a_button_after_a_kill(tmp_path: Path, telegram: LocalTelegram) -> None:
    far = "A way so long that its name has no room behind a button: over the hills and far away"
    with telegram_gateway(tmp_path / "home", telegram) as process:
        telegram.write(f"ask: Which way? | Left | {far}\nstep go 0s")
        question = wait_for("the question is asked", lambda: telegram.seen())[0]
        assert question.labels() == ["Left", far]
        wait_until_confirmed(telegram)
        wait_until_settled(process)
        process.kill()
        telegram.press(far)
        process.start()
        wait_for_texts(telegram, question.text, f"{far}\ngo: done")
        telegram.press("Left", sent=question)
        wait_until_confirmed(telegram)
        wait_for("both presses are answered", lambda: len(telegram.methods.answers) == 2)
        assert telegram.methods.answers[1]["text"] == texts.questions.BUTTON_PRESSED_BEFORE
        assert len(query_database(process, "SELECT id FROM turns")) == 1, "a second press begins nothing"


def test_b67_press_under_an_old_question_answers_nothing_and_begins_nothing(
    tmp_path: Path, telegram: LocalTelegram
) -> None:
    group, bob = telegram.group(), telegram.person("bob")
    people = f"{telegram.ann},{bob}"
    with telegram_gateway(tmp_path / "home", telegram, PLATFORMS__TELEGRAM__ALLOW=people) as process:
        telegram.write(
            f"@{BOT_NAME} ask: First? | Left | Right\nask: Second? | Left | Right\nstep go 0s", chat=group
        )
        first = wait_for("it asks", lambda: telegram.seen(group))[0]
        telegram.press("Left", chat=group)
        wait_for("it asks again", lambda: len(telegram.seen(group)) == 2)
        wait_until_settled(process)
        process.kill()
        telegram.press("Right", chat=group, sender="bob", sent=first)
        telegram.press_data("=Right", first, sender="cleo")  # as buttons were before they had names
        telegram.press_data("=Left", first, sender="bob")
        process.start()
        wait_for("all presses are answered", lambda: len(telegram.methods.answers) == 4)
        told = [answer.get("text") for answer in telegram.methods.answers]
        assert sorted(map(str, told)) == sorted(
            [
                "None",
                texts.questions.BUTTON_TOO_LATE,
                texts.questions.BUTTON_TOO_LATE,
                texts.questions.BUTTON_NOT_ALLOWED,
            ]
        )
        second = telegram.seen(group)[1]
        Operator(process).post("/people/add", who=f"telegram:{telegram.person('gus')}", role="guest")
        telegram.press("Right", chat=group, sender="gus", sent=second)
        wait_for("the guest is told", lambda: len(telegram.methods.answers) == 5)
        assert telegram.methods.answers[-1]["text"] == texts.questions.BUTTON_NOT_YOURS
        assert len(telegram.seen(group)) == 2, "it still waits for the second answer"
        telegram.press_data("=Right", second, sender="bob")
        wait_for("it goes on", lambda: telegram.texts(group)[2:])
        assert telegram.texts(group)[2].endswith("go: done")
        wait_until_confirmed(telegram)
        assert len(query_database(process, "SELECT id FROM turns")) == 1


def test_b67_question_of_work_in_the_background_is_answered_by_its_own_button(
    tmp_path: Path, telegram: LocalTelegram
) -> None:
    with telegram_gateway(tmp_path / "home", telegram):
        telegram.write("/background ask: First? | Left | Right\nask: Second? | Left | Right\nstep go 0s")
        first = wait_for("it asks", lambda: [sent for sent in telegram.seen() if sent.buttons])[0]
        telegram.press("Left")
        wait_for("it asks again", lambda: [sent for sent in telegram.seen() if "Second?" in sent.text])
        telegram.press("Right", sent=first)
        wait_for("both are answered", lambda: len(telegram.methods.answers) == 2)
        telegram.press("Right")
        wait_for("it goes on", lambda: telegram.texts()[-1].endswith("go: done"))


def test_b66_approval_is_given_by_a_button_and_not_by_a_stranger(tmp_path: Path, telegram: LocalTelegram) -> None:
    group = telegram.group()
    with telegram_gateway(tmp_path / "home", telegram):
        telegram.write(f"@{BOT_NAME} danger: rm -rf nothing-there", chat=group)
        asked = wait_for("it asks", lambda: telegram.seen(group))[0]
        assert asked.labels() == ["Approve", "Deny"]
        telegram.press("Approve", chat=group, sender="eve")
        wait_for("eve is told", lambda: telegram.methods.answers)
        assert telegram.methods.answers[0]["text"] == texts.questions.BUTTON_NOT_ALLOWED
        telegram.press("Deny", chat=group)
        wait_for("it goes on", lambda: len(telegram.texts(group)) > 1)


def test_cut_off_turn_is_resumed_by_a_button(tmp_path: Path, telegram: LocalTelegram) -> None:
    with telegram_gateway(tmp_path / "home", telegram, PLATFORMS__TELEGRAM__RECOVERY="ask") as process:
        telegram.write("step slow 2s\nsay: done")
        wait_for("the step runs", lambda: (process.home / "rehearsal.log").exists())
        process.kill()
        process.start()
        asked = wait_for("the chat is asked", lambda: telegram.seen())[0]
        assert asked.labels() == ["Resume", "Drop"]
        telegram.press("Resume")
        wait_for("it goes on", lambda: telegram.texts()[-1] == "done")


def test_button_of_another_program_is_told_to_mean_nothing(tmp_path: Path, telegram: LocalTelegram) -> None:
    chat = {"id": telegram.ann, "type": "private"}
    pressed = {"id": "q1", "from": {"id": telegram.ann, "is_bot": False, "first_name": "Ann"}}
    with telegram_gateway(tmp_path / "home", telegram):
        telegram.state.queries.add("q1")
        message = {"message_id": 1, "chat": chat, "date": 0}
        telegram.happen({"callback_query": {**pressed, "message": message, "data": "buy", "chat_instance": "1"}})
        wait_for("it is answered", lambda: telegram.methods.answers)
    assert telegram.methods.answers[0]["text"] == texts.questions.BUTTON_UNKNOWN


# ── texts ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", ["**a *b `c [d](e", "<b>&lt;", "_" * 50, "```", "# ", "[x](http://[)", "a\\"])
def test_hostile_text_arrives(tmp_path: Path, telegram: LocalTelegram, text: str) -> None:
    with telegram_gateway(tmp_path / "home", telegram):
        telegram.write(f"say: {text}")
        wait_for("it arrives", lambda: telegram.texts())
    assert all(call.status == 200 for call in telegram.calls if call.method == "sendMessage")


def test_text_is_sent_plain_when_its_marks_are_refused(tmp_path: Path, telegram: LocalTelegram) -> None:
    telegram.befall("sendMessage", Fault(refusal=UNPARSABLE))
    with telegram_gateway(tmp_path / "home", telegram):
        telegram.write("say: **bold**")
        wait_for_texts(telegram, "**bold**")


def test_b75_long_text_comes_in_parts_that_telegram_takes(tmp_path: Path, telegram: LocalTelegram) -> None:
    smiles = "\N{GRINNING FACE}" * 4500
    with telegram_gateway(tmp_path / "home", telegram):
        telegram.write(f"say: {smiles[:1500]}")
        wait_for("it arrives", lambda: telegram.texts())
        for count in range(2):
            telegram.write(f"say: {'word ' * 700}{count}")
        wait_for("the others arrive", lambda: len(telegram.texts()) == 3)
        telegram.write("flood: 9000")
        wait_for("it arrives in parts", lambda: len(telegram.texts()) >= 6)
    assert all(units(text) <= 4096 for text in telegram.texts())


def test_b81_long_answer_of_a_command_comes_in_parts(tmp_path: Path, telegram: LocalTelegram) -> None:
    with telegram_gateway(tmp_path / "home", telegram, BACKGROUND__AT_ONCE="100"):
        for number in range(40):
            telegram.write(f"/background ask: {number} {'word ' * 40} | Yes")
        wait_for("all ask", lambda: sum(bool(sent.buttons) for sent in telegram.sent) == 40, 60)
        before = len(telegram.sent)
        telegram.write("/background")
        wait_for("the list comes", lambda: "Background 40 " in "".join(telegram.texts()[before:]))
        listed = telegram.texts()[before:]
    assert len(listed) > 1
    assert all(f"Background {number} " in "\n".join(listed) for number in range(1, 41))


def test_b76_growing_answer_is_one_message_that_is_edited(tmp_path: Path, telegram: LocalTelegram) -> None:
    words = " ".join(f"word{number}" for number in range(20))
    with telegram_gateway(tmp_path / "home", telegram):
        telegram.write(f"stream: {words}")
        wait_for_texts(telegram, words)
    assert len(telegram.sent) == 1
    assert telegram.sent[0].before, "it was seen to grow"


# ── typing ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_typing_is_shown_again_while_a_turn_runs_and_not_after_it(tmp_path: Path, telegram: LocalTelegram) -> None:
    with telegram_gateway(tmp_path / "home", telegram, AGENT__TOOLS="shell,clarify") as process:
        telegram.write("run: until test -e go; do sleep 0.1; done\nask: Go on? | Yes")
        wait_for("it is shown again", lambda: telegram.count("sendChatAction") >= 2)
        held = telegram.befall("sendChatAction", Fault(hold=True))
        wait_for("it is being shown once more", held.reached.is_set)
        (chat_workspace(process.home, f"agent:main:telegram:dm:{telegram.ann}") / "go").touch()
        wait_for("the question is asked", lambda: telegram.seen())
        wait_until_settled(process)
        held.release()
        seen = [call.method for call in telegram.calls if call.method in ("sendChatAction", "sendMessage")]
        assert seen[-1] == "sendMessage", "nothing is shown behind the question"
    assert telegram.methods.actions[-1] == (telegram.ann, "typing")


def test_typing_that_telegram_refuses_delays_no_answer(tmp_path: Path, telegram: LocalTelegram) -> None:
    telegram.befall("sendChatAction", Fault(refusal=too_many_requests(3600)))
    with telegram_gateway(tmp_path / "home", telegram):
        telegram.write("step slow 1s\nsay: done")
        wait_for_texts(telegram, "done")
        telegram.write("step slow 1s\nsay: and again")
        wait_for_texts(telegram, "done", "and again")
    assert telegram.count("sendChatAction") == 1, "it is left alone as long as it wants"


def test_b76_short_answer_is_one_message_that_was_never_edited(tmp_path: Path, telegram: LocalTelegram) -> None:
    with telegram_gateway(tmp_path / "home", telegram):
        telegram.write("stream: so short")
        wait_for_texts(telegram, "so short")
    assert telegram.count("sendMessage") == 1
    assert telegram.count("editMessageText") == 0


def test_answer_is_not_seen_to_grow_when_that_is_switched_off(tmp_path: Path, telegram: LocalTelegram) -> None:
    words = " ".join(f"word{number}" for number in range(10))
    with telegram_gateway(tmp_path / "home", telegram, PLATFORMS__TELEGRAM__STREAM="false"):
        telegram.write(f"stream: {words}")
        wait_for_texts(telegram, words)
    assert (telegram.count("sendMessage"), telegram.count("editMessageText")) == (1, 0)

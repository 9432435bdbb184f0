"""What goes wrong between a gateway and Telegram: each is told in words, and nothing is lost.

Drives `platforms/telegram/bot_api` and `runtime/connections`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from perdure.core import texts
from perdure.core.delivery import RESOLUTION_REMARKS, Resolution
from perdure.errors import SendRefused, SendRetry
from perdure.platforms.telegram.bot_api import BotApiResponse, CallRefused, ResponseParameters, send_error
from perdure.testing.telegram import (
    BLOCKED,
    BOT_NAME,
    INTERNAL_ERROR,
    UNAUTHORIZED,
    Fault,
    LocalTelegram,
    too_many_requests,
)
from support.gateway import Person
from support.shutdown import read_only_store
from support.telegram import (
    query_database,
    readiness_problems,
    telegram_gateway,
    trace_output,
    wait_for_texts,
    wait_until_settled,
)
from support.waiting import wait_for


@pytest.fixture
def telegram() -> Iterator[LocalTelegram]:
    with LocalTelegram() as running:
        yield running


def test_b75_reply_waits_as_long_as_telegram_wants(tmp_path: Path, telegram: LocalTelegram) -> None:
    telegram.befall("sendMessage", Fault(refusal=too_many_requests(1)))
    with telegram_gateway(tmp_path / "home", telegram) as process:
        telegram.write("say: patience")
        wait_for_texts(telegram, "patience")
        assert process.stop() == 0
    assert telegram.count("sendMessage") == 2


def test_b75_refused_reply_is_given_up_and_the_next_one_is_sent(tmp_path: Path, telegram: LocalTelegram) -> None:
    telegram.befall("sendMessage", Fault(refusal=BLOCKED))
    with telegram_gateway(tmp_path / "home", telegram) as process:
        telegram.write("say: one")
        wait_for("it is refused", lambda: query_database(process, "SELECT id FROM outbox WHERE state = 'refused'"))
        telegram.write("say: two")
        wait_for_texts(telegram, "two")
        [(problem,)] = query_database(process, "SELECT problem FROM outbox WHERE state = 'refused'")
    assert problem == texts.platforms.BLOCKED


def test_reply_to_a_deleted_topic_is_given_up_in_words(tmp_path: Path, telegram: LocalTelegram) -> None:
    topic = telegram.topic()
    with telegram_gateway(tmp_path / "home", telegram) as process:
        telegram.write("step slow 3s\nsay: too late", thread=topic)
        wait_for("the step runs", lambda: (process.home / "rehearsal.log").exists())
        telegram.remove_topic(topic)
        found = wait_for(
            "it is refused", lambda: query_database(process, "SELECT problem FROM outbox WHERE state = 'refused'")
        )
    assert found == [(texts.platforms.NO_TOPIC,)]


def test_reply_follows_a_group_that_has_become_a_supergroup(tmp_path: Path, telegram: LocalTelegram) -> None:
    group = telegram.group(basic=True)
    with telegram_gateway(tmp_path / "home", telegram) as process:
        telegram.write(f"@{BOT_NAME} step slow 3s\nsay: moved", chat=group)
        wait_for("the step runs", lambda: (process.home / "rehearsal.log").exists())
        new = telegram.migrate(group)
        wait_for_texts(telegram, "moved", chat=new)


@pytest.mark.parametrize(
    ("settings", "seen"),
    [
        pytest.param({}, ["hi", texts.delivery.maybe_duplicate("hi")], id="it is sent again with a mark"),
        pytest.param(
            {"DELIVERY__UNKNOWN": "drop"}, ["hi", texts.delivery.REPLY_DROPPED], id="or given up with a notice"
        ),
    ],
)
def test_b74_reply_whose_answer_was_lost(
    tmp_path: Path, telegram: LocalTelegram, settings: dict[str, str], seen: list[str]
) -> None:
    telegram.befall("sendMessage", Fault(cut=True, effect=True))
    telegram.befall("sendMessage", Fault(refusal=too_many_requests(1)))  # which does not make it forgotten
    with telegram_gateway(tmp_path / "home", telegram, **settings) as process:
        message = telegram.write("say: hi")
        wait_for_texts(telegram, *seen)
        wait_until_settled(process)
        assert RESOLUTION_REMARKS[Resolution.DROP if settings else Resolution.RESEND] in trace_output(
            process, message
        )


@pytest.mark.anyio
async def test_b74_unknown_sends_are_counted_by_how_they_were_resolved(tmp_path: Path) -> None:
    with LocalTelegram() as telegram, telegram_gateway(tmp_path / "home", telegram) as process:
        telegram.befall("sendMessage", Fault(cut=True, effect=True))
        telegram.write("say: hi")
        wait_for_texts(telegram, "hi", texts.delivery.maybe_duplicate("hi"))
        telegram.write("say: fine")
        wait_for("it is answered", lambda: telegram.texts()[-1] == "fine")
        wait_until_settled(process)
        process.stop()
        async with read_only_store(process.home) as store:
            sent = await store.database.read(lambda tx: tx.all("SELECT state, problem FROM outbox ORDER BY id"))
    assert sorted(sent, key=str) == sorted(
        [("sent", None), ("sent", RESOLUTION_REMARKS[Resolution.RESEND])], key=str
    )


@pytest.mark.parametrize(
    "fault",
    [Fault(refusal=INTERNAL_ERROR), Fault(page=(502, b"<html>Bad Gateway</html>")), Fault(page=(200, b"{}"))],
    ids=["an error of theirs", "a page of another server", "an answer that is none"],
)
def test_b74_reply_whose_outcome_telegram_does_not_tell(
    tmp_path: Path, telegram: LocalTelegram, fault: Fault
) -> None:
    telegram.befall("sendMessage", fault)
    with telegram_gateway(tmp_path / "home", telegram):
        telegram.write("say: hi")
        wait_for_texts(telegram, texts.delivery.maybe_duplicate("hi"))


# ── connections ─────────────────────────────────────────────────────────────────────────────────────────────


def test_another_poller_is_told_clearly_and_nothing_is_lost(tmp_path: Path, telegram: LocalTelegram) -> None:
    with telegram_gateway(tmp_path / "home", telegram) as process:
        wait_for("it polls", lambda: telegram.count("getUpdates"))
        httpx.post(f"{telegram.url}/bot{telegram.token}/getUpdates", json={"timeout": 0})
        wait_for("it is told", lambda: f"telegram: {texts.platforms.CONTESTED}" in readiness_problems(process))
        assert texts.platforms.CONTESTED in process.log()
        telegram.write("say: after all")
        wait_for_texts(telegram, "after all")


def test_revoked_token_is_told_clearly_and_the_web_goes_on(tmp_path: Path, telegram: LocalTelegram) -> None:
    with telegram_gateway(tmp_path / "home", telegram, PLATFORMS__TELEGRAM__TOKEN="1:another") as process:  # noqa: S106
        wait_for("it is told", lambda: f"telegram: {texts.platforms.UNKNOWN_BOT}" in readiness_problems(process))
        web = Person(process)
        web.say("say: on the web")
        assert web.wait_for_replies(1) == ["on the web"]
        assert process.stop() == 0


def test_b75_gateway_waits_for_telegram_that_is_down(tmp_path: Path, telegram: LocalTelegram) -> None:
    for _ in range(2):
        telegram.befall("getMe", Fault(cut=True))
    telegram.befall("getUpdates", Fault(refusal=INTERNAL_ERROR))
    telegram.befall("getUpdates", Fault(refusal=UNAUTHORIZED))
    with telegram_gateway(tmp_path / "home", telegram):
        telegram.write("say: at last")
        wait_for_texts(telegram, "at last")


def test_webhook_of_an_earlier_program_is_removed(tmp_path: Path, telegram: LocalTelegram) -> None:
    url = f"{telegram.url}/bot{telegram.token}/setWebhook"
    assert httpx.post(url, json={"url": "https://127.0.0.1:9/hook"}).json()["ok"]
    with telegram_gateway(tmp_path / "home", telegram):
        telegram.write("say: hi")
        wait_for_texts(telegram, "hi")
    assert telegram.methods.webhook == ""


def test_stop_confirms_what_is_stored_and_takes_no_poll_to_its_end(
    tmp_path: Path, telegram: LocalTelegram
) -> None:
    with telegram_gateway(tmp_path / "home", telegram) as process:
        telegram.write("say: hi")
        wait_for_texts(telegram, "hi")
        assert process.stop() == 0
    assert telegram.unconfirmed() == []


@pytest.mark.parametrize(
    ("description", "told"),
    [
        ("Forbidden: bot was blocked by the user", texts.platforms.BLOCKED),
        ("Forbidden: user is deactivated", texts.platforms.BLOCKED),
        ("Forbidden: bot was kicked from the supergroup chat", texts.platforms.KICKED),
        ("Forbidden: bot is not a member of the channel chat", texts.platforms.KICKED),
        ("Bad Request: not enough rights to send text messages to the chat", texts.platforms.MUTED),
        ("Bad Request: message thread not found", texts.platforms.NO_TOPIC),
        ("Bad Request: TOPIC_CLOSED", texts.platforms.NO_TOPIC),
        ("Bad Request: chat not found", texts.platforms.NO_CHAT),
        ("Bad Request: something new", "Telegram does not take it: Bad Request: something new"),
    ],
)
def test_refusal_is_told_in_words(description: str, told: str) -> None:
    refused = send_error(CallRefused(BotApiResponse(False, error_code=400, description=description)))
    assert isinstance(refused, SendRefused)
    assert refused.message == told


def test_wait_that_telegram_names_is_kept_and_one_without_a_number_is_a_second() -> None:
    for given, waits in ((7.0, 7.0), (None, 1.0), (0.0, 1.0)):
        answer = BotApiResponse(
            False, error_code=429, description="Too Many Requests", parameters=ResponseParameters(given)
        )
        refused = send_error(CallRefused(answer))
        assert isinstance(refused, SendRetry)
        assert refused.after == waits


def test_b75_other_chats_are_served_while_one_must_wait(tmp_path: Path, telegram: LocalTelegram) -> None:
    telegram.befall("sendMessage", Fault(refusal=too_many_requests(3600)))
    topic = telegram.topic()
    with telegram_gateway(tmp_path / "home", telegram) as process:
        telegram.write("say: later")
        wait_for(
            "it waits",
            lambda: query_database(process, "SELECT id FROM outbox WHERE state = 'owed' AND due_at > 0"),
        )
        telegram.write("say: now", thread=topic)
        wait_for_texts(telegram, "now")


def test_poll_waits_as_long_as_telegram_wants(tmp_path: Path, telegram: LocalTelegram) -> None:
    telegram.befall("getUpdates", Fault(refusal=too_many_requests(1)))
    with telegram_gateway(tmp_path / "home", telegram):
        telegram.write("say: after that")
        wait_for_texts(telegram, "after that")


def test_b75_token_revoked_while_running_is_told_and_replies_wait(tmp_path: Path, telegram: LocalTelegram) -> None:
    with telegram_gateway(tmp_path / "home", telegram) as process:
        held = telegram.befall("sendMessage", Fault(refusal=UNAUTHORIZED))
        telegram.write("say: when it is good again")
        wait_for("the send is refused", held.reached.is_set)
        good, telegram.token = telegram.token, "another:token"
        # This ends the poll under way.
        httpx.post(f"{telegram.url}/bot{telegram.token}/getUpdates", json={"timeout": 0})
        wait_for(
            "it is told", lambda: f"telegram: {texts.platforms.UNKNOWN_BOT}" in readiness_problems(process), 60
        )
        assert query_database(process, "SELECT state FROM outbox") == [("owed",)]
        telegram.token = good
        wait_for_texts(telegram, "when it is good again")


def test_b76_answer_comes_though_its_edits_meet_the_limit(tmp_path: Path, telegram: LocalTelegram) -> None:
    words = " ".join(f"word{number}" for number in range(30))
    telegram.befall("editMessageText", Fault(refusal=too_many_requests(1)))
    with telegram_gateway(tmp_path / "home", telegram):
        telegram.write(f"stream: {words}")
        wait_for_texts(telegram, words)
    assert len(telegram.sent) == 1


def test_b76_answer_follows_a_group_that_becomes_a_supergroup_while_it_grows(
    tmp_path: Path, telegram: LocalTelegram
) -> None:
    group = telegram.group(basic=True)
    words = " ".join(f"word{number}" for number in range(20))
    with telegram_gateway(tmp_path / "home", telegram) as process:
        telegram.write(f"@{BOT_NAME} stream: {words}", chat=group)
        wait_for(
            "it begins to show",
            lambda: query_database(process, "SELECT receipt FROM previews WHERE receipt NOTNULL"),
        )
        new = telegram.migrate(group)
        wait_for_texts(telegram, words, chat=new)


def test_bot_that_was_thrown_out_says_so(tmp_path: Path, telegram: LocalTelegram) -> None:
    group = telegram.group()
    with telegram_gateway(tmp_path / "home", telegram) as process:
        telegram.write(f"@{BOT_NAME} step slow 3s\nsay: too late", chat=group)
        wait_for("the step runs", lambda: (process.home / "rehearsal.log").exists())
        telegram.kick(group)
        query = "SELECT problem FROM outbox WHERE state = 'refused'"
        assert wait_for("it is refused", lambda: query_database(process, query)) == [(texts.platforms.KICKED,)]

"""Telegram posts updates to a real gateway: what is not stored is not acknowledged, and nobody else may post.

Drives `platforms/telegram` and `web/app`.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from perdure.config import load_settings
from perdure.core import texts
from perdure.platforms.telegram import TelegramAdapter
from perdure.runtime.gateway import Gateway
from perdure.store.database import Database
from perdure.testing import FaultyDatabase
from perdure.testing.telegram import Fault, LocalTelegram
from perdure.web.app import create_app
from support.gateway import GatewayProcess
from support.telegram import (
    query_database,
    readiness_problems,
    telegram_gateway,
    wait_for_texts,
    wait_until_confirmed,
    wait_until_settled,
)
from support.waiting import eventually, wait_for

PUBLIC = "https://bot.example.org"
HOOK = {"PLATFORMS__TELEGRAM__WEBHOOK": PUBLIC}


@pytest.fixture
def telegram() -> Iterator[LocalTelegram]:
    with LocalTelegram() as running:
        yield running


def publish(telegram: LocalTelegram, process: GatewayProcess) -> None:
    """Let the public address lead to the gateway, as a proxy before it would."""
    telegram.methods.webhook_poster.published[PUBLIC] = process.url


def secret_of(telegram: LocalTelegram) -> dict[str, str]:
    return {"X-Telegram-Bot-Api-Secret-Token": telegram.methods.webhook_poster.secret}


def test_b70_messages_are_posted_and_switching_back_removes_the_webhook(
    tmp_path: Path, telegram: LocalTelegram
) -> None:
    with telegram_gateway(tmp_path / "home", telegram, **HOOK) as process:
        publish(telegram, process)
        telegram.write("ask: Which way? | Left | Right\nstep go 0s")
        wait_for("it asks", lambda: telegram.seen())
        telegram.press("Left")
        wait_for("it goes on", lambda: telegram.texts()[1:])
        wait_until_confirmed(telegram)
        assert [each.status for each in telegram.methods.webhook_poster.deliveries][-2:] == [200, 200]
        assert telegram.count("getUpdates") == 0
        secret = telegram.methods.webhook_poster.secret
        assert telegram.methods.webhook == f"{PUBLIC}/hooks/telegram"
        assert process.stop() == 0
    assert telegram.methods.webhook, "what is written now waits for the next start"
    assert secret not in process.log()
    telegram.write("say: while it was down")
    with telegram_gateway(tmp_path / "home", telegram):
        wait_for("it is answered", lambda: telegram.texts()[-1] == "while it was down")
        assert telegram.methods.webhook == ""


def test_b103_only_telegram_may_post_and_not_too_much(tmp_path: Path, telegram: LocalTelegram) -> None:
    said = {"message_id": 1, "chat": {"id": telegram.ann, "type": "private"}, "text": "say: forged"}
    update = {"update_id": 1, "message": said | {"from": {"id": telegram.ann, "first_name": "Ann"}, "date": 0}}
    with telegram_gateway(tmp_path / "home", telegram, **HOOK) as process:
        wait_for("the webhook is set", lambda: telegram.methods.webhook)
        hook, secret = f"{process.url}/hooks/telegram", secret_of(telegram)
        wrong = {"X-Telegram-Bot-Api-Secret-Token": "wrong"}
        assert httpx.post(hook, json=update).status_code == 401
        assert httpx.post(hook, json=update, headers=wrong).status_code == 401
        assert httpx.post(hook, content=b"x" * 2_000_000, headers=secret).status_code == 413
        assert httpx.get(hook, headers=secret).status_code == 405
        assert httpx.post(f"{process.url}/hooks/web", json=update, headers=secret).status_code == 404
        assert query_database(process, "SELECT id FROM inbox") == []
        for broken in (b"", b"{", b"7", b'{"update_id": 3, "message": "half: \\ud800"}', b"\xff" * 9):
            assert httpx.post(hook, content=broken, headers=secret).status_code == 200, "it would come for ever"
        wait_for(
            "they are kept",
            lambda: len(query_database(process, "SELECT id FROM inbox WHERE state = 'rejected'")) == 5,
        )
        publish(telegram, process)
        telegram.write("say: real")
        wait_for_texts(telegram, "real")


def test_hooks_are_not_there_when_updates_are_polled(tmp_path: Path, telegram: LocalTelegram) -> None:
    with telegram_gateway(tmp_path / "home", telegram) as process:
        assert httpx.post(f"{process.url}/hooks/telegram", json={}).status_code == 404


def test_webhook_that_telegram_refuses_is_told_in_words(tmp_path: Path, telegram: LocalTelegram) -> None:
    plain = {"PLATFORMS__TELEGRAM__WEBHOOK": "http://bot.example.org"}
    with telegram_gateway(tmp_path / "home", telegram, **plain) as process:
        wait_for("it is told", lambda: "HTTPS URL must be provided" in "".join(readiness_problems(process)))


def test_b70_b71_nothing_is_lost_or_doubled_when_killed_around_a_post(
    tmp_path: Path, telegram: LocalTelegram
) -> None:
    courier = telegram.methods.webhook_poster
    with telegram_gateway(tmp_path / "home", telegram, **HOOK) as process:
        publish(telegram, process)
        wait_for("the webhook is set", lambda: telegram.methods.webhook)
        process.signal(signal.SIGSTOP)
        telegram.write("once one 0s\nsay: first")
        wait_for("it is posted, and not stored", lambda: courier.deliveries)
        process.kill()
        process.start()
        wait_for_texts(telegram, "first")
        courier.lose_answers = 1_000_000  # it is stored, and Telegram does not hear so
        telegram.write("once two 0s\nsay: second")
        wait_for_texts(telegram, "first", "second")
        wait_until_settled(process)
        process.kill()
        courier.lose_answers = 0
        process.start()
        wait_until_confirmed(telegram)
        assert [state for (state,) in query_database(process, "SELECT state FROM turns")] == ["done", "done"]
        assert telegram.texts() == ["first", "second"]
    ran = (tmp_path / "home" / "rehearsal.log").read_text()
    assert (ran.count("one"), ran.count("two")) == (1, 1)


@pytest.mark.anyio
async def test_b70_post_is_answered_503_while_the_store_is_away(tmp_path: Path, telegram: LocalTelegram) -> None:
    databases: list[FaultyDatabase] = []

    def wrap(database: Database) -> Database:
        databases.append(FaultyDatabase(database))
        return databases[0]

    settings = load_settings(tmp_path, {"PERDURE_PLATFORMS__TELEGRAM__ALLOW": str(telegram.ann)})
    adapter = TelegramAdapter(telegram.token, telegram.url, PUBLIC)
    held = telegram.befall("setWebhook", Fault(effect=True, hold=True))
    gateway = Gateway(settings, adapters=[adapter], wrap=wrap)
    running = asyncio.create_task(gateway.run())
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(create_app(gateway, "token", loopback=True)), base_url="http://here"
    ) as client:
        await eventually("the webhook is being set", held.reached.is_set)
        update = {"update_id": 1, "message": _said(telegram, "say: kept")}
        early = await client.post("/hooks/telegram", json=update, headers=secret_of(telegram))
        assert (early.status_code, early.text) == (503, texts.platforms.UPDATE_NOT_STORED), "nobody takes it yet"
        held.release()
        await eventually("it is connected", lambda: not gateway.problems())
        databases[0].fill()
        refused = await client.post("/hooks/telegram", json=update, headers=secret_of(telegram))
        assert (refused.status_code, refused.text) == (503, texts.platforms.UPDATE_NOT_STORED)
        databases[0].mend()
        for _ in range(2):
            taken = await client.post("/hooks/telegram", json=update, headers=secret_of(telegram))
            assert taken.status_code == 200
        await eventually("it is answered", lambda: telegram.texts() == ["kept"])
        gateway.stop()
        await running


def _said(telegram: LocalTelegram, text: str) -> dict[str, object]:
    chat = {"id": telegram.ann, "type": "private"}
    person = {"id": telegram.ann, "is_bot": False, "first_name": "Ann"}
    return {"message_id": 1, "chat": chat, "from": person, "date": 0, "text": text}

"""Several gateways with one Telegram bot: one of them receives, the others stand by, can send, and take over.

Drives `runtime/receiving` and `store/receiving_leases`.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psycopg
import pytest

from perdure.core.texts.recovery import message_stored
from perdure.testing.telegram import LocalTelegram
from support.gateway import GatewayProcess
from support.telegram import telegram_settings, wait_until_confirmed
from support.waiting import wait_for

LEASE = 3.0  # seconds, instead of 30


@pytest.fixture
def telegram() -> Iterator[LocalTelegram]:
    with LocalTelegram() as running:
        yield running


def shared(folder: Path, url: str, telegram: LocalTelegram, name: str) -> GatewayProcess:
    settings = telegram_settings(telegram) | {"STORE__URL": url, "STORE__LEASE": f"{LEASE}s"}
    return GatewayProcess(folder / name, **settings)


@contextmanager
def pair_of_gateways(
    folder: Path, url: str, telegram: LocalTelegram
) -> Iterator[tuple[GatewayProcess, GatewayProcess]]:
    """Run two gateways, of which the first one receives."""
    holder, standby = (shared(folder, url, telegram, name) for name in ("holder", "standby"))
    try:
        holder.start()
        wait_for("the first one receives", lambda: receives(holder))
        standby.start()
        wait_for("the second one stands by", lambda: standing_by(standby) == ["telegram"])
        yield holder, standby
    finally:
        holder.close()
        standby.close()


def receives(process: GatewayProcess) -> bool:
    return "receiving platform=telegram" in process.log()


def readiness(process: GatewayProcess) -> httpx.Response:
    return httpx.get(f"{process.url}/readyz", timeout=30)


def standing_by(process: GatewayProcess) -> list[str]:
    """The platforms for which a ready gateway stands by."""
    found = readiness(process)
    return list(found.json().get("standing_by", [])) if found.status_code == 200 else []


def contests(telegram: LocalTelegram) -> int:
    """Count the polls that another poll has ended."""
    return sum(call.status == 409 for call in telegram.calls)


def answered_once(url: str, telegram: LocalTelegram, *texts: str) -> None:
    """Wait until the chat sees these answers, each has its receipt, and nothing would come again."""
    wait_for(f"the chat sees {texts}", lambda: answers(telegram) == list(texts) or None)
    wait_until_confirmed(telegram)
    wait_for("every send has its receipt", lambda: unsent(url) == 0 or None)
    assert contests(telegram) == 0


def answers(telegram: LocalTelegram) -> list[str]:
    """The answers in Ann's chat, without the notice of a gateway that stops that her message is stored."""
    return [text for text in telegram.texts() if text != message_stored(restart=False)]


def unsent(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute("SELECT count(*) FROM outbox WHERE state <> 'sent'").fetchone()
    return int(row[0]) if row else 0


def test_b167_one_gateway_receives_and_the_other_one_is_ready(
    tmp_path: Path, postgres_url: str, telegram: LocalTelegram
) -> None:
    with pair_of_gateways(tmp_path, postgres_url, telegram) as (holder, standby):
        for number in range(3):
            telegram.write(f"say: {number}")
        answered_once(postgres_url, telegram, "0", "1", "2")
        assert standing_by(holder) == []
        assert standing_by(standby) == ["telegram"]
        assert (standby.stop(), holder.stop()) == (0, 0)


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
def test_b167_standby_takes_over_when_the_receiving_gateway_ends(
    tmp_path: Path, postgres_url: str, telegram: LocalTelegram, ending: signal.Signals
) -> None:
    with pair_of_gateways(tmp_path, postgres_url, telegram) as (holder, standby):
        telegram.write("say: first")
        answered_once(postgres_url, telegram, "first")
        holder.signal(ending)
        telegram.write("say: second")
        assert holder.wait() == (0 if ending == signal.SIGTERM else -ending)
        answered_once(postgres_url, telegram, "first", "second")
        assert standing_by(standby) == []
        holder.start()
        wait_for("the first one stands by now", lambda: standing_by(holder) == ["telegram"])
        telegram.write("say: third")
        answered_once(postgres_url, telegram, "first", "second", "third")
        assert (holder.stop(), standby.stop()) == (0, 0)


def test_b167_gateway_that_drains_hands_over_at_once(
    tmp_path: Path, postgres_url: str, telegram: LocalTelegram
) -> None:
    """It still works on a turn when the other one receives."""
    with pair_of_gateways(tmp_path, postgres_url, telegram) as (holder, standby):
        telegram.write("step long 600s\nsay: never")
        wait_for("the step runs", lambda: (holder.home / "rehearsal.log").exists())
        holder.signal(signal.SIGTERM)
        wait_for("the other one receives", lambda: receives(standby))
        assert holder.process is not None
        assert holder.process.poll() is None, "it still drains"
        assert contests(telegram) == 0
        holder.signal(signal.SIGTERM)
        assert holder.wait() == 0


def test_b167_frozen_gateway_asks_for_nothing_when_it_wakes(
    tmp_path: Path, postgres_url: str, telegram: LocalTelegram
) -> None:
    with pair_of_gateways(tmp_path, postgres_url, telegram) as (holder, standby):
        telegram.write("say: first")
        answered_once(postgres_url, telegram, "first")
        holder.signal(signal.SIGSTOP)
        telegram.write("say: second")
        answered_once(postgres_url, telegram, "first", "second")
        holder.signal(signal.SIGCONT)
        wait_for("it has begun a new run", lambda: holder.log().count("run_began") == 2)
        wait_for("it stands by", lambda: standing_by(holder) == ["telegram"])
        for number in range(3):
            telegram.write(f"say: {number}")
        answered_once(postgres_url, telegram, "first", "second", "0", "1", "2")
        assert standing_by(standby) == []
        assert (standby.stop(), holder.stop()) == (0, 0)


def test_b41_b167_gateway_that_stands_by_resumes_and_answers(
    tmp_path: Path, postgres_url: str, telegram: LocalTelegram
) -> None:
    """The holder of the chat dies; the one that takes its turn over sends, though it does not receive."""
    with pair_of_gateways(tmp_path, postgres_url, telegram) as (worker, receiver):
        telegram.write("step long 2s\nsay: done")
        wait_for("the step runs", lambda: (worker.home / "rehearsal.log").exists())
        worker.kill()
        answered_once(postgres_url, telegram, "done")
        assert standing_by(receiver) == []

"""Gateway processes that serve the Telegram emulator."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx

from perdure.testing.telegram import LocalTelegram, SentMessage
from support.gateway import COMMAND, GatewayProcess, gateway
from support.waiting import wait_for


@contextmanager
def telegram_gateway(home: Path, telegram: LocalTelegram, **settings: str) -> Iterator[GatewayProcess]:
    """Run a gateway whose owner is Ann."""
    with gateway(home, **(telegram_settings(telegram) | settings)) as process:
        yield process


def telegram_settings(telegram: LocalTelegram) -> dict[str, str]:
    """Return the settings for an emulator, with Ann as the owner."""
    ours = {"TOKEN": telegram.token, "BASE_URL": telegram.url, "ALLOW": str(telegram.ann)}
    return {f"PLATFORMS__TELEGRAM__{name}": value for name, value in ours.items()}


def wait_for_texts(telegram: LocalTelegram, *texts: str, chat: int | None = None) -> list[SentMessage]:
    """Wait until the bot's messages in a chat have these texts; return them."""
    wait_for(f"the chat sees {texts}", lambda: telegram.texts(chat) == list(texts) or None)
    return telegram.seen(chat)


def wait_until_confirmed(telegram: LocalTelegram) -> None:
    wait_for("all updates are confirmed", lambda: not telegram.unconfirmed())


def wait_until_settled(process: GatewayProcess) -> None:
    """Wait until every send has its receipt; a kill before would leave its outcome unknown."""
    still_open = "SELECT count(*) FROM outbox WHERE state IN ('owed', 'sending', 'unknown')"
    wait_for("every send has its receipt", lambda: query_database(process, still_open) == [(0,)])


def readiness_problems(process: GatewayProcess) -> list[str]:
    """Return the reasons why the gateway is not ready."""
    status: dict[str, Any] = httpx.get(f"{process.url}/readyz", timeout=30).json()
    return [str(problem) for problem in status.get("reasons", [])]


def run_perdure(process: GatewayProcess, *arguments: str) -> str:
    """Run `perdure` beside a gateway; return its output."""
    command = [*COMMAND, *arguments]
    done = subprocess.run(command, env=process.environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return " ".join(done.stdout.split())


def trace_output(process: GatewayProcess, message: int) -> str:
    """Return the output of `perdure trace` about a message."""
    return run_perdure(process, "trace", str(message))


def query_database(process: GatewayProcess, sql: str) -> list[tuple[Any, ...]]:
    """Query the database of a gateway."""
    with closing(sqlite3.connect(f"file:{process.home / 'perdure.db'}?mode=ro", uri=True)) as database:
        return database.execute(sql).fetchall()

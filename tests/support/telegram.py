"""A real gateway that serves Telegram, against an emulator of its Bot API."""

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
    """A started gateway whose owner is Ann."""
    with gateway(home, **(telegram_settings(telegram) | settings)) as process:
        yield process


def telegram_settings(telegram: LocalTelegram) -> dict[str, str]:
    """What a gateway must know of an emulator, and that Ann owns it."""
    ours = {"TOKEN": telegram.token, "BASE_URL": telegram.url, "ALLOW": str(telegram.ann)}
    return {f"PLATFORMS__TELEGRAM__{name}": value for name, value in ours.items()}


def wait_for_texts(telegram: LocalTelegram, *texts: str, chat: int | None = None) -> list[SentMessage]:
    """Wait until the bot's messages in a chat say this."""
    wait_for(f"the chat sees {texts}", lambda: telegram.texts(chat) == list(texts) or None)
    return telegram.seen(chat)


def wait_until_confirmed(telegram: LocalTelegram) -> None:
    wait_for("all updates are confirmed", lambda: not telegram.unconfirmed())


def wait_until_settled(process: GatewayProcess) -> None:
    """Wait until the gateway knows of everything what became of it: before, a kill leaves it unknown."""
    still_open = "SELECT count(*) FROM outbox WHERE state IN ('owed', 'sending', 'unknown')"
    wait_for("every send has its receipt", lambda: query_database(process, still_open) == [(0,)])


def readiness_problems(process: GatewayProcess) -> list[str]:
    """What the gateway says keeps it from serving everybody."""
    status: dict[str, Any] = httpx.get(f"{process.url}/readyz", timeout=30).json()
    return [str(problem) for problem in status.get("reasons", [])]


def run_perdure(process: GatewayProcess, *arguments: str) -> str:
    """What a command of ours prints, run beside whatever uses that home."""
    command = [*COMMAND, *arguments]
    done = subprocess.run(command, env=process.environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return " ".join(done.stdout.split())


def trace_output(process: GatewayProcess, message: int) -> str:
    """What `perdure trace` tells of a message."""
    return run_perdure(process, "trace", str(message))


def query_database(process: GatewayProcess, sql: str) -> list[tuple[Any, ...]]:
    """Look into the database of a gateway."""
    with closing(sqlite3.connect(f"file:{process.home / 'perdure.db'}?mode=ro", uri=True)) as database:
        return database.execute(sql).fetchall()

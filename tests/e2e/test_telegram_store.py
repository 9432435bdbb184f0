"""Telegram while the store takes no writes: what is not stored is not confirmed.

Drives `platforms/telegram/updates` and `runtime/intake`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from perdure.config import load_settings
from perdure.platforms.telegram import TelegramAdapter
from perdure.runtime.gateway import Gateway
from perdure.store.database import Database
from perdure.testing import FaultyDatabase
from perdure.testing.telegram import LocalTelegram
from support.waiting import eventually

pytestmark = pytest.mark.anyio


async def test_b70_update_is_not_confirmed_until_it_is_stored(tmp_path: Path) -> None:
    databases: list[FaultyDatabase] = []

    def wrap(database: Database) -> Database:
        databases.append(FaultyDatabase(database))
        return databases[0]

    with LocalTelegram() as telegram:
        settings = load_settings(tmp_path, {"PERDURE_PLATFORMS__TELEGRAM__ALLOW": str(telegram.ann)})
        adapter = TelegramAdapter(telegram.token, telegram.url)
        gateway = Gateway(settings, adapters=[adapter], wrap=wrap)
        running = asyncio.create_task(gateway.run())
        await eventually("it polls", lambda: telegram.count("getUpdates"))
        databases[0].fill()
        telegram.write("say: one")
        telegram.write("say: two")
        await eventually("it is given them again", lambda: telegram.count("getUpdates") >= 4)
        assert len(telegram.unconfirmed()) == 2
        databases[0].mend()
        await eventually("both are answered", lambda: telegram.texts() == ["one", "two"])
        await eventually("both are confirmed", lambda: not telegram.unconfirmed())
        gateway.stop()
        await running

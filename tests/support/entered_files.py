"""Lists the files of Perdure that one message enters, from its Telegram update to the receipt of the reply.

Run as `PYTHONPATH=tests .venv/bin/python -m support.entered_files`. A gateway in this process serves the Telegram
emulator; a profile function notes the file of every function that a thread of the gateway enters. Module and class
bodies do not count, nor does `perdure.testing`.
"""

from __future__ import annotations

import asyncio
import inspect
import sqlite3
import sys
import tempfile
import threading
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Any

import perdure
from perdure.platforms.telegram import TelegramAdapter
from perdure.testing import gateways
from perdure.testing.telegram import LocalTelegram
from perdure.testing.waiting import eventually

SOURCE = f"{Path(perdure.__file__).parent}/"
IDLE_PROBES = 30  # consecutive probes without a call after which the gateway counts as idle
SENT_SQL = "SELECT 1 FROM outbox WHERE state = 'sent'"


class FileRecorder:
    """Records the files of Perdure, without `perdure.testing`, whose functions are entered."""

    def __init__(self) -> None:
        self._paths: set[str] = set()
        self._calls = 0
        self._calls_at_last_probe = -1
        self._quiet_probes = 0

    def install(self) -> None:
        """Profile this thread and all threads that start from now on."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def uninstall(self) -> None:
        threading.setprofile(None)
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            return
        path = frame.f_code.co_filename.removeprefix(SOURCE)
        if path != frame.f_code.co_filename and not path.startswith("testing/"):
            self._calls += 1
            self._paths.add(path)

    def is_idle(self) -> bool:
        """Tell whether no function was entered during the last probes."""
        self._quiet_probes = self._quiet_probes + 1 if self._calls == self._calls_at_last_probe else 0
        self._calls_at_last_probe = self._calls
        return self._quiet_probes >= IDLE_PROBES

    def start(self) -> None:
        """Forget the files so far."""
        self._paths.clear()

    def files(self) -> list[str]:
        """Return the files that were entered since the start, relative to the package."""
        return sorted(self._paths)


async def record_one_message(home: Path) -> list[str]:
    """Send one update to a gateway; return the files that were entered until the reply had its receipt."""
    recorder = FileRecorder()
    with LocalTelegram() as telegram:  # its thread starts before the profile function is installed
        recorder.install()
        try:
            return await _exchange(home, telegram, recorder)
        finally:
            recorder.uninstall()


async def _exchange(home: Path, telegram: LocalTelegram, recorder: FileRecorder) -> list[str]:
    adapter = TelegramAdapter(telegram.token, telegram.url)
    async with gateways.serving(home, [adapter], PLATFORMS__TELEGRAM__ALLOW=str(telegram.ann)):
        await eventually("the gateway polls", lambda: telegram.count("getUpdates"))
        await eventually("the work of the start is done", recorder.is_idle)
        recorder.start()
        telegram.write("say: hello")
        await eventually("the reply has its receipt", lambda: _has_receipt(home))
        return recorder.files()


def _has_receipt(home: Path) -> bool:
    with closing(sqlite3.connect(f"file:{home / 'perdure.db'}?mode=ro", uri=True)) as database:
        return database.execute(SENT_SQL).fetchone() is not None


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="perdure-entered-") as folder:
        files = asyncio.run(record_one_message(Path(folder) / "home"))
    print(f"{len(files)} files")
    print("\n".join(files))


if __name__ == "__main__":
    main()

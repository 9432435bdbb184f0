"""A real `perdure run` on Telegram, and people who write there: `python -m bench.telegram_slice SLICE`.

Telegram (the emulator) and the people share this process; the gateway and the model have each their own.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from bench.turns_crowd import Contender, Crowd, Spent
from bench.turns_gateway import of_model
from bench.turns_model import TEXT
from bench.turns_slice import Phase
from bench.turns_web import running
from perdure.testing.telegram import LocalTelegram

WORDS = "How is it?"


class Slice(Struct, frozen=True):
    """What to measure in one process."""

    phases: Sequence[Phase]
    model: str  # its address
    streamed: bool = False


class Chatty(LocalTelegram):
    """Telegram that tells whoever waits for it what a chat says."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: dict[int, asyncio.Future[str]] = {}
        self._here = asyncio.get_running_loop()

    def ask(self, chat: int, sender: str, text: str) -> asyncio.Future[str]:
        """A person writes; the whole reply."""
        reply = self._waiting[chat] = self._here.create_future()
        self.write(text, sender=sender)
        return reply

    def perform(self, method: str, params: dict[str, Any]) -> Any:
        result = super().perform(method, params)
        if method in ("sendMessage", "editMessageText") and params.get("text") == TEXT:
            self._here.call_soon_threadsafe(self._settle, int(params["chat_id"]), params["text"])
        return result

    def _settle(self, chat: int, text: str) -> None:
        reply = self._waiting.pop(chat, None)
        if reply is not None and not reply.done():
            reply.set_result(text)


class TelegramChat:
    """One person's chat with the bot."""

    def __init__(self, telegram: Chatty, name: str) -> None:
        self._telegram = telegram
        self._name = name
        self._chat = telegram.person(name)

    async def say(self, text: str) -> str:
        return await self._telegram.ask(self._chat, self._name, text)

    async def leave(self) -> None: ...


@contextmanager
def contender(wanted: Slice) -> Iterator[Contender]:
    """A gateway on Telegram, as a process of its own."""
    with Chatty() as telegram, tempfile.TemporaryDirectory(prefix="perdure-bench-") as name:
        ours = {"TOKEN": telegram.token, "BASE_URL": telegram.url, "ALLOW": "*"}
        ours["STREAM"] = "true" if wanted.streamed else "false"
        settings = of_model(wanted.model) | {f"PLATFORMS__TELEGRAM__{key}": value for key, value in ours.items()}
        with running(Path(name), **settings) as gateway:
            yield gateway._replace(begin=lambda chat: TelegramChat(telegram, chat))


async def main(wanted: Slice) -> None:
    """Print what was measured, one JSON line for each phase."""
    with contender(wanted) as gateway:
        await gateway.begin("first").say(WORDS)  # which loads the libraries of the model
        for phase in wanted.phases:
            gc.collect()
            crowd = Crowd(gateway, WORDS, TEXT)
            spent: Spent = await crowd.talk(phase.sessions, phase.warm_up, phase.seconds, phase.spread)
            print(msgspec.json.encode(spent).decode(), flush=True)


if __name__ == "__main__":
    asyncio.run(main(msgspec.json.decode(sys.argv[1], type=Slice)))

"""A gateway on Telegram, ours or a peer's, and people who write there: `python -m bench.telegram_slice SLICE`.

Telegram (the emulator) and the people share this process; the gateway and the model have each their own.
"""

from __future__ import annotations

import asyncio
import gc
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import StatisticsError
from typing import Any

import msgspec
from msgspec import Struct

from bench import telegram_peers
from bench.startup import cpu_of
from bench.turns_crowd import Contender, Crowd, Spent, resident
from bench.turns_gateway import of_model
from bench.turns_model import TEXT
from bench.turns_slice import Phase
from bench.turns_web import running
from perdure.testing.telegram import LocalTelegram

WORDS = "How is it?"
LONGEST = 70.0  # seconds for all phases
# What peers do beside sending: a reaction to the message, and a text that people see before it is sent.
ASIDE = frozenset({"setmessagereaction", "sendmessagedraft"})


class Slice(Struct, frozen=True):
    """What to measure in one process."""

    phases: Sequence[Phase]
    model: str  # its address
    streamed: bool = False
    peer: str = ""  # its name; ours unless given


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

    def call_method(self, method: str, params: dict[str, Any]) -> Any:
        if method.lower() in ASIDE:
            return True
        params = _plain(params)
        result = super().call_method(method, params)
        if method in ("sendMessage", "editMessageText") and params.get("text") == TEXT:
            self._here.call_soon_threadsafe(self._settle, int(params["chat_id"]), params["text"])
        return result

    def _settle(self, chat: int, text: str) -> None:
        reply = self._waiting.pop(chat, None)
        if reply is not None and not reply.done():
            reply.set_result(text)


def _plain(params: dict[str, Any]) -> dict[str, Any]:
    """A call whose text is in Markdown, as one whose text is not: the emulator does not read it."""
    if params.get("parse_mode") != "MarkdownV2":
        return params
    return params | {"text": re.sub(r"\\(.)", r"\1", params["text"]), "parse_mode": ""}


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
        begin = partial(TelegramChat, telegram)
        if wanted.peer:
            with telegram_peers.running(wanted.peer, Path(name), telegram, wanted.model, wanted.streamed) as pid:
                yield Contender(begin, cpu=partial(cpu_of, pid), rss=partial(resident, pid), pid=pid)
        else:
            with running(Path(name), **_settings(telegram, wanted)) as gateway:
                yield gateway._replace(begin=begin)


def _settings(telegram: Chatty, wanted: Slice) -> dict[str, str]:
    ours = {"TOKEN": telegram.token, "BASE_URL": telegram.url, "ALLOW": "*"}
    ours["STREAM"] = "true" if wanted.streamed else "false"
    return of_model(wanted.model) | {f"PLATFORMS__TELEGRAM__{key}": value for key, value in ours.items()}


async def main(wanted: Slice) -> None:
    """Print what was measured, one JSON line for each phase."""
    with contender(wanted) as gateway:
        try:
            async with asyncio.timeout(LONGEST):
                await _measure(gateway, wanted.phases)
        except TimeoutError as error:
            raise RuntimeError(f"the turns were not answered within {LONGEST:g} s") from error
        except StatisticsError as error:
            raise RuntimeError("fewer than two turns were answered while it was measured") from error


async def _measure(gateway: Contender, phases: Sequence[Phase]) -> None:
    await gateway.begin("first").say(WORDS)  # which loads the libraries of the model
    for phase in phases:
        gc.collect()
        crowd = Crowd(gateway, WORDS, TEXT)
        spent: Spent = await crowd.talk(phase.sessions, phase.warm_up, phase.seconds, phase.spread)
        print(msgspec.json.encode(spent).decode(), flush=True)


if __name__ == "__main__":
    asyncio.run(main(msgspec.json.decode(sys.argv[1], type=Slice)))

"""The gateway as a contender: real loops, a real store, and a platform that costs next to nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, cast

import msgspec

from bench.turns_crowd import Talk, Tally
from bench.turns_tool import NAME
from perdure.config import load_settings
from perdure.core.address import Address
from perdure.core.messages import Inbound, Outbound, Receipt, Sender
from perdure.platforms.api import Adapter, Capabilities, Event
from perdure.runtime.gateway import Gateway
from perdure.store.backends.jobs import Job
from perdure.store.database import Database, T, Transaction

PERSON = Sender("ann", "Ann")


class Street(Adapter):
    """A platform without a wire. It streams like the web: growing answers are shown, and leave nothing behind."""

    name = "street"

    def __init__(self, *, streamed: bool = False) -> None:
        self.capabilities = Capabilities(idempotent_send=True, live=streamed)
        self.glimpsed: set[str] = set()  # turns of which something was shown
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._replies: dict[str, asyncio.Future[str]] = {}
        self._messages = count(1)

    async def open(self) -> None:
        """It is always there."""

    async def receive(self) -> AsyncGenerator[Event]:
        while True:
            yield await self._events.get()

    async def send(self, outbound: Outbound) -> Receipt:
        waiting = self._replies.pop(outbound.address.chat, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(outbound.text)
        return Receipt(outbound.key)

    async def glimpse(self, address: Address, turn: str, text: str) -> None:
        self.glimpsed.add(turn)

    def write(self, chat: str, text: str) -> asyncio.Future[str]:
        """A person writes; the next message that is sent there."""
        inbound = Inbound(Address(self.name, "dm", chat), f"m{next(self._messages)}", PERSON, text)
        self._replies[chat] = reply = asyncio.get_running_loop().create_future()
        self._events.put_nowait(Event(msgspec.json.encode(inbound).decode(), inbound.event_key, inbound))
        return reply

    def begin(self, chat: str) -> Talk:
        return _Chat(self, chat)


class _Chat:
    def __init__(self, street: Street, name: str) -> None:
        self._street = street
        self._name = name

    async def say(self, text: str) -> str:
        return await self._street.write(self._name, text)

    async def leave(self) -> None: ...


class CountingLink:
    """The connection of a writer, and how many transactions really changed something."""

    def __init__(self, link: Any) -> None:
        self._link = link
        self.commits = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link, name)

    def commit_batch(self, jobs: Sequence[Job]) -> list[Any]:
        """PostgreSQL's: its transactions count themselves, so each of them changes something."""
        self.commits += 1
        return cast("list[Any]", self._link.commit_batch(jobs))

    def commit(self) -> None:
        """SQLite's."""
        self.commits += self._link.has_changes
        self._link.commit()


class CountingDatabase:
    """A database, and how often it was asked for what."""

    def __init__(self, database: Any) -> None:
        self._database: Database = database
        self.ids = self._database.ids
        self.exclusive = self._database.exclusive
        self._jobs = self._reads = 0
        writers = getattr(database, "_writers", None) or [database._writer]
        self._links = [CountingLink(writer._connection) for writer in writers]
        for writer, link in zip(writers, self._links, strict=True):
            writer._connection = link

    @property
    def tally(self) -> Tally:
        return Tally(self._jobs, sum(link.commits for link in self._links), self._reads)

    async def write(self, transaction: Transaction[T], *, key: str = "", at: int | None = None) -> T:
        self._jobs += bool(key)  # heartbeats have none
        return await self._database.write(transaction, key=key, at=at)

    async def read(self, transaction: Transaction[T], *, at: int | None = None) -> T:
        self._reads += 1
        return await self._database.read(transaction, at=at)

    @property
    def problem(self) -> str | None:
        return self._database.problem

    async def close(self) -> None:
        await self._database.close()


@asynccontextmanager
async def serving(home: Path, street: Street, **settings: str) -> AsyncIterator[CountingDatabase]:
    """A gateway that serves the street until the end of the block, which ends at once if the gateway does."""
    databases: list[CountingDatabase] = []
    block = asyncio.current_task()
    assert block is not None

    def wrap(database: Database) -> Database:
        databases.append(CountingDatabase(database))
        return databases[0]

    ready = asyncio.Event()
    environment = {f"PERDURE_{name}": value for name, value in settings.items()}
    gateway = Gateway(load_settings(home, environment), adapters=[street], wrap=wrap)
    running = asyncio.create_task(gateway.run(ready.set))
    running.add_done_callback(end := lambda _: block.cancel())
    try:
        await ready.wait()
        yield databases[0]
    finally:
        running.remove_done_callback(end)
        gateway.stop()
        await running


def of_model(url: str) -> dict[str, str]:
    """The settings of a gateway whose model is the one at this address, with the tool of the bench."""
    return {
        "MODEL__NAME": "openai:constant",
        "MODEL__BASE_URL": f"{url}/v1",
        "MODEL__API_KEY": "local-key",
        "TOOLS__LOAD": "bench.turns_tool:look",
        "AGENT__TOOLS": NAME,
    }

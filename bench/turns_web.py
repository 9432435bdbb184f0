"""A real `perdure run`, and people who talk to it over HTTP: a message goes in by POST, its reply is an event.

The client speaks just enough HTTP for that: a whole one would take the CPU that the gateway needs.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import ROOT
from bench.startup import COMMAND, READY, _end, _first_line, cpu_of
from bench.turns_crowd import Contender, resident

HOST = "127.0.0.1"
LARGEST = 1 << 20  # bytes of a line
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextmanager
def running(home: Path, command: Sequence[str] = (str(COMMAND),), **settings: str) -> Iterator[Contender]:
    """A gateway as a process of its own, until the end of the block."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
    # The tool of the bench is found as the operator's own would be.
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment |= {"PERDURE_HOME": str(home), "PERDURE_WEB__PORT": "0", "PYTHONPATH": path}
    environment |= {f"PERDURE_{name}": value for name, value in settings.items()}
    with (home / "stderr").open("wb") as errors:
        gateway = subprocess.Popen(
            [*command, "run"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env=environment
        )
    try:
        line = _first_line(gateway)
        if not line.startswith(READY):
            raise RuntimeError(f"`perdure run` did not become ready:\n{(home / 'stderr').read_text()[-2000:]}")
        port, token = int(line.split(b"/login")[0].rsplit(b":", 1)[1]), (home / "token").read_text().strip()
        yield Contender(
            lambda chat: WebChat(port, token, chat),
            cpu=lambda: cpu_of(gateway.pid),
            rss=lambda: resident(gateway.pid),
            pid=gateway.pid,
        )
    finally:
        _end(gateway)


class WebChat:
    """One person's two connections: one to write on, one to follow the chat."""

    def __init__(self, port: int, token: str, chat: str) -> None:
        self._port = port
        self._token = token
        self._chat = chat
        self._messages = 0
        self._posting: Connection | None = None
        self._following: Connection | None = None

    async def say(self, text: str) -> str:
        following = await self.follow()
        if self._posting is None:
            self._posting = await self._connect()
        await self._post(self._posting, text)
        return await _next_message(following, "agent")

    async def hear(self) -> str:
        """What the agent says next, in a chat in which somebody has written."""
        return await _next_message(await self.follow(), "agent")

    async def follow(self) -> asyncio.StreamReader:
        """The events of the chat, from the beginning; once this returns for the first time, there is a stream."""
        if self._following is None:
            self._following = await self._connect()
            self._following[1].write(self._request("GET", "events"))
            await self._following[0].readuntil(b"\r\n\r\n")
        return self._following[0]

    async def time(self, text: str) -> tuple[float, float]:
        """Write, and wait: the seconds until the stream has the message, and until it has the answer."""
        following, posting = await self.follow(), await self._connect()
        began = time.perf_counter()
        stored = asyncio.create_task(self._post(posting, text))
        await _next_message(following, "user")
        seen = time.perf_counter() - began
        await _next_message(following, "agent")
        answered = time.perf_counter() - began
        await stored
        posting[1].close()
        return seen, answered

    async def _post(self, posting: Connection, text: str) -> None:
        self._messages += 1
        body = json.dumps({"id": f"n{self._messages}", "text": text}).encode()
        posting[1].write(self._request("POST", "messages", body))
        await _stored(posting[0])

    async def leave(self) -> None:
        for connection in (self._posting, self._following):
            if connection is not None:
                connection[1].close()

    async def _connect(self) -> Connection:
        return await asyncio.open_connection(HOST, self._port, limit=LARGEST)

    def _request(self, method: str, what: str, body: bytes = b"") -> bytes:
        head = [
            f"{method} /api/chats/{self._chat}/{what} HTTP/1.1",
            f"Host: {HOST}:{self._port}",
            f"Authorization: Bearer {self._token}",
            f"Content-Length: {len(body)}",
        ]
        return "\r\n".join([*head, "", ""]).encode() + body


async def _stored(reader: asyncio.StreamReader) -> None:
    """Read the answer to a message: it must be stored."""
    head = await reader.readuntil(b"\r\n\r\n")
    if b" 202 " not in head.split(b"\r\n", 1)[0]:
        raise RuntimeError(f"a message was not taken: {head!r}")
    [length] = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    await reader.readexactly(int(length.partition(b":")[2]))


async def _next_message(reader: asyncio.StreamReader, author: str) -> str:
    """Follow the chat until somebody says something. Whatever frames the events is passed over."""
    event = b""
    while line := await reader.readline():
        if line.startswith(b"event: "):
            event = line[7:].strip()
        elif line.startswith(b"data: ") and event == b"message":
            message: dict[str, Any] = json.loads(line[6:])
            if message["author"] == author:
                return str(message["text"])
    raise RuntimeError("the gateway closed the stream of events")

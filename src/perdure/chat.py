"""`perdure chat`: a conversation in the terminal, over the gateway's HTTP API.

It is a client like any other, so it outlives the gateway: while that is away it waits, sends again what was not
confirmed (under the same id, so nothing is said twice), and takes up the events where they stopped.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import httpx

from perdure.config import Settings
from perdure.errors import GatewayNotRunning, PerdureError

PAUSE = 0.5
PATIENCE = 5.0  # seconds to find a gateway at the beginning; later, as long as it takes


class Client:
    """The HTTP API of one chat."""

    def __init__(self, base: str, token: str, chat: str) -> None:
        self._http = httpx.AsyncClient(
            base_url=base, headers={"Authorization": f"Bearer {token}"}, timeout=httpx.Timeout(10, read=30)
        )
        self._path = f"/api/chats/{quote(chat, safe='')}"
        self._last = ""  # the id of the last event seen
        self.away = False

    async def find(self) -> None:
        """Wait a moment for the gateway to answer."""
        for _ in range(int(PATIENCE / PAUSE)):
            try:
                await self._http.get("/healthz")
            except httpx.TransportError:
                await asyncio.sleep(PAUSE)
            else:
                return
        raise GatewayNotRunning(
            f"no gateway answers at {self._http.base_url}",
            hint="Start one with `perdure up`, in another terminal.",
        )

    async def send(self, text: str) -> str:
        """Say something, once, however often the gateway dies meanwhile; the id of the stored message."""
        body = {"id": secrets.token_hex(8), "text": text}
        while True:
            try:
                response = await self._http.post(f"{self._path}/messages", json=body)
            except httpx.TransportError:
                await asyncio.sleep(PAUSE)
                continue
            if response.status_code == httpx.codes.SERVICE_UNAVAILABLE:
                await asyncio.sleep(PAUSE)
                continue
            found = response.json()
            if response.is_error:
                raise PerdureError(found["error"], hint=found["hint"])
            stored: str = found["message"]
            return stored

    async def skip_past(self) -> None:
        """Take up the events behind what is in the chat already."""
        async for event, data in self._once():
            if event == "idle":
                return
            del data

    async def events(self) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """What happens in the chat, for ever. `away` and `back` say that the gateway is gone and here again."""
        while True:
            try:
                async for event, data in self._once():
                    if self.away:
                        self.away = False
                        yield "back", {}
                    yield event, data
            except httpx.TransportError:
                pass
            if not self.away:
                self.away = True
                yield "away", {}
            await asyncio.sleep(PAUSE)

    async def _once(self) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        headers = {"Last-Event-ID": self._last} if self._last else {}
        async with self._http.stream("GET", f"{self._path}/events", headers=headers) as response:
            if response.is_error:
                found = json.loads(await response.aread())
                raise PerdureError(found["error"], hint=found["hint"])
            fields: dict[str, str] = {}
            async for line in response.aiter_lines():
                if line.startswith(":"):
                    yield "idle", {}
                elif line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                elif "event" in fields:
                    self._last = fields.get("id", self._last)
                    yield fields["event"], json.loads(fields["data"])
                    fields = {}

    async def close(self) -> None:
        await self._http.aclose()


async def converse(settings: Settings, chat: str) -> int:
    """Talk until the person ends it, or, when the input is not a terminal, until every line is answered."""
    from perdure.console.tokens import ensure_token

    base = f"http://{settings.web.host}:{settings.web.port}"
    client = Client(base, ensure_token(settings.home), chat)
    try:
        await client.find()
        await client.skip_past()
        return await _Conversation(client, interactive=sys.stdin.isatty()).run()
    finally:
        await client.close()


class _Conversation:
    def __init__(self, client: Client, *, interactive: bool) -> None:
        self._client = client
        self._interactive = interactive
        self._open = 0  # messages of ours that are not answered yet
        self._answered = asyncio.Event()
        self._failed = False

    async def run(self) -> int:
        if self._interactive:
            _show("Talk to the agent; Ctrl-D ends the conversation. Several lines: end each but the last with \\.")
        listening = asyncio.create_task(self._listen())
        try:
            await self._speak()
            while self._open:
                self._answered.clear()
                await self._answered.wait()
        finally:
            listening.cancel()
        return 1 if self._failed else 0

    async def _speak(self) -> None:
        loop = asyncio.get_running_loop()
        lines: list[str] = []
        while True:
            if self._interactive:
                _show("you> " if not lines else "...> ", end="")
            line = await loop.run_in_executor(None, sys.stdin.readline)
            lines.append(line.rstrip("\n").removesuffix("\\"))
            if line.rstrip("\n").endswith("\\") and line.endswith("\n"):
                continue
            text, lines = "\n".join(lines), []
            if text.strip():
                self._open += 1
                await self._client.send(text)
            if not line.endswith("\n"):
                return

    async def _listen(self) -> None:
        async for event, data in self._client.events():
            match event:
                case "message" if data["author"] == "agent":
                    _show(f"{_back(self._interactive)}{data['text']}")
                    self._close_one(answers=data["turn"] is not None)
                case "turn" if data["move"] == "finished":
                    self._close_one(answers=not data["reply"])
                case "turn" if data["move"] == "cancelled":
                    self._failed = True
                    self._close_one(answers=True)
                case "turn" if data["move"] == "failed":
                    self._failed = True
                case "turn" if data["move"] == "interrupted":
                    _aside("(interrupted; it goes on by itself)")
                case "step" if data["state"] == "started":
                    _aside(f"({data['tool']} …)")
                case "away":
                    _aside("(the gateway is away; waiting for it)")
                case "back":
                    _aside("(the gateway is back)")

    def _close_one(self, *, answers: bool) -> None:
        """A message of ours is answered by a reply, or by a turn that ends without one."""
        if answers and self._open:
            self._open -= 1
            self._answered.set()


def _back(interactive: bool) -> str:
    return "\r\x1b[K" if interactive else ""


def _show(text: str, end: str = "\n") -> None:
    sys.stdout.write(text + end)
    sys.stdout.flush()


def _aside(text: str) -> None:
    """What is not part of the conversation goes to standard error, so that answers can be piped."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()

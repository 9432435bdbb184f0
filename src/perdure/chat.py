"""`perdure chat`: a conversation in the terminal, over the gateway's HTTP API.

It is a client like any other, so it outlives the gateway: while that is away it waits, sends again what was not
confirmed (under the same id, so nothing is said twice), and takes up the events where they stopped.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any, TextIO
from urllib.parse import quote

import httpx

from perdure.config import Settings
from perdure.core.commands import read_command
from perdure.errors import GatewayNotRunning, PerdureError

PAUSE = 0.5
PATIENCE = 5.0  # seconds to find a gateway at the beginning; later, as long as it takes
LONGEST_LINE = 1 << 30  # it is the gateway that says what is too long

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # to the terminal; an answer must not give any
Happening = tuple[str, dict[str, Any]]


class Client:
    """The HTTP API of one chat."""

    def __init__(self, base: str, token: str, chat: str) -> None:
        self._http = httpx.AsyncClient(
            base_url=base,
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx.Timeout(10, read=30),
            trust_env=False,  # a proxy to the world outside is no way to a gateway of our own
        )
        self._path = f"/api/chats/{quote(chat, safe='').replace('.', '%2E')}"  # `..` is a name like any other
        self._last = ""  # the id of the last event seen
        self._past = 0  # the place in the chat behind which our open messages are
        self.away = False

    async def find(self) -> None:
        """Wait a moment for the gateway to answer."""
        for _ in range(int(PATIENCE / PAUSE)):
            try:
                response = await self._http.get("/healthz")
            except httpx.TransportError:
                await asyncio.sleep(PAUSE)
                continue
            if '"healthy"' in response.text:
                return
            raise GatewayNotRunning(
                f"what answers at {self._http.base_url} is no gateway",
                hint="Name the gateway's home and port with PERDURE_HOME and PERDURE_WEB__PORT.",
            )
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
        while True:
            async with aclosing(self._stream()) as stream:
                async for event, data in stream:
                    if event == "message":
                        self._past = data["position"]
                    if event == "idle":
                        return
            await asyncio.sleep(PAUSE)

    async def still_open(self, ours: set[str], over: set[str]) -> set[str]:
        """Which messages of ours wait for an answer, when these turns are over. One turn may answer several."""
        try:
            response = await self._http.get(f"{self._path}/messages", params={"after": self._past})
        except httpx.TransportError:
            return ours
        if response.is_error:
            return ours
        seen: list[dict[str, Any]] = response.json()["messages"]
        waiting = [message for message in seen if message["id"] in ours and not _is_answered(message, seen, over)]
        if seen:
            self._past = waiting[0]["position"] - 1 if waiting else seen[-1]["position"]
        return ours - ({message["id"] for message in seen} - {message["id"] for message in waiting})

    async def events(self) -> AsyncGenerator[Happening]:
        """What happens in the chat, for ever. `away` and `back` say that the gateway is gone and here again."""
        while True:
            async for event, data in self._stream():
                if self.away:
                    self.away = False
                    yield "back", {}
                yield event, data
            if not self.away:
                self.away = True
                yield "away", {}
            await asyncio.sleep(PAUSE)

    async def _stream(self) -> AsyncGenerator[Happening]:
        """The events behind the last one seen, as long as the gateway is there."""
        headers = {"Last-Event-ID": self._last} if self._last else {}
        with suppress(httpx.TransportError):
            async with self._http.stream("GET", f"{self._path}/events", headers=headers) as response:
                if response.status_code == httpx.codes.SERVICE_UNAVAILABLE:
                    return
                if response.is_error:
                    found = json.loads(await response.aread())
                    raise PerdureError(found["error"], hint=found["hint"])
                async for happening in self._parse(response):
                    yield happening

    async def _parse(self, response: httpx.Response) -> AsyncGenerator[Happening]:
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


def _is_answered(message: dict[str, Any], seen: list[dict[str, Any]], over: set[str]) -> bool:
    """A message is answered by its turn, a command by whatever the gateway itself says behind it."""
    if read_command(message["text"]) is None:
        return message["turn"] in over
    place = message["position"]
    return any(each["author"] == "agent" and not each["turn"] and each["position"] > place for each in seen)


async def converse(settings: Settings, chat: str) -> int:
    """Talk until the person ends it, or, when the input is not a terminal, until every line is answered."""
    from perdure.console.tokens import ensure_token

    host = f"[{settings.web.host}]" if ":" in settings.web.host else settings.web.host
    client = Client(f"http://{host}:{settings.web.port}", ensure_token(settings.home), chat)
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
        self._prompt = ""  # what the person types behind
        self._open: set[str] = set()  # messages of ours that are not answered yet
        self._ending: set[str] = set()  # turns that have ended, but for their answer
        self._over: set[str] = set()  # turns that have ended
        self._happened = asyncio.Event()
        self._failed = False

    async def run(self) -> int:
        if self._interactive:
            self._show(
                "Talk to the agent; Ctrl-D ends the conversation. Several lines: end each but the last with \\."
            )
        # Whatever ends listening is an error, and must not leave us waiting for answers.
        both = [asyncio.create_task(self._listen()), asyncio.create_task(self._speak())]
        try:
            ended, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
        finally:
            for task in both:
                task.cancel()
            await asyncio.wait(both)
            if self._interactive:
                _write(sys.stdout, "\n")  # behind the prompt
        return 1 if self._failed and not self._interactive else 0

    async def _speak(self) -> None:
        """Send what is typed until the input ends; then wait for the answers, if nobody is there to see them."""
        typed, last = _standard_input(), False
        while not last:
            text, last = await self._next_message(typed)
            if text.strip():
                self._open.add(await self._client.send(text))
        while self._open and not self._interactive:
            self._happened.clear()
            left = await self._client.still_open(self._open, self._over)
            if left == self._open:
                await self._happened.wait()
            self._open = left

    async def _next_message(self, typed: asyncio.StreamReader) -> tuple[str, bool]:
        """A message of one line, and one more for each that ends with a backslash; and whether it was the last."""
        lines: list[str] = []
        while True:
            self._ask("...> " if lines else "you> ")
            line = (await typed.readline()).decode(errors="replace")
            self._prompt = ""
            bare = line.rstrip("\r\n")
            lines.append(bare.removesuffix("\\"))
            if not (line.endswith("\n") and bare.endswith("\\")):
                return "\n".join(lines), not line.endswith("\n")

    async def _listen(self) -> None:
        async for event, data in self._client.events():
            self._tell(event, data)
            self._happened.set()

    def _tell(self, event: str, data: dict[str, Any]) -> None:
        match event:
            case "message" if data["author"] == "agent":
                self._show(data["text"])
                self._over |= {data["turn"]} & self._ending  # before its end a turn may have given notice only
            case "turn" if data["move"] in ("finished", "failed", "cancelled"):
                self._failed |= data["move"] != "finished"
                last = data["move"] == "cancelled" or not data.get("reply", True)
                (self._over if last else self._ending).add(data["turn"])
            case "turn" if data["move"] == "interrupted":
                self._aside("(interrupted; it goes on by itself)")
            case "step" if data["state"] == "started":
                self._aside(f"({data['tool']} …)")
            case "away":
                self._aside("(the gateway is away; waiting for it)")
            case "back":
                self._aside("(the gateway is back)")

    def _ask(self, prompt: str) -> None:
        if self._interactive:
            self._prompt = prompt
            _write(sys.stdout, prompt)

    def _show(self, text: str, stream: TextIO | None = None) -> None:
        """Show a line in place of the prompt, and the prompt beneath it."""
        if self._interactive:
            _write(sys.stdout, "\r\x1b[K")
            text = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
        _write(stream or sys.stdout, f"{text}\n")
        if self._interactive:
            _write(sys.stdout, self._prompt)

    def _aside(self, text: str) -> None:
        """What is not part of the conversation goes to standard error, so that answers can be piped."""
        self._show(text, sys.stderr)


def _standard_input() -> asyncio.StreamReader:
    """What is typed, read by a thread that nobody waits for: after Ctrl-C there may never be another line."""
    loop, typed = asyncio.get_running_loop(), asyncio.StreamReader(LONGEST_LINE)

    def read() -> None:
        with suppress(RuntimeError):  # the loop has ended meanwhile
            # Not through `sys.stdin`: whoever reads it holds a lock that the end of the interpreter wants.
            with suppress(OSError):  # the terminal has closed
                while piece := os.read(0, 1 << 16):
                    loop.call_soon_threadsafe(typed.feed_data, piece)
            loop.call_soon_threadsafe(typed.feed_eof)

    threading.Thread(target=read, daemon=True).start()
    return typed


def _write(stream: TextIO, text: str) -> None:
    stream.write(text)
    stream.flush()

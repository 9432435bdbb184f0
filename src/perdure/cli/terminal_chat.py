"""`perdure chat`: a conversation in the terminal, over the gateway's HTTP API.

It is a client like any other, so it outlives the gateway: while that is away it waits, sends again what was not
confirmed (under the same id, so nothing is said twice), and takes up the events where they stopped.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
import secrets
import signal
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any, TextIO
from urllib.parse import quote

import httpx

from perdure.config import Settings
from perdure.core import texts
from perdure.core.commands import read_command
from perdure.errors import GatewayNotRunning, PerdureError

RETRY_SECONDS = 0.5
FIND_GATEWAY_SECONDS = 5.0  # seconds to find a gateway at the beginning; later, as long as it takes
MAX_LINE_BYTES = 1 << 30  # it is the gateway that says what is too long

# Moves behind which a message of the turn is what it has to say for now: an answer, an excuse or a question.
FINAL_MOVES = ("finished", "failed", "asked", "interrupted")
CLEAR_LINE = "\r\x1b[K"
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # to the terminal; an answer must not give any
ChatEvent = tuple[str, dict[str, Any]]


class ChatClient:
    """The HTTP API of one chat."""

    def __init__(self, base: str, token: str, chat: str) -> None:
        self._http = httpx.AsyncClient(
            base_url=base,
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx.Timeout(10, read=30),
            trust_env=False,  # a proxy to the world outside is no way to a gateway of our own
        )
        self._path = f"/api/chats/{quote(chat, safe='').replace('.', '%2E')}"  # `..` is a name like any other
        self._last_event_id = ""  # the id of the last event seen
        self._position = 0  # a place in the chat before our last message
        self.gateway_away = False

    async def wait_for_gateway(self) -> None:
        """Wait a moment for the gateway to answer."""
        for _ in range(int(FIND_GATEWAY_SECONDS / RETRY_SECONDS)):
            try:
                response = await self._http.get("/healthz")
            except httpx.TransportError:
                await asyncio.sleep(RETRY_SECONDS)
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
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if response.status_code == httpx.codes.SERVICE_UNAVAILABLE:
                await asyncio.sleep(RETRY_SECONDS)
                continue
            found = response.json()
            if response.is_error:
                raise PerdureError(found["error"], hint=found["hint"])
            stored: str = found["message"]
            return stored

    async def skip_history(self) -> None:
        """Take up the events behind what is in the chat already."""
        while True:
            async with aclosing(self._stream()) as stream:
                async for event, data in stream:
                    if event == "message":
                        self._position = data["position"]
                    if event == "idle":
                        return
            await asyncio.sleep(RETRY_SECONDS)

    async def is_answered(self, message: str, final_positions: dict[str, float]) -> bool:
        """Whether this message of ours has its answer, when turns have said their last word at these places."""
        try:
            response = await self._http.get(f"{self._path}/messages", params={"after": self._position})
        except httpx.TransportError:
            return False
        seen: list[dict[str, Any]] = [] if response.is_error else response.json()["messages"]
        for ours in seen:
            self._position = ours["position"] - 1
            if ours["id"] == message:
                return _is_answered(ours, seen, final_positions)
        return False

    async def events(self) -> AsyncGenerator[ChatEvent]:
        """What happens in the chat, for ever. `away` and `back` say that the gateway is gone and here again."""
        while True:
            async for event, data in self._stream():
                if self.gateway_away:
                    self.gateway_away = False
                    yield "back", {}
                yield event, data
            if not self.gateway_away:
                self.gateway_away = True
                yield "away", {}
            await asyncio.sleep(RETRY_SECONDS)

    async def _stream(self) -> AsyncGenerator[ChatEvent]:
        """The events behind the last one seen, as long as the gateway is there."""
        headers = {"Last-Event-ID": self._last_event_id} if self._last_event_id else {}
        with suppress(httpx.TransportError):
            async with self._http.stream("GET", f"{self._path}/events", headers=headers) as response:
                if response.status_code == httpx.codes.SERVICE_UNAVAILABLE:
                    return
                if response.is_error:
                    found = json.loads(await response.aread())
                    raise PerdureError(found["error"], hint=found["hint"])
                async for happening in self._parse(response):
                    yield happening

    async def _parse(self, response: httpx.Response) -> AsyncGenerator[ChatEvent]:
        fields: dict[str, str] = {}
        async for line in response.aiter_lines():
            if line.startswith(":"):
                yield "idle", {}
            elif line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif "event" in fields:
                self._last_event_id = fields.get("id", self._last_event_id)
                yield fields["event"], json.loads(fields["data"])
                fields = {}

    async def close(self) -> None:
        await self._http.aclose()


def _is_answered(message: dict[str, Any], seen: list[dict[str, Any]], final_positions: dict[str, float]) -> bool:
    """A message is answered by its turn, a command by whatever the gateway itself says behind it."""
    place: int = message["position"]
    if read_command(message["text"]) is None:
        return final_positions.get(message["turn"], 0) > place
    return any(each["author"] == "agent" and not each["turn"] and each["position"] > place for each in seen)


async def run_chat(settings: Settings, chat: str) -> int:
    """Talk until the person ends it, or, when the input is not a terminal, until every line is answered."""
    from perdure.web.auth.token import ensure_token

    host = f"[{settings.web.host}]" if ":" in settings.web.host else settings.web.host
    client = ChatClient(f"http://{host}:{settings.web.port}", ensure_token(settings.home), chat)
    # With a handler of its own for whatever signal, the loop wakes up for every one of them. Without, Ctrl-C is
    # not heard before something else happens, if the system gives it to the thread that reads the input.
    asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, lambda: None)
    try:
        await client.wait_for_gateway()
        await client.skip_history()
        return await _TerminalChat(client, interactive=sys.stdin.isatty()).run()
    finally:
        await client.close()


class _TerminalChat:
    def __init__(self, client: ChatClient, *, interactive: bool) -> None:
        self._client = client
        self._interactive = interactive
        self._prompt = ""  # what the person types behind
        self._last_moves: dict[str, str] = {}  # the last move of each turn
        self._final_positions: dict[str, float] = {}  # where in the chat each turn said its last word
        self._event_seen = asyncio.Event()

    async def run(self) -> int:
        if self._interactive:
            self._print_line(
                "Talk to the agent; Ctrl-D ends the conversation. Several lines: end each but the last with \\."
            )
        # Whatever ends listening is an error, and must not leave us waiting for answers.
        both = [asyncio.create_task(self._show_events()), asyncio.create_task(self._send_input())]
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
        done = self._interactive or all(move == "finished" for move in self._last_moves.values())
        return 0 if done else 1

    async def _send_input(self) -> None:
        """Send what is typed until the input ends."""
        typed, last = _read_standard_input(), False
        self._show_prompt("you> ")
        while not last:
            text, last = await self._read_message(typed)
            if text.strip():
                await self._send_message(text)

    async def _send_message(self, text: str) -> None:
        """Send it; in a pipe, wait for the answer too, because the next line may be what the agent asks for."""
        message = await self._client.send(text)
        while not self._interactive:
            self._event_seen.clear()
            if await self._client.is_answered(message, self._final_positions):
                return
            await self._event_seen.wait()

    async def _read_message(self, typed: asyncio.StreamReader) -> tuple[str, bool]:
        """A message of one line, and one more for each that ends with a backslash; and whether it was the last.

        It is asked for what comes next before this is sent, so an answer finds a prompt, however fast it is.
        """
        lines: list[str] = []
        while True:
            line = (await typed.readline()).decode(errors="replace")
            bare = line.rstrip("\r\n")
            lines.append(bare.removesuffix("\\"))
            if not line.endswith("\n"):
                self._prompt = ""
                return "\n".join(lines), True
            more = bare.endswith("\\")
            self._show_prompt("...> " if more else "you> ")
            if not more:
                return "\n".join(lines), False

    async def _show_events(self) -> None:
        async for event, data in self._client.events():
            self._show_event(event, data)
            self._event_seen.set()

    def _show_event(self, event: str, data: dict[str, Any]) -> None:
        match event:
            case "message" if data["author"] == "agent":
                self._print_line(data["text"])
                for file in data.get("attachments", []):
                    self._print_status(texts.attachments.download_hint(file["name"], file["size"], file["id"]))
                if self._last_moves.get(data["turn"]) in FINAL_MOVES:
                    self._final_positions[data["turn"]] = data["position"]
            case "turn":
                self._last_moves[data["turn"]] = data["move"]
                if data["move"] == "cancelled" or not data.get("reply", True):
                    self._final_positions[data["turn"]] = math.inf
                if data["move"] == "requeued":
                    self._print_status("(interrupted; it goes on by itself)")
            case "notice":
                self._print_status(f"({data['text']})")
            case "trouble":
                self._print_status(f"({data['text']})")
            case "step" if data["state"] == "started":
                self._print_status(f"({data['tool']} …)")
            case "away":
                self._print_status("(the gateway is away; waiting for it)")
            case "back":
                self._print_status("(the gateway is back)")

    def _show_prompt(self, prompt: str) -> None:
        """Show a prompt in place of one that is there already, if lines were typed before we read them."""
        if self._interactive:
            self._prompt = prompt
            _write(sys.stdout, f"{CLEAR_LINE}{prompt}")

    def _print_line(self, text: str, stream: TextIO | None = None) -> None:
        """Show a line in place of the prompt, and the prompt beneath it."""
        if self._interactive:
            _write(sys.stdout, CLEAR_LINE)
            text = _CONTROL_CHARACTERS.sub("\N{REPLACEMENT CHARACTER}", text)
        _write(stream or sys.stdout, f"{text}\n")
        if self._interactive:
            _write(sys.stdout, self._prompt)

    def _print_status(self, text: str) -> None:
        """What is not part of the conversation goes to standard error, so that answers can be piped."""
        self._print_line(text, sys.stderr)


def _read_standard_input() -> asyncio.StreamReader:
    """What is typed, read by a thread that nobody waits for: after Ctrl-C there may never be another line."""
    loop, typed = asyncio.get_running_loop(), asyncio.StreamReader(MAX_LINE_BYTES)

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

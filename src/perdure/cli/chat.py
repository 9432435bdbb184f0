"""`perdure chat`: talk to the running gateway in the terminal."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import sys
import threading
from contextlib import suppress
from typing import Any, TextIO

import typer

from perdure.cli.gateway_client import ChatClient, base_url
from perdure.cli.output import ChatOption
from perdure.config import Settings, load_settings
from perdure.core import texts
from perdure.core.printable_text import printable_text
from perdure.errors import NotTaken

MAX_LINE_BYTES = 1 << 30  # the gateway decides what is too long

# Moves after which a message of the turn is final for now: an answer, an apology or a question.
FINAL_MOVES = ("finished", "failed", "asked", "interrupted")
CLEAR_LINE = "\r\x1b[K"


async def run_chat(settings: Settings, chat: str) -> int:
    """Chat until the input ends; without a terminal, until every line is answered. Returns the exit code."""
    from perdure.web.auth.token import ensure_token

    client = ChatClient(base_url(settings), ensure_token(settings.home), chat)
    # With a signal handler of the loop, for any signal, every signal wakes the loop. Without one, a Ctrl-C that
    # the system delivers to the thread that reads the input is noticed only at the next event.
    asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, lambda: None)
    try:
        await client.wait_for_gateway()
        await client.skip_history()
        return await _TerminalChat(client, interactive=sys.stdin.isatty()).run()
    finally:
        await client.close()


class _TerminalChat:
    """Sends the typed lines and shows the events of one chat."""

    def __init__(self, client: ChatClient, *, interactive: bool) -> None:
        self._client = client
        self._interactive = interactive
        self._prompt = ""  # the prompt that is shown now
        self._last_moves: dict[str, str] = {}  # the last move of each turn
        self._final_positions: dict[str, float] = {}  # the position of each turn's final message
        self._event_seen = asyncio.Event()

    async def run(self) -> int:
        if self._interactive:
            self._print_line(texts.cli.CHAT_WELCOME)
        # Listening ends only by an error, which must also end the wait for answers.
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
        """Send the typed messages until the input ends."""
        typed, last = _read_standard_input(), False
        self._show_prompt("you> ")
        while not last:
            text, last = await self._read_message(typed)
            if text.strip():
                await self._send_or_explain(text)

    async def _send_or_explain(self, text: str) -> None:
        """Send a message; somebody who types is told why their login may not, and goes on."""
        try:
            await self._send_message(text)
        except NotTaken as error:
            if not self._interactive:
                raise
            self._print_status(str(error))

    async def _send_message(self, text: str) -> None:
        """Send a message; from a pipe, also wait for its answer, because the next line may reply to the agent."""
        message = await self._client.send(text)
        while not self._interactive:
            self._event_seen.clear()
            if await self._client.is_answered(message, self._final_positions):
                return
            await self._event_seen.wait()

    async def _read_message(self, typed: asyncio.StreamReader) -> tuple[str, bool]:
        """Read one message, and whether it is the last; a line that ends with a backslash is continued.

        The next prompt is shown before the message is sent, so that even a fast answer finds a prompt.
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
                    self._print_status(texts.files.download_hint(file["name"], file["size"], file["id"]))
                if self._last_moves.get(data["turn"]) in FINAL_MOVES:
                    self._final_positions[data["turn"]] = data["position"]
            case "turn":
                self._last_moves[data["turn"]] = data["move"]
                if data["move"] == "cancelled" or not data.get("reply", True):
                    self._final_positions[data["turn"]] = math.inf
                if data["move"] == "requeued":
                    self._print_status(texts.cli.CHAT_INTERRUPTED)
            case "notice" | "trouble":
                self._print_status(texts.cli.chat_status(data["text"]))
            case "step" if data["state"] == "started":
                self._print_status(texts.cli.chat_tool_started(data["tool"]))
            case "away":
                self._print_status(texts.cli.CHAT_GATEWAY_AWAY)
            case "back":
                self._print_status(texts.cli.CHAT_GATEWAY_BACK)

    def _show_prompt(self, prompt: str) -> None:
        """Show a prompt in place of the one that is shown now."""
        if self._interactive:
            self._prompt = prompt
            _write(sys.stdout, f"{CLEAR_LINE}{prompt}")

    def _print_line(self, text: str, stream: TextIO | None = None) -> None:
        """Print a line in place of the prompt, and the prompt beneath it."""
        if self._interactive:
            _write(sys.stdout, CLEAR_LINE)
        target = stream or sys.stdout
        # An answer must not control a terminal; into a file or a pipe it goes as it is.
        _write(target, f"{printable_text(text) if target.isatty() else text}\n")
        if self._interactive:
            _write(sys.stdout, self._prompt)

    def _print_status(self, text: str) -> None:
        """Print a status line to standard error, so that answers can be piped."""
        self._print_line(text, sys.stderr)


def _read_standard_input() -> asyncio.StreamReader:
    """Standard input, read by a daemon thread: after Ctrl-C there may never be another line."""
    loop, typed = asyncio.get_running_loop(), asyncio.StreamReader(MAX_LINE_BYTES)

    def read() -> None:
        with suppress(RuntimeError):  # the loop has ended meanwhile
            # Not through `sys.stdin`: its reader holds a lock that the interpreter needs at its end.
            with suppress(OSError):  # the terminal has closed
                while piece := os.read(0, 1 << 16):
                    loop.call_soon_threadsafe(typed.feed_data, piece)
            loop.call_soon_threadsafe(typed.feed_eof)

    threading.Thread(target=read, daemon=True).start()
    return typed


def _write(stream: TextIO, text: str) -> None:
    stream.write(text)
    stream.flush()


app = typer.Typer(rich_markup_mode=None)


@app.command()
def chat(name: ChatOption = "terminal") -> None:
    """Talk to the running gateway, in the terminal."""
    raise typer.Exit(asyncio.run(run_chat(load_settings(), name)))

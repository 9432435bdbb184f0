"""Helpers of the recovery tests: an agent whose steps can hang, and readers of the journal."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

from perdure.agents.api import ModelRequest, PreviewCallback, Reply, TurnContext
from perdure.agents.builtin_agent import BuiltinAgent
from perdure.agents.offline_model import OfflineModel
from perdure.core.address import Address, session_key
from perdure.core.conversation import NoteMessage, UserMessage
from perdure.core.effects import Effect
from perdure.core.journal import Entry, ModelAnswered, RecoveryDecided, TurnInterrupted, TurnView, fold
from perdure.core.messages import Outbound, Receipt
from perdure.core.tools import Tool, Use
from perdure.store.api import Store
from perdure.testing import SimulatedPlatform
from perdure.testing.simulated_platform import SimulatedAdapter
from support.inprocess import crashing_at_the_end
from support.waiting import eventually


class AgentHarness:
    """The offline model with steps that can hang; it outlives its gateways and records every run and request."""

    def __init__(self, *stuck: str) -> None:
        self.stuck = set(stuck)  # names of steps that hang
        self.run_counts: Counter[str] = Counter()
        self.hung_steps: list[str] = []
        self.requests: list[ModelRequest] = []
        self.name = "recording"
        self.window = 1_000_000
        self._released = asyncio.Event()
        tools = [
            Tool("step", "may be repeated", self._run_step, Effect.PURE),
            Tool("once", "must not be repeated", self._run_step, Effect.ONCE),
        ]
        self.agent = BuiltinAgent(self, tools)

    async def close(self) -> None: ...

    async def respond(self, request: ModelRequest, show_preview: PreviewCallback | None = None) -> ModelAnswered:
        self.requests.append(request)
        return await OfflineModel().respond(request, show_preview)

    async def _run_step(self, use: Use) -> str:
        name = str(use.arguments["name"])
        self.run_counts[name] += 1
        if name in self.stuck:
            self.hung_steps.append(name)
            await self._released.wait()
        return f"{name}: done"

    def release(self) -> None:
        """Release all hanging steps; nothing hangs until `stuck` names a step again."""
        self.stuck.clear()
        self._released.set()
        self._released = asyncio.Event()

    async def wait_until_hanging(self, times: int = 1) -> None:
        """Wait until steps have hung this many times in all."""
        await eventually(f"steps have hung {times} times", lambda: len(self.hung_steps) == times)

    def request_notes(self) -> list[list[str]]:
        """Return the notes of each request so far."""
        return [_message_texts(request, NoteMessage) for request in self.requests]

    def request_texts(self) -> list[list[str]]:
        """Return the users' texts of each request so far."""
        return [_message_texts(request, UserMessage) for request in self.requests]


def _message_texts(request: ModelRequest, kind: type[NoteMessage | UserMessage]) -> list[str]:
    return [message.text for message in request.messages if isinstance(message, kind)]


class HangingAgent:
    """An agent that journals what it is given and then hangs; it counts its attempts."""

    def __init__(self, *entries: Entry) -> None:
        self._entries = entries
        self.attempts = 0
        self.hang_count = 0

    async def run(self, context: TurnContext) -> Reply:
        self.attempts += 1
        if self._entries:
            await context.append(*self._entries)
        self.hang_count += 1
        await asyncio.Event().wait()
        raise AssertionError("nobody wakes this agent")


class AnsweringAgent:
    """An agent that answers at once, and counts its attempts."""

    def __init__(self, text: str = "answered") -> None:
        self._text = text
        self.attempts = 0

    async def run(self, context: TurnContext) -> Reply:
        self.attempts += 1
        return Reply(self._text)


class GatedPlatform(SimulatedPlatform):
    """A platform whose sends wait for a gate."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.waiting_sends = 0

    def adapter(self) -> SimulatedAdapter:
        return GatedAdapter(self)

    async def wait_for_sends(self, sends: int) -> None:
        """Wait until this many sends wait at the gate."""
        await eventually(f"{sends} sends have come", lambda: self.waiting_sends == sends)


class GatedAdapter(SimulatedAdapter):
    def __init__(self, platform: GatedPlatform) -> None:
        super().__init__(platform)
        self._gated = platform

    async def send(self, outbound: Outbound) -> Receipt:
        self._gated.waiting_sends += 1
        await self._gated.gate.wait()
        return await super().send(outbound)


def key_of(platform: SimulatedPlatform, chat: str = "1") -> str:
    return session_key("main", Address(platform.name, "dm", chat))


async def turn_views(store: Store, key: str) -> list[TurnView]:
    """Return every turn of a key, in order."""
    return [
        fold(await store.journal.of_turn(session.id, turn.id))
        for session in await store.sessions.of_key(key)
        for turn in await store.turns.of_session(session.id)
    ]


async def last_turn(store: Store, key: str) -> TurnView:
    return (await turn_views(store, key))[-1]


def view_before_interruption(view: TurnView) -> TurnView:
    """Return the turn as it was before its newest interruption."""
    marks = [place for place, record in enumerate(view.records) if isinstance(record.entry, TurnInterrupted)]
    return fold(view.records[: marks[-1]])


def was_interrupted_in_step(view: TurnView) -> bool:
    """Tell whether the interruption found a step with an intent and without a result."""
    return any(call.started is not None for call in view_before_interruption(view).open_calls)


def interruption_reasons(view: TurnView) -> list[str]:
    return [interruption.reason for interruption in view.interruptions]


def decided_rules(view: TurnView) -> list[str]:
    """Return the rules of all decisions about a turn, in order."""
    return [record.entry.rule for record in view.records if isinstance(record.entry, RecoveryDecided)]


async def wait_for_rule(store: Store, key: str, rule: str) -> TurnView:
    """Wait until the newest decision about the key's last turn has this rule."""

    async def probe() -> TurnView | None:
        view = await last_turn(store, key)
        return view if view.last_decision is not None and view.last_decision.rule == rule else None

    return await eventually(f"{rule} is decided about {key}", probe)


async def wait_for_replies(platform: SimulatedPlatform, *texts: str, chat: str = "1") -> None:
    """Wait until a chat has exactly these replies."""
    with suppress(AssertionError):  # the assertion below shows the actual replies
        await eventually(f"chat {chat} sees {texts}", lambda: platform.replies(chat) == list(texts))
    assert platform.replies(chat) == list(texts), f"chat {chat} sees {platform.replies(chat)}, not {texts}"


async def crash_in_step(
    home: Path, platform: SimulatedPlatform, harness: AgentHarness, *texts: str, chat: str = "1", **options: object
) -> None:
    """Write these messages, run a gateway until one more step hangs, and crash it there."""
    before = len(harness.hung_steps)
    async with crashing_at_the_end(home, platform, agent=harness.agent, **options):
        for text in texts:
            platform.write(text, chat=chat)
        await eventually("a step hangs", lambda: len(harness.hung_steps) > before and not platform.pending())


async def run_perdure(home: Path, *arguments: str) -> str:
    """Run `perdure` as a process on a home; return its output."""
    code, output, errors = await run_command(home, *arguments)
    assert code == 0, f"exit code {code}: {errors}"
    return output


async def run_command(home: Path, *arguments: str) -> tuple[int, str, str]:
    """Run `perdure` as a process; return its exit code, its output and its errors."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "perdure",
        *arguments,
        env=inherited | {"PERDURE_HOME": str(home)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode(), errors.decode()

"""What the tests of starting again share: an agent whose steps can hang, and a look at what the journal tells."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

from perdure.agents.api import Hear, ModelRequest, Reply, TurnContext
from perdure.agents.loop import LoopAgent
from perdure.agents.offline import OfflineModel
from perdure.core.address import Address, session_key
from perdure.core.conversation import NoteMessage, UserMessage
from perdure.core.effects import Effect
from perdure.core.journal import Decided, Entry, Interrupted, ModelAnswered, TurnView, fold
from perdure.core.messages import Outbound, Receipt
from perdure.core.tools import Tool, Use
from perdure.store.api import Store
from perdure.testing import SimulatedPlatform
from perdure.testing.platform import SimulatedAdapter
from support.inprocess import crashing_at_the_end
from support.waiting import eventually


class Bench:
    """The offline model at a workbench that outlives its gateways: every run and every request is kept."""

    def __init__(self, *stuck: str) -> None:
        self.stuck = set(stuck)  # steps that hang for as long as they are in here
        self.ran: Counter[str] = Counter()
        self.hanging: list[str] = []
        self.requests: list[ModelRequest] = []
        self.name = "recording"
        self.window = 1_000_000
        self._released = asyncio.Event()
        tools = [
            Tool("step", "may be repeated", self._perform, Effect.PURE),
            Tool("once", "must not be repeated", self._perform, Effect.ONCE),
        ]
        self.agent = LoopAgent(self, tools)

    async def close(self) -> None: ...

    async def respond(self, request: ModelRequest, hear: Hear | None = None) -> ModelAnswered:
        self.requests.append(request)
        return await OfflineModel().respond(request, hear)

    async def _perform(self, use: Use) -> str:
        name = str(use.arguments["name"])
        self.ran[name] += 1
        if name in self.stuck:
            self.hanging.append(name)
            await self._released.wait()
        return f"{name}: done"

    def release(self) -> None:
        """What hangs goes on, and nothing hangs until something is stuck again."""
        self.stuck.clear()
        self._released.set()
        self._released = asyncio.Event()

    async def hangs(self, times: int = 1) -> None:
        """Wait until steps have hung this many times in all."""
        await eventually(f"steps have hung {times} times", lambda: len(self.hanging) == times)

    def notes(self) -> list[list[str]]:
        """The notes in each request so far."""
        return [_texts(request, NoteMessage) for request in self.requests]

    def words(self) -> list[list[str]]:
        """The users' words in each request so far."""
        return [_texts(request, UserMessage) for request in self.requests]


def _texts(request: ModelRequest, kind: type[NoteMessage | UserMessage]) -> list[str]:
    return [message.text for message in request.messages if isinstance(message, kind)]


class Halting:
    """An agent that journals what it is given and then hangs; it counts its attempts."""

    def __init__(self, *entries: Entry) -> None:
        self._entries = entries
        self.attempts = 0
        self.hangs = 0

    async def run(self, context: TurnContext) -> Reply:
        self.attempts += 1
        if self._entries:
            await context.append(*self._entries)
        self.hangs += 1
        await asyncio.Event().wait()
        raise AssertionError("nobody wakes this agent")


class Answering:
    """An agent that answers at once, and counts its attempts."""

    def __init__(self, text: str = "answered") -> None:
        self._text = text
        self.attempts = 0

    async def run(self, context: TurnContext) -> Reply:
        self.attempts += 1
        return Reply(self._text)


class Gated(SimulatedPlatform):
    """A platform that can keep a send waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.held = 0

    def adapter(self) -> SimulatedAdapter:
        return GatedAdapter(self)

    async def holds(self, sends: int) -> None:
        """Wait until this many sends have come to the gate."""
        await eventually(f"{sends} sends have come", lambda: self.held == sends)


class GatedAdapter(SimulatedAdapter):
    def __init__(self, platform: Gated) -> None:
        super().__init__(platform)
        self._gated = platform

    async def send(self, outbound: Outbound) -> Receipt:
        self._gated.held += 1
        await self._gated.gate.wait()
        return await super().send(outbound)


def key_of(platform: SimulatedPlatform, chat: str = "1") -> str:
    return session_key("main", Address(platform.name, "dm", chat))


async def turns_in(store: Store, key: str) -> list[TurnView]:
    """Every turn of a key, in order."""
    return [
        fold(await store.journal.of_turn(session.id, turn.id))
        for session in await store.sessions.of_key(key)
        for turn in await store.turns.of_session(session.id)
    ]


async def last_turn(store: Store, key: str) -> TurnView:
    return (await turns_in(store, key))[-1]


def before_the_cut(view: TurnView) -> TurnView:
    """The turn as the newest interruption found it."""
    marks = [place for place, record in enumerate(view.records) if isinstance(record.entry, Interrupted)]
    return fold(view.records[: marks[-1]])


def was_cut_in_a_step(view: TurnView) -> bool:
    """The proof of a kill: an intent in the journal, and no result, when the interruption was marked."""
    return any(call.started is not None for call in before_the_cut(view).open_calls)


def reasons(view: TurnView) -> list[str]:
    return [interruption.reason for interruption in view.interruptions]


def rules(view: TurnView) -> list[str]:
    """The rules that spoke about this turn, in order."""
    return [record.entry.rule for record in view.records if isinstance(record.entry, Decided)]


async def decided(store: Store, key: str, rule: str) -> TurnView:
    """Wait until this rule is the last that spoke about the key's last turn."""

    async def probe() -> TurnView | None:
        view = await last_turn(store, key)
        return view if view.decided is not None and view.decided.rule == rule else None

    return await eventually(f"{rule} is decided about {key}", probe)


async def replies(platform: SimulatedPlatform, *texts: str, chat: str = "1") -> None:
    """Wait until a chat sees exactly this of us."""
    with suppress(AssertionError):  # what it sees instead says more
        await eventually(f"chat {chat} sees {texts}", lambda: platform.replies(chat) == list(texts))
    assert platform.replies(chat) == list(texts), f"chat {chat} sees {platform.replies(chat)}, not {texts}"


async def crash_in_a_step(
    home: Path, platform: SimulatedPlatform, bench: Bench, *texts: str, chat: str = "1", **options: object
) -> None:
    """Run a gateway until one more step hangs, the messages having been written, and kill it there."""
    before = len(bench.hanging)
    async with crashing_at_the_end(home, platform, agent=bench.agent, **options):
        for text in texts:
            platform.write(text, chat=chat)
        await eventually("a step hangs", lambda: len(bench.hanging) > before and not platform.pending())


async def perdure(home: Path, *arguments: str) -> str:
    """What a command of ours prints, run as a process of its own beside whatever uses that home."""
    code, output, errors = await command(home, *arguments)
    assert code == 0, f"exit code {code}: {errors}"
    return output


async def command(home: Path, *arguments: str) -> tuple[int, str, str]:
    """Run a command of ours: its exit code, its output and its errors."""
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

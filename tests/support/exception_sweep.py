"""The exception sweep: raises an exception at every call to the store, the platform, the model and a tool.

The crash sweep kills a gateway at such a point; here the call raises, once, before or after it took place, and the
gateway must survive: its neighbours are served, and the failure is reported.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, TypeVar

from perdure.agents.api import Agent, ModelRequest, PreviewCallback
from perdure.agents.builtin_agent import BuiltinAgent
from perdure.config import load_settings
from perdure.core import texts
from perdure.core.effects import Effect
from perdure.core.journal import ModelAnswered, ToolCall
from perdure.core.tools import Tool, Use
from perdure.platforms.api import Capabilities
from perdure.runtime.gateway import Gateway
from perdure.store.api import Store
from perdure.testing import SimulatedPlatform
from support.crash_sweep import open_rows
from support.fault_injection import CrashInjector, InterceptedAdapter, InterceptedDatabase, InterceptedModel
from support.inprocess import crashing_at_the_end
from support.waiting import eventually

T = TypeVar("T")

ERRORS: dict[str, Callable[[str], BaseException]] = {
    "RuntimeError": RuntimeError,
    "OSError": lambda mark: OSError(24, mark),
    "CancelledError": asyncio.CancelledError,
    "SystemExit": SystemExit,
    "KeyboardInterrupt": KeyboardInterrupt,
    "MemoryError": MemoryError,
    "ExceptionGroup": lambda mark: ExceptionGroup(mark, [ValueError(mark), OSError(mark)]),
}
TIMEOUT_SECONDS = 60.0  # seconds; many scenarios run at once
MAX_CONCURRENT_RUNS = 12  # scenarios that run side by side in one event loop
NEIGHBOUR_CHAT = "9"  # the chat of a person who is not involved in the failure


class ExceptionInjector(CrashInjector):
    """Raises an exception before or after the n-th call; all other calls go through."""

    def __init__(self, at: int | None = None, *, after: bool = False, error: BaseException | None = None) -> None:
        super().__init__(at, after=after)
        self._error = error

    async def intercept(self, name: str, call: Callable[[], Awaitable[T]]) -> T:
        self.calls.append(name)
        due = self._error is not None and len(self.calls) == self._at
        if due and not self._after:
            self.trigger()
        result = await call()
        if due:
            self.trigger()
        return result

    def trigger(self) -> None:
        assert self._error is not None
        self.triggered.set()
        raise self._error


class ExceptionScenario:
    """The messages of people, and the replies that they get if nothing fails."""

    name: ClassVar[str]
    writes: ClassVar[tuple[str, ...]] = ("say: hi",)
    files: ClassVar[tuple[str, ...]] = ()
    answers: ClassVar[dict[str, str]] = {}  # answers of people, by the beginning of the question
    can = Capabilities(idempotent_send=True, keeps_missed=True)
    lose_answers = 0

    def __init__(self, home: Path) -> None:
        self.home = home
        self.platform = SimulatedPlatform(capabilities=self.can)
        self.other = SimulatedPlatform("other")
        self.fault_raised = asyncio.Event()
        self._answered: set[str] = set()

    async def prepare(self) -> None:
        """Prepare the home before the gateway with the exception starts."""
        self.platform.lose_answers = self.lose_answers
        for text in self.writes:
            self.platform.write(text, files=self.files)

    def agent(self, injector: CrashInjector) -> Agent | None:
        return None

    def react(self) -> None:
        """Let people answer the questions, each once."""
        for posted in list(self.platform.posted):
            for asked, answer in self.answers.items():
                if posted.text.startswith(asked) and posted.key not in self._answered:
                    self._answered.add(posted.key)
                    self.platform.write(answer)

    def has_reply(self) -> bool:
        """Tell whether every message has a reply, or was refused to its platform."""
        return bool(self.platform.replies() or self.platform.turned_away)


class PlainScenario(ExceptionScenario):
    name = "plain"


class ToolScenario(ExceptionScenario):
    name = "tool"
    writes = ("look",)

    def agent(self, injector: CrashInjector) -> Agent:
        async def look(use: Use) -> str:
            return await injector.intercept("tool", _tool_result)

        return BuiltinAgent(
            InterceptedModel(_OneToolCallModel(), injector), [Tool("look", "looks", look, Effect.PURE)]
        )


async def _tool_result() -> str:
    return "something"


class _OneToolCallModel:
    """A model that calls a tool once if a message asks for it, and answers hello otherwise."""

    name = "scripted"
    window = 100_000

    async def close(self) -> None: ...

    async def respond(self, request: ModelRequest, show_preview: PreviewCallback | None = None) -> ModelAnswered:
        looks = "look" in str(request.messages[0])
        if looks and request.step == 1:
            return ModelAnswered(1, "", (ToolCall("c1", "look", {}),), "tool_calls")
        return ModelAnswered(request.step, f"done: {request.messages[-1]}", (), "stop")


class QuestionScenario(ExceptionScenario):
    name = "question"
    writes = ("ask: Which one? | this | that\nsay: fine",)
    answers: ClassVar[dict[str, str]] = {"Which one?": "that"}


class PreviewScenario(ExceptionScenario):
    name = "preview"
    writes = ("stream: one two three four five six seven eight nine ten",)
    can = Capabilities(idempotent_send=True, keeps_missed=True, edit=True, edit_every=0.05, typing_every=0.1)


class StopScenario(ExceptionScenario):
    name = "command"
    writes = ("step long 600s\nsay: late",)

    def react(self) -> None:
        """Let a person stop the turn, again if the command was refused or failed.

        A platform that was not told of its message hands the message over again, by a new connection.
        """
        told = self.platform.acknowledged or self.platform.turned_away
        if self.fault_raised.is_set() and not told and "reconnect" not in self._answered:
            self._answered.add("reconnect")
            self.platform.disconnect()
        failed = len(self.platform.turned_away) + self.platform.replies().count(texts.chat_commands.FAILED)
        tries = f"stop {failed}"
        if self.platform.acknowledged and tries not in self._answered:
            self._answered.add(tries)
            self.platform.write("/stop")


class FileScenario(ExceptionScenario):
    name = "file"
    files = ("note.txt",)


class ReadBackScenario(ExceptionScenario):
    name = "read_back"
    can = Capabilities(read_back=True, keeps_missed=True)
    lose_answers = 1


class CrashedTurnScenario(ExceptionScenario):
    name = "recovery"

    async def prepare(self) -> None:
        """Crash a gateway in the middle of a turn, with an unsent reply in another chat."""
        async with crashing_at_the_end(self.home, self.platform) as gateway:
            self.platform.write("step a 0s\nstep b 1s\nsay: hi")
            await eventually("the turn runs", lambda: gateway.loops.runner.running)
            self.platform.refusals.add("3")


SCENARIOS: list[type[ExceptionScenario]] = [
    PlainScenario,
    ToolScenario,
    QuestionScenario,
    PreviewScenario,
    StopScenario,
    FileScenario,
    ReadBackScenario,
    CrashedTurnScenario,
]


class ScenarioRun:
    """One scenario, served by one gateway behind an exception injector."""

    def __init__(
        self, scenario: ExceptionScenario, injector: ExceptionInjector, log_text: Callable[[], str]
    ) -> None:
        self.scenario = scenario
        self.injector = injector
        scenario.fault_raised = injector.triggered
        self._log_text = log_text
        platforms = [
            InterceptedAdapter(scenario.platform, injector),
            InterceptedAdapter(scenario.other, ExceptionInjector()),
        ]
        self.gateway = Gateway(
            load_settings(scenario.home, {"PERDURE_RECOVERY__MAX_WITHOUT_PROGRESS": "9"}),
            adapters=platforms,
            agent=scenario.agent(injector),
            wrap=lambda database: InterceptedDatabase(database, injector),
            wrap_model=lambda model: InterceptedModel(model, injector),
        )

    async def run(self, mark: str) -> None:
        """Run the scenario; check that the gateway survives, serves its neighbours and reports the failure."""
        running = asyncio.create_task(self.gateway.run())
        try:
            await eventually(
                "everything has come to its end", lambda: running.done() or self.is_over(), TIMEOUT_SECONDS
            )
            assert not running.done(), "the gateway ended"
            if self.injector.triggered.is_set():
                await self._serve_neighbours(running)
                assert mark in self._log_text() or await self._is_on_record(mark), "nobody was told what failed"
        except BaseException:
            running.cancel()
            raise
        finally:
            self.gateway.stop()
            await asyncio.wait({running})
        await running

    async def is_over(self) -> bool:
        self.scenario.react()
        if self.gateway.phase != "ready" or not self.scenario.has_reply():
            return False
        return not await open_rows(self._store())

    def _store(self) -> Store:
        """Return the store beneath the injector: reading it is no call of the gateway."""
        return Store(self.gateway.store.database.beneath)  # type: ignore[attr-defined]

    async def _serve_neighbours(self, running: asyncio.Task[object]) -> None:
        for platform in (self.scenario.platform, self.scenario.other):
            platform.write("say: hello", chat=NEIGHBOUR_CHAT)
        for platform in (self.scenario.platform, self.scenario.other):
            served = lambda one=platform: running.done() or bool(one.replies(NEIGHBOUR_CHAT))  # noqa: E731
            await eventually(f"a neighbour on {platform.name} is served", served)
        assert not running.done(), "the gateway ended"

    async def _is_on_record(self, mark: str) -> bool:
        """Tell whether the journal has the mark: the error of a tool is its result."""
        sql = "SELECT body FROM journal"
        bodies = await self._store().database.read(lambda tx: tx.all(sql))
        return any(mark in row[0] for row in bodies)


# ── the sweep itself ────────────────────────────────────────────────────────────────────────────────────────


async def count_calls(scenario: type[ExceptionScenario], folder: Path) -> int:
    """Count the calls of a gateway in this scenario without an exception."""
    made, raiser = scenario(folder / "unharmed"), ExceptionInjector()
    await made.prepare()
    await ScenarioRun(made, raiser, str).run("")
    return len(raiser.calls)


async def raise_at(
    scenario: type[ExceptionScenario], folder: Path, point: int, kind: str, log_text: Callable[[], str]
) -> None:
    """Raise at one point: an even point is before a call, an odd point after it."""
    mark = f"fault-{scenario.name}-{point}-{kind}"
    made = scenario(folder / mark)
    await made.prepare()
    raiser = ExceptionInjector(1 + point // 2, after=bool(point % 2), error=ERRORS[kind](mark))
    try:
        await ScenarioRun(made, raiser, log_text).run(mark)
    except BaseException as error:
        called = raiser.calls[point // 2] if point // 2 < len(raiser.calls) else "nothing"
        error.add_note(
            f"{mark}: raised {'after' if point % 2 else 'before'} {called}; sees {made.platform.replies()}"
        )
        raise


async def sweep(scenario: type[ExceptionScenario], folder: Path, choose: Callable[[int], list[str]]) -> int:
    """Raise the chosen errors at every point; return their number."""
    points = range(2 * await count_calls(scenario, folder))
    chosen = [(point, kind) for point in points for kind in choose(point)]
    places = asyncio.Semaphore(MAX_CONCURRENT_RUNS)
    with _capture_log() as said:

        async def one(point: int, kind: str) -> None:
            async with places:
                await raise_at(scenario, folder, point, kind, said)

        async with asyncio.TaskGroup() as group:
            for point, kind in chosen:
                group.create_task(one(point, kind))
    return len(chosen)


@contextmanager
def _capture_log() -> Iterator[Callable[[], str]]:
    """Capture the log of the gateways, with tracebacks."""
    lines: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(f"{logging.Formatter().format(record)} {getattr(record, 'fields', '')}")

    logger, listener = logging.getLogger("perdure"), Listener()
    logger.addHandler(listener)
    try:
        yield lambda: "\n".join(lines)
    finally:
        logger.removeHandler(listener)

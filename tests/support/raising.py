"""The sweep of exceptions: at every call to the store, the platform, the model and a tool, something is raised.

The crash sweep kills a gateway at such a point; here the call raises, once, before or after it took place, and the
gateway must live: its neighbours are served, and what failed is told. Drives all of `runtime/`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, TypeVar

from perdure.agents.api import Agent, Hear, ModelRequest
from perdure.agents.loop import LoopAgent
from perdure.config import load
from perdure.core import notes
from perdure.core.effects import Effect
from perdure.core.journal import ModelAnswered, ToolCall
from perdure.core.tools import Tool, Use
from perdure.core.turn import FINAL
from perdure.platforms.api import Capabilities
from perdure.runtime.gateway import Gateway
from perdure.store.api import Store
from perdure.testing import SimulatedPlatform
from support.fuses import Fuse, FusedAdapter, FusedDatabase, FusedModel
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
PATIENCE = 60.0  # seconds; many worlds run at once
AT_ONCE = 12  # worlds that run side by side in one event loop
NEIGHBOUR = "9"  # the chat of a person who has nothing to do with what fails


class Raiser(Fuse):
    """Raises at the n-th call, before or after it took place; all other calls go through."""

    def __init__(self, at: int | None = None, *, after: bool = False, error: BaseException | None = None) -> None:
        super().__init__(at, after=after)
        self._error = error

    async def around(self, name: str, call: Callable[[], Awaitable[T]]) -> T:
        self.calls.append(name)
        due = self._error is not None and len(self.calls) == self._at
        if due and not self._after:
            self.burn()
        result = await call()
        if due:
            self.burn()
        return result

    def burn(self) -> None:
        assert self._error is not None
        self.burnt.set()
        raise self._error


class Scene:
    """What people do in a world, and what they are told at the end if nothing fails."""

    name: ClassVar[str]
    writes: ClassVar[tuple[str, ...]] = ("say: hi",)
    files: ClassVar[tuple[str, ...]] = ()
    answers: ClassVar[dict[str, str]] = {}  # what a person writes, by how that begins which they were told
    can = Capabilities(idempotent_send=True, keeps_missed=True)
    lose_answers = 0

    def __init__(self, home: Path) -> None:
        self.home = home
        self.platform = SimulatedPlatform(capabilities=self.can)
        self.other = SimulatedPlatform("other")
        self._answered: set[str] = set()

    async def lead_up(self) -> None:
        """What happens before the gateway begins at which something is raised."""
        self.platform.lose_answers = self.lose_answers
        for text in self.writes:
            self.platform.write(text, files=self.files)

    def agent(self, fuse: Fuse) -> Agent | None:
        return None

    def react(self) -> None:
        """People answer what they were asked, each question once."""
        for posted in list(self.platform.posted):
            for asked, answer in self.answers.items():
                if posted.text.startswith(asked) and posted.key not in self._answered:
                    self._answered.add(posted.key)
                    self.platform.write(answer)

    def is_told(self) -> bool:
        """Whether people, or their platform, know what became of what they wrote."""
        return bool(self.platform.replies() or self.platform.turned_away)


class Plain(Scene):
    name = "plain"


class UsesTool(Scene):
    name = "tool"
    writes = ("look",)

    def agent(self, fuse: Fuse) -> Agent:
        async def look(use: Use) -> str:
            return await fuse.around("tool", _seen)

        return LoopAgent(FusedModel(_LooksOnce(), fuse), [Tool("look", "looks", look, Effect.PURE)])


async def _seen() -> str:
    return "something"


class _LooksOnce:
    """A model that uses a tool once where it is asked to look, and says hello everywhere else."""

    name = "scripted"
    window = 100_000

    async def close(self) -> None: ...

    async def respond(self, request: ModelRequest, hear: Hear | None = None) -> ModelAnswered:
        looks = "look" in str(request.messages[0])
        if looks and request.step == 1:
            return ModelAnswered(1, "", (ToolCall("c1", "look", {}),), "tool_calls")
        return ModelAnswered(request.step, f"done: {request.messages[-1]}", (), "stop")


class Asks(Scene):
    name = "question"
    writes = ("ask: Which one? | this | that\nsay: fine",)
    answers: ClassVar[dict[str, str]] = {"Which one?": "that"}


class Grows(Scene):
    name = "preview"
    writes = ("stream: one two three four five six seven eight nine ten",)
    can = Capabilities(idempotent_send=True, keeps_missed=True, edit=True, edit_every=0.05, typing_every=0.1)


class Stops(Scene):
    name = "command"
    writes = ("step long 600s\nsay: late",)

    def react(self) -> None:
        """A person stops the turn, and once more if that was turned away or did not work."""
        failed = len(self.platform.turned_away) + self.platform.replies().count(notes.COMMAND_FAILED)
        tries = f"stop {failed}"
        if self.platform.acknowledged and tries not in self._answered:
            self._answered.add(tries)
            self.platform.write("/stop")


class Fetches(Scene):
    name = "file"
    files = ("note.txt",)


class LooksUp(Scene):
    name = "read_back"
    can = Capabilities(read_back=True, keeps_missed=True)
    lose_answers = 1


class Recovers(Scene):
    name = "recovery"

    async def lead_up(self) -> None:
        """A gateway dies in the middle of a turn, with a reply owed in another chat."""
        async with crashing_at_the_end(self.home, self.platform) as gateway:
            self.platform.write("step a 0s\nstep b 1s\nsay: hi")
            await eventually("the turn runs", lambda: gateway.loops.runner.attempts)
            self.platform.refusals.add("3")


SCENES: list[type[Scene]] = [Plain, UsesTool, Asks, Grows, Stops, Fetches, LooksUp, Recovers]


class World:
    """One scene, served by one gateway behind a raiser."""

    def __init__(self, scene: Scene, raiser: Raiser, said: Callable[[], str]) -> None:
        self.scene = scene
        self.raiser = raiser
        self._said = said
        platforms = [FusedAdapter(scene.platform, raiser), FusedAdapter(scene.other, Raiser())]
        self.gateway = Gateway(
            load(scene.home, {"PERDURE_RECOVERY__MAX_WITHOUT_PROGRESS": "9"}),
            adapters=platforms,
            agent=scene.agent(raiser),
            wrap=lambda database: FusedDatabase(database, raiser),
            wrap_model=lambda model: FusedModel(model, raiser),
        )

    async def live(self, mark: str) -> None:
        """Run to the end of the scene: the gateway lives, neighbours are served, and what failed is told."""
        running = asyncio.create_task(self.gateway.run())
        try:
            await eventually("everything has come to its end", lambda: running.done() or self.is_over(), PATIENCE)
            assert not running.done(), "the gateway ended"
            if self.raiser.burnt.is_set():
                await self._serve_neighbours(running)
                assert mark in self._said() or await self._is_on_record(mark), "nobody was told what failed"
        except BaseException:
            running.cancel()
            raise
        finally:
            self.gateway.stop()
            await asyncio.wait({running})
        await running

    async def is_over(self) -> bool:
        self.scene.react()
        if self.gateway.phase != "ready" or not self.scene.is_told():
            return False
        return not await _open_work(self._store())

    def _store(self) -> Store:
        """The store beneath the raiser: looking at it is no call of the gateway's."""
        return Store(self.gateway.store.database.beneath)  # type: ignore[attr-defined]

    async def _serve_neighbours(self, running: asyncio.Task[object]) -> None:
        for platform in (self.scene.platform, self.scene.other):
            platform.write("say: hello", chat=NEIGHBOUR)
        for platform in (self.scene.platform, self.scene.other):
            served = lambda one=platform: running.done() or bool(one.replies(NEIGHBOUR))  # noqa: E731
            await eventually(f"a neighbour on {platform.name} is served", served)
        assert not running.done(), "the gateway ended"

    async def _is_on_record(self, mark: str) -> bool:
        """Whether the journal tells it: what a tool raised is its result."""
        sql = "SELECT body FROM journal"
        bodies = await self._store().database.read(lambda tx: tx.all(sql))
        return any(mark in row[0] for row in bodies)


async def _open_work(store: Store) -> bool:
    turns = [turn for session in await store.sessions.page() for turn in await store.turns.of_session(session.id)]
    return bool(await store.outbox.open()) or any(turn.state not in FINAL for turn in turns)


# ── the sweep itself ────────────────────────────────────────────────────────────────────────────────────────


async def count_calls(scene: type[Scene], folder: Path) -> int:
    """How many calls a gateway makes in this scene if nothing is raised."""
    made, raiser = scene(folder / "unharmed"), Raiser()
    await made.lead_up()
    await World(made, raiser, str).live("")
    return len(raiser.calls)


async def raise_at(scene: type[Scene], folder: Path, point: int, kind: str, said: Callable[[], str]) -> None:
    """Raise at one point: even ones are before a call, odd ones after it."""
    mark = f"fault-{scene.name}-{point}-{kind}"
    made = scene(folder / mark)
    await made.lead_up()
    raiser = Raiser(1 + point // 2, after=bool(point % 2), error=ERRORS[kind](mark))
    try:
        await World(made, raiser, said).live(mark)
    except BaseException as error:
        called = raiser.calls[point // 2] if point // 2 < len(raiser.calls) else "nothing"
        error.add_note(
            f"{mark}: raised {'after' if point % 2 else 'before'} {called}; sees {made.platform.replies()}"
        )
        raise


async def sweep(scene: type[Scene], folder: Path, choose: Callable[[int], list[str]]) -> int:
    """Raise at every point the errors that are chosen for it; returns how many there were."""
    points = range(2 * await count_calls(scene, folder))
    chosen = [(point, kind) for point in points for kind in choose(point)]
    places = asyncio.Semaphore(AT_ONCE)
    with _listening() as said:

        async def one(point: int, kind: str) -> None:
            async with places:
                await raise_at(scene, folder, point, kind, said)

        async with asyncio.TaskGroup() as group:
            for point, kind in chosen:
                group.create_task(one(point, kind))
    return len(chosen)


@contextmanager
def _listening() -> Iterator[Callable[[], str]]:
    """What the gateways' log says meanwhile, with its tracebacks."""
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

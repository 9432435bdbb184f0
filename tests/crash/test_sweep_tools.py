"""The sweep over what an agent does beside answering: commands, approvals, questions, previews, summaries, steps.

Each scene is crashed before and after every one of its store calls; see `support/sweeping.py`.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from perdure.agents import StepContext
from perdure.agents.api import Agent
from perdure.agents.entry import as_agent
from perdure.core.journal import Answered, Compacted, TurnView
from perdure.errors import OutcomeUnknown
from perdure.platforms.api import Capabilities
from perdure.testing.providers import Asked, LocalProvider, Says, Wish
from support.approving import DONE, GUARDED, QUESTION
from support.keeping import end_all
from support.mcp_process import HttpServer
from support.sweeping import World, entries_of, sweep


class Command(World):
    """A foreground command; its keeper is a real process."""

    writes = ("run: echo ran >> runs; echo hello; exit 3",)
    sees = ("exit code 3\nhello",)

    def check(self, views: list[TurnView]) -> None:
        assert self.commands.runs() == 1


class Approval(World):
    """A guarded command, and a person who presses the button."""

    writes = (GUARDED,)
    sees = (QUESTION, "Approved.", DONE)
    answers: ClassVar = {"May I": "#1"}

    def check(self, views: list[TurnView]) -> None:
        assert self.commands.runs() == 1
        assert len(entries_of(views[0], Answered)) == 1
        started = views[0].calls["c1.1"].started
        assert started is not None
        assert started.approved_by == "ann"


class Denial(World):
    """A guarded command, and a person who denies it by a word."""

    writes = (f"{GUARDED}\nsay: never mind",)
    sees = (QUESTION, "Denied; it is not run.", "never mind")
    answers: ClassVar = {"May I": "/deny"}

    def check(self, views: list[TurnView]) -> None:
        assert self.commands.runs() == 0


class Question(World):
    """A question, and a person who answers."""

    writes = ("ask: Which way? | Left | Right\nstep go 0s",)
    sees = ("Which way?\n(Left / Right)", "Right\ngo: done")
    answers: ClassVar = {"Which way?": "right"}


class Preview(World):
    """An answer that people see growing. What was shown at the moment of a crash may stay."""

    writes = ("step a 0s\nstream: one two",)
    sees = ("one two",)
    can = Capabilities(idempotent_send=True, keeps_missed=True, edit=True, edit_every=0.0)

    def has_seen(self) -> bool:
        return tuple(posted.text for posted in self.platform.posted if not posted.preview) == self.sees

    def check(self, views: list[TurnView]) -> None:
        assert len(self.platform.posted) <= 2


class Summary(World):
    """A conversation that grows too long for its model."""

    writes = ("flood: 2000", "flood: 2000", "step a 0s\nsay: end")
    sees = ("x" * 2000, "x" * 2000, "end")
    settings: ClassVar = {"MODEL__CONTEXT": "1000"}

    def check(self, views: list[TurnView]) -> None:
        assert sum(len(entries_of(view, Compacted)) for view in views) >= 1


class Own(World):
    """An agent of one's own: it looks up, asks, and orders once."""

    writes = ("tea",)
    answers: ClassVar = {"Shall I": "Yes"}

    def agent(self) -> Agent:
        return as_agent(self._take_order, "own")

    async def _take_order(self, context: StepContext) -> str:
        price = await context.step("look_up", lambda: 3, effect="pure")
        if await context.ask("Shall I?", ["Yes", "No"]) != "Yes":
            return "no"
        try:
            return f"{await context.step('order', self._order)} for {price}"
        except OutcomeUnknown:
            return "unknown"

    def _order(self) -> str:
        with (self.home / "orders").open("a") as orders:
            orders.write("tea\n")
        return "ordered"

    def has_seen(self) -> bool:
        question, *rest = self.platform.replies() or [""]
        return question == "Shall I?\n(Yes / No)" and rest in (["ordered for 3"], ["unknown"])

    def check(self, views: list[TurnView]) -> None:
        orders = (self.home / "orders").read_text().splitlines() if (self.home / "orders").exists() else []
        assert len(orders) <= 1, "a `once` step ran twice"
        assert orders or self.platform.replies()[-1] == "unknown"


SCENES = [Command, Approval, Denial, Question, Preview, Summary, Own]
# How many points each sweep had when it was written: with fewer, it no longer reaches what it did.
POINTS = {"Command": 50, "Approval": 72, "Denial": 70, "Question": 66, "Preview": 56, "Summary": 84, "Own": 60}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in which no command runs any more after the test."""
    yield from end_all(tmp_path)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__.lower())
def test_nothing_is_lost_or_repeated_when_killed_at_any_store_call(scene: type[World], folder: Path) -> None:
    """B40, B46, B60, B62, B63, B64, B66, B67, B70, B73, B75: one scene, every point."""
    points = asyncio.run(sweep(lambda name: scene(folder / name)))
    print(f"sweep {scene.__name__}: {points} points")
    assert points >= POINTS[scene.__name__]


def test_nothing_is_lost_or_repeated_with_tools_of_a_server_when_killed_at_any_store_call(folder: Path) -> None:
    """B62, B64: a real provider's SDK, a real MCP server, and a tool that must not be repeated."""

    def answer(asked: Asked) -> Says:
        if any(message["role"] == "tool" for message in asked.messages):  # a note may stand behind the result
            return Says("All done.")
        wish = next(m["content"] for m in asked.messages if str(m["content"]).startswith("count in "))
        return Says(calls=[Wish("calc_count", {"file": wish.split()[-1]})])

    with HttpServer() as server, LocalProvider(answer) as provider:

        class Served(World):
            sees = ("All done.",)
            settings: ClassVar = {
                "MODEL__NAME": "openai:local",
                "MODEL__BASE_URL": provider.openai_url,
                "MODEL__API_KEY": provider.key,
                "TOOLS__MCP": f'{{"calc": {{"url": "{server.url}"}}}}',
            }

            def __init__(self, home: Path) -> None:
                self.writes = (f"count in {home}.counted",)
                super().__init__(home)

            def check(self, views: list[TurnView]) -> None:
                file = Path(f"{self.home}.counted")
                assert len(file.read_text().splitlines() if file.exists() else []) <= 1

        points = asyncio.run(sweep(lambda name: Served(folder / name), (True,)))  # after each call: it takes long
        print(f"sweep Served: {points} points")
        assert points >= 26
        assert provider.refusals == []
        gc.collect()  # so that what was left open is noticed here, and not in another test

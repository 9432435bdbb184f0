"""Crash scenarios of tools: commands, approvals, questions, custom agents and MCP servers."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from perdure.agents import StepContext
from perdure.agents.api import Agent
from perdure.agents.custom.entrypoint import as_agent
from perdure.core.journal import QuestionAnswered, TurnView
from perdure.errors import OutcomeUnknown
from perdure.testing.providers import Asked, LocalProvider, Says, Wish
from support.approvals import DONE, GUARDED, QUESTION
from support.crash_sweep import CrashScenario, entries_of
from support.mcp_process import HttpServer


class ForegroundCommand(CrashScenario):
    """A foreground command; its keeper is a real process."""

    name = "shell"
    writes = ("run: echo ran >> runs; echo hello; exit 3",)
    sees = ("exit code 3\nhello",)

    def check(self, views: list[TurnView]) -> None:
        assert self.commands.runs() == 1


class ApprovedCommand(CrashScenario):
    """A guarded command that a person approves by a button."""

    name = "approval"
    writes = (GUARDED,)
    sees = (QUESTION, "Approved.", DONE)
    answers: ClassVar = {"May I": "#1"}

    def check(self, views: list[TurnView]) -> None:
        assert self.commands.runs() == 1
        assert len(entries_of(views[0], QuestionAnswered)) == 1
        started = views[0].calls["c1.1"].started
        assert started is not None
        assert started.approved_by == "ann"


class DeniedCommand(CrashScenario):
    """A guarded command that a person denies in words."""

    name = "denial"
    writes = (f"{GUARDED}\nsay: never mind",)
    sees = (QUESTION, "Denied; it is not run.", "never mind")
    answers: ClassVar = {"May I": "/deny"}

    def check(self, views: list[TurnView]) -> None:
        assert self.commands.runs() == 0


class AskedQuestion(CrashScenario):
    """A question that a person answers."""

    name = "question"
    writes = ("ask: Which way? | Left | Right\nstep go 0s",)
    sees = ("Which way?\n(Left / Right)", "Right\ngo: done")
    answers: ClassVar = {"Which way?": "right"}


class CustomAgent(CrashScenario):
    """A custom agent with a pure step, a question and a `once` step."""

    name = "own agent"
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


class McpTool(CrashScenario):
    """B62, B64: a provider's SDK, an MCP server, and a tool that must not be repeated."""

    name = "server of tools"
    sees = ("All done.",)

    def __init__(self, home: Path) -> None:
        self.counted = home.with_name(f"{home.name}.counted")
        self.writes = (f"count in {self.counted}",)
        super().__init__(home)

    @classmethod
    @contextmanager
    def scenario_factory(cls, folder: Path) -> Iterator[Callable[[str], CrashScenario]]:
        with HttpServer() as server, LocalProvider(_count_script) as provider:
            settings = {
                "MODEL__NAME": "openai:local",
                "MODEL__BASE_URL": provider.openai_url,
                "MODEL__API_KEY": provider.key,
                "TOOLS__MCP": f'{{"calc": {{"url": "{server.url}"}}}}',
            }
            made = type("Served", (cls,), {"settings": settings})
            yield lambda name: made(folder / name)
            assert provider.refusals == []
            gc.collect()  # so that unclosed resources are noticed here, and not in another test

    def check(self, views: list[TurnView]) -> None:
        assert len(self.counted.read_text().splitlines() if self.counted.exists() else []) <= 1


def _count_script(asked: Asked) -> Says:
    if any(message["role"] == "tool" for message in asked.messages):  # a note may follow the result
        return Says("All done.")
    wish = next(m["content"] for m in asked.messages if str(m["content"]).startswith("count in "))
    return Says(calls=[Wish("calc_count", {"file": wish.split()[-1]})])


SCENARIOS: list[type[CrashScenario]] = [
    ForegroundCommand,
    ApprovedCommand,
    DeniedCommand,
    AskedQuestion,
    CustomAgent,
    McpTool,
]

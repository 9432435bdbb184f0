"""Crash scenarios of `/undo`, `/retry` and the erasure of a session."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from perdure.core import texts
from perdure.core.journal import TurnUndone, TurnView
from perdure.errors import NotFound, Unavailable
from perdure.store.api import Store
from perdure.testing import Crash
from support.crash_sweep import CrashScenario, entries_of

WORDS = "marzipan"


def undo_notice(words: str, *, acted: bool = False) -> str:
    return texts.chat_commands.undone(words, acted=acted, still_running=False, goal=False)


class UndoneTurn(CrashScenario):
    """A turn with a step, undone."""

    name = "undo"
    writes = ("once b 0s\nsay: hello",)
    sees = ("hello", undo_notice("once b 0s\nsay: hello", acted=True))
    answers: ClassVar = {"hello": "/undo"}

    def check(self, views: list[TurnView]) -> None:
        assert [len(entries_of(view, TurnUndone)) for view in views] == [1]


class UndoneTurns(CrashScenario):
    """Two /undo commands at once; each undoes one turn."""

    name = "undo, twice"
    writes = ("say: one", "say: two")
    sees = ("one", "two", undo_notice("say: two"), undo_notice("say: one"))
    answers: ClassVar = {"two": "/undo"}

    def answer(self, words: str, buttons: list[str]) -> None:
        self.platform.write(words)
        self.platform.write(words)

    def check(self, views: list[TurnView]) -> None:
        assert [len(entries_of(view, TurnUndone)) for view in views] == [1, 1]


class RetriedTurn(CrashScenario):
    """A turn that is retried once."""

    name = "retry"
    writes = ("say: one", "step b 0s\nsay: two")
    sees = (
        "one",
        "two",
        texts.chat_commands.retried("step b 0s\nsay: two", acted=False, still_running=False),
        "two",
    )
    turns = 3
    asked = False

    def react(self) -> None:
        if "two" in self.platform.replies() and not self.asked:
            self.asked = True
            self.platform.redeliver = 1
            self.platform.write("/retry")

    def check(self, views: list[TurnView]) -> None:
        assert [view.undone for view in views] == [False, True, False]
        assert [cause.text for cause in views[2].causes] == [cause.text for cause in views[1].causes]
        assert views[1].reply_to == views[2].reply_to


class SessionErasure(CrashScenario):
    """B104: a session with a command; an operator repeats its erasure until nothing is left."""

    name = "erasing"
    writes = (f"run: echo {WORDS}\nsay: {WORDS}",)
    sees = (WORDS,)
    turns = 0

    async def is_over(self, store: Store) -> bool:
        if not await super().is_over(store):
            return False
        try:
            found = await store.sessions.page()
            for session in found:
                await self.gateway.operator_verbs.erase(session.id)
        except (Crash, Unavailable, NotFound):
            return False  # the gateway has just crashed, or has erased the session already
        return not found and not self.keeper_directories()

    def keeper_directories(self) -> list[Path]:
        root = self.home / "keepers"
        return [path for path in root.iterdir() if path.is_dir()] if root.exists() else []

    def check(self, views: list[TurnView]) -> None:
        assert self.keeper_directories() == []
        files = (path for path in self.home.rglob("*") if path.is_file())
        assert [path for path in files if WORDS.encode() in path.read_bytes()] == []


SCENARIOS: list[type[CrashScenario]] = [UndoneTurn, UndoneTurns, RetriedTurn, SessionErasure]

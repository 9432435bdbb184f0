"""Crash scenarios of answers: one, several, long and streamed ones, and failures of the model."""

from __future__ import annotations

from typing import ClassVar

from perdure.core import texts
from perdure.core.journal import ConversationCompacted, TurnView
from perdure.platforms.api import Capabilities
from support.crash_sweep import CrashScenario, entries_of


class PlainAnswer(CrashScenario):
    name = "plain"
    writes = ("say: hello",)
    sees = ("hello",)


class ReadBackAnswer(PlainAnswer):
    """An answer on a platform with `read_back`."""

    name = "plain, read back"
    can = Capabilities(read_back=True, keeps_missed=True)


class UndeduplicatedAnswer(PlainAnswer):
    """An answer on a platform that cannot detect duplicates: an interrupted send is repeated with a mark."""

    name = "plain, no telling"
    can = Capabilities(keeps_missed=True)
    marked = texts.delivery.maybe_duplicate("hello")

    def has_seen(self) -> bool:
        return self.platform.replies() in (["hello"], [self.marked], ["hello", self.marked])


class StepsAnswer(CrashScenario):
    name = "steps"
    writes = ("step a 0s\nonce b 0s\nsay: done",)
    sees = ("done",)


class ParallelSteps(CrashScenario):
    name = "parallel"
    writes = ("parallel: a, b, c\nsay: done",)
    sees = ("done",)


class FailedTurn(CrashScenario):
    name = "failure"
    writes = ("step a 0s\nfail: no credit",)
    sees = ("I could not finish this: no credit",)


class TwoMessages(CrashScenario):
    name = "a queue"
    writes = ("say: one", "once b 0s\nsay: two")
    sees = ("one", "two")


class TwoSessions(CrashScenario):
    name = "two sessions"
    writes = ("once b 0s\nsay: one", "say: two")

    def begin(self) -> None:
        for chat, text in enumerate(self.writes, 1):
            self.platform.write(text, chat=str(chat))

    def has_seen(self) -> bool:
        return [self.platform.replies("1"), self.platform.replies("2")] == [["one"], ["two"]]


class MultipartAnswer(CrashScenario):
    name = "parts"
    writes = ("say: one two three",)
    sees = ("one", "two", "three")
    can = Capabilities(idempotent_send=True, keeps_missed=True, max_length=5)


class Redelivery(CrashScenario):
    name = "redelivery"
    writes = ("say: hello",)
    sees = ("hello",)

    def begin(self) -> None:
        self.platform.redeliver = 1
        super().begin()


class StreamedAnswer(CrashScenario):
    """A streamed answer. Its preview at the moment of a crash may stay."""

    name = "streaming"
    writes = ("step a 0s\nstream: one two",)
    sees = ("one two",)
    can = Capabilities(idempotent_send=True, keeps_missed=True, edit=True, edit_every=0.0)

    def has_seen(self) -> bool:
        return tuple(posted.text for posted in self.platform.posted if not posted.preview) == self.sees

    def check(self, views: list[TurnView]) -> None:
        assert len(self.platform.posted) <= 2

    def noticed(self, views: list[TurnView]) -> set[str]:
        return super().noticed(views) | ({"shown"} if len(self.platform.posted) > 1 else set())


class CompactedConversation(CrashScenario):
    """A conversation that exceeds the context window of its model."""

    name = "summary"
    writes = ("flood: 2000", "flood: 2000", "step a 0s\nsay: end")
    sees = ("x" * 2000, "x" * 2000, "end")
    settings: ClassVar = {"MODEL__CONTEXT": "1000"}

    def check(self, views: list[TurnView]) -> None:
        assert sum(len(entries_of(view, ConversationCompacted)) for view in views) >= 1


class GoalTurns(CrashScenario):
    """A goal of two turns. B84, B96: each turn begins once."""

    name = "goal"
    writes = ("/goal once dig 0s\nsay: dug",)
    sees = (
        texts.chat_commands.goal_started(2, busy=False),
        "dug",
        "dug",
        texts.chat_commands.goal_budget_spent(2),
    )
    settings: ClassVar = {"GOAL__MAX_TURNS": "2"}
    turns = 2


SCENARIOS: list[type[CrashScenario]] = [
    PlainAnswer,
    ReadBackAnswer,
    UndeduplicatedAnswer,
    StepsAnswer,
    ParallelSteps,
    FailedTurn,
    TwoMessages,
    TwoSessions,
    MultipartAnswer,
]
SCENARIOS += [Redelivery, StreamedAnswer, CompactedConversation, GoalTurns]

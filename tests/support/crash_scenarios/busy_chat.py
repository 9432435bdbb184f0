"""Crash scenarios of messages that arrive while a turn runs.

At every point: exactly one turn receives each message, in order, and nothing that was begun runs twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from perdure.core.journal import TurnCancelled, TurnView
from perdure.core.states import CancelReason, TurnState
from support.crash_sweep import CrashScenario

FIRST_MESSAGE = "once a 0.05s\nstep b 0s\nsay: one"


class BusyChat(CrashScenario):
    """A turn in its first step, during which people write."""

    writes = (FIRST_MESSAGE,)
    later_messages: tuple[str, ...] = ()
    expected_lines: tuple[str, ...] = ()
    any_turn_count = True

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.wrote = False

    def react(self) -> None:
        trace = self.home / "rehearsal.log"
        if not self.wrote and trace.exists():
            self.wrote = True
            for text in self.later_messages:
                self.platform.write(text)

    def has_seen(self) -> bool:
        return self.wrote and self.ordered(self.lines_seen()) == self.ordered(self.expected_lines)

    def ordered(self, texts: Sequence[str]) -> list[str]:
        """Messages after the crash join the interrupted turn, before messages that were stored then (B49)."""
        return sorted(texts)

    def lines_seen(self) -> list[str]:
        return "\n".join(self.platform.replies()).splitlines()

    def check(self, views: list[TurnView]) -> None:
        heard = [cause.text for view in views for cause in view.causes]
        assert self.ordered(heard) == self.ordered([FIRST_MESSAGE, *self.later_messages]), (
            "each message is heard once"
        )
        once = [key for key in self.runs().elements() if key.endswith("c1.1")]
        assert len(once) <= 1, "a `once` call ran twice"


class QueueMode(BusyChat):
    name = "queue"
    later_messages = ("say: two", "say: three")
    expected_lines = ("one", "two", "three")


class SteerMode(BusyChat):
    name = "steer"
    settings: ClassVar = {"QUEUE__MODE": "steer"}
    later_messages = ("say: two", "say: three")
    expected_lines = ("one", "two", "three")

    def ordered(self, texts: Sequence[str]) -> list[str]:
        """Both messages join the turn, so the order is always that of the chat."""
        return list(texts)


class CollectMode(BusyChat):
    name = "collect"
    settings: ClassVar = {"QUEUE__MODE": "collect", "QUEUE__QUIET": "20ms"}
    later_messages = ("say: two", "say: three")
    expected_lines = ("one", "two", "three")


class InterruptMode(BusyChat):
    """A message cancels the turn, unless the turn had ended or was interrupted by the crash before."""

    name = "interrupt"
    settings: ClassVar = {"QUEUE__MODE": "interrupt"}
    later_messages = ("say: two",)

    def has_seen(self) -> bool:
        return self.wrote and self.lines_seen() in (["two"], ["one", "two"])

    def check(self, views: list[TurnView]) -> None:
        super().check(views)
        ended = views[0].ended
        if self.lines_seen() == ["two"]:
            assert ended == TurnCancelled(CancelReason.REPLACED)
        else:
            assert views[0].state is TurnState.DONE


class SteerAndQueueCommands(BusyChat):
    """The commands /steer and /queue."""

    name = "words of commands"
    later_messages = ("/steer say: two", "/queue say: three")

    def has_seen(self) -> bool:
        told = [line for line in self.lines_seen() if not line.endswith(".")]
        return self.wrote and self.ordered(told) == self.ordered(["one", "two", "three"])

    def check(self, views: list[TurnView]) -> None:
        heard = [cause.text for view in views for cause in view.causes]
        assert self.ordered(heard) == self.ordered([FIRST_MESSAGE, "say: two", "say: three"])


class EditedMessages(BusyChat):
    """A person edits one waiting message and deletes another."""

    name = "edits"
    later_messages = ("say: tow", "say: three")

    def react(self) -> None:
        if not self.wrote:
            super().react()
            if self.wrote:
                self.platform.edit("m2", "say: two")
                self.platform.delete("m3")

    def has_seen(self) -> bool:
        told = self.lines_seen()
        return self.wrote and told[:1] == ["one"] and set(told[1:]) <= {"tow", "two", "three"} and len(told) >= 2

    def check(self, views: list[TurnView]) -> None:
        heard = [cause.text for view in views for cause in view.causes]
        assert heard in (
            [FIRST_MESSAGE, "say: two"],
            [FIRST_MESSAGE, "say: tow"],
            [FIRST_MESSAGE, "say: two", "say: three"],
        )


class DrainInProgress(BusyChat):
    """B20, B25: a planned stop while a turn runs and a person writes; the drain itself is crashed."""

    name = "drain in progress"
    later_messages = ("say: two",)
    expected_lines = ("one", "two")
    stopped = False

    def lines_seen(self) -> list[str]:
        """Return the seen lines without the banner and the restart notice."""
        return [line for line in super().lines_seen() if not line.endswith(".")]

    def react(self) -> None:
        super().react()
        if self.wrote and not self.stopped and self.gateway.phase == "ready":
            self.stopped = True
            self.gateway.stop()


class DrainDeadline(DrainInProgress):
    """B22: the turn exceeds the drain's deadline, is marked, and resumes after the next start."""

    name = "drain deadline"
    quiet = False  # a step that exceeds the deadline has an unknown outcome
    settings: ClassVar = {"DRAIN__DEADLINE": "10ms"}


SCENARIOS: list[type[CrashScenario]] = [
    QueueMode,
    SteerMode,
    CollectMode,
    InterruptMode,
    SteerAndQueueCommands,
    EditedMessages,
    DrainInProgress,
    DrainDeadline,
]

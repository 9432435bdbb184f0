"""Scenes of messages that find a turn running.

Whatever the instant: every message is heard by exactly one turn, in order, and nothing that was begun runs twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from perdure.core.journal import Cancelled, TurnView
from perdure.core.session import Why
from perdure.core.turn import State
from support.sweeping import World

WORK = "once a 0.05s\nstep b 0s\nsay: one"


class Busy(World):
    """A turn in its first step, and people who write then."""

    writes = (WORK,)
    then: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    some = True

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.wrote = False

    def react(self) -> None:
        trace = self.home / "rehearsal.log"
        if not self.wrote and trace.exists():
            self.wrote = True
            for text in self.then:
                self.platform.write(text)

    def has_seen(self) -> bool:
        return self.wrote and self.ordered(self.lines_seen()) == self.ordered(self.lines)

    def ordered(self, texts: Sequence[str]) -> list[str]:
        """What came after the crash joins the turn that was cut off, before what was stored when it came (B49)."""
        return sorted(texts)

    def lines_seen(self) -> list[str]:
        return "\n".join(self.platform.replies()).splitlines()

    def check(self, views: list[TurnView]) -> None:
        heard = [cause.text for view in views for cause in view.causes]
        assert self.ordered(heard) == self.ordered([WORK, *self.then]), "each message is heard once"
        once = [key for key in self.runs().elements() if key.endswith("c1.1")]
        assert len(once) <= 1, "a `once` call ran twice"


class Queued(Busy):
    name = "queue"
    then = ("say: two", "say: three")
    lines = ("one", "two", "three")


class Steered(Busy):
    name = "steer"
    settings: ClassVar = {"QUEUE__MODE": "steer"}
    then = ("say: two", "say: three")
    lines = ("one", "two", "three")

    def ordered(self, texts: Sequence[str]) -> list[str]:
        """Both join the turn, and so the order is always that of the chat."""
        return list(texts)


class Collected(Busy):
    name = "collect"
    settings: ClassVar = {"QUEUE__MODE": "collect", "QUEUE__QUIET": "20ms"}
    then = ("say: two", "say: three")
    lines = ("one", "two", "three")


class Interrupting(Busy):
    """The work is ended for good, unless it was over, or cut off by the crash, when the message was stored."""

    name = "interrupt"
    settings: ClassVar = {"QUEUE__MODE": "interrupt"}
    then = ("say: two",)

    def has_seen(self) -> bool:
        return self.wrote and self.lines_seen() in (["two"], ["one", "two"])

    def check(self, views: list[TurnView]) -> None:
        super().check(views)
        ended = views[0].ended
        if self.lines_seen() == ["two"]:
            assert ended == Cancelled(Why.REPLACED)
        else:
            assert views[0].state is State.DONE


class Worded(Busy):
    """Words of commands, in a manner of their own."""

    name = "words of commands"
    then = ("/steer say: two", "/queue say: three")

    def has_seen(self) -> bool:
        told = [line for line in self.lines_seen() if not line.endswith(".")]
        return self.wrote and self.ordered(told) == self.ordered(["one", "two", "three"])

    def check(self, views: list[TurnView]) -> None:
        heard = [cause.text for view in views for cause in view.causes]
        assert self.ordered(heard) == self.ordered([WORK, "say: two", "say: three"])


class Edited(Busy):
    """Somebody changes a message and takes another back, while both wait."""

    name = "edits"
    then = ("say: tow", "say: three")

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
        assert heard in ([WORK, "say: two"], [WORK, "say: tow"], [WORK, "say: two", "say: three"])


class Draining(Busy):
    """B20, B25: a planned stop while a turn runs, and somebody who writes then; the drain itself is cut off."""

    name = "drain in progress"
    then = ("say: two",)
    lines = ("one", "two")
    stopped = False

    def lines_seen(self) -> list[str]:
        """Beside the banner and the notice that it is being restarted."""
        return [line for line in super().lines_seen() if not line.endswith(".")]

    def react(self) -> None:
        super().react()
        if self.wrote and not self.stopped and self.gateway.phase == "ready":
            self.stopped = True
            self.gateway.stop()


class Hurried(Draining):
    """B22: the turn does not end in time, is marked, and goes on after the next start."""

    name = "drain deadline"
    quiet = False  # a step that does not end in time has an unknown outcome
    settings: ClassVar = {"DRAIN__DEADLINE": "10ms"}


SCENES: list[type[World]] = [Queued, Steered, Collected, Interrupting, Worded, Edited, Draining, Hurried]

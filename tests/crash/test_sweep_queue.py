"""The sweep over messages that find a turn running: each scene is crashed before and after every store call.

Whatever the instant: every message is heard by exactly one turn, in order, and nothing that was begun runs twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from perdure.core.journal import Cancelled, TurnView
from perdure.core.session import Why
from perdure.core.turn import State
from support.sweeping import World, sweep

WORK = "once a 0.05s\nstep b 0s\nsay: one"


class Busy(World):
    """A turn in its first step, and people who write then."""

    writes = (WORK,)
    then: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    some = True

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self._wrote = False

    def react(self) -> None:
        trace = self.home / "rehearsal.log"
        if not self._wrote and trace.exists():
            self._wrote = True
            for text in self.then:
                self.platform.write(text)

    def has_seen(self) -> bool:
        return self._wrote and self.ordered(self._seen()) == self.ordered(self.lines)

    def ordered(self, texts: Sequence[str]) -> list[str]:
        """What came after the crash joins the turn that was cut off, before what was stored when it came (B49)."""
        return sorted(texts)

    def _seen(self) -> list[str]:
        return "\n".join(self.platform.replies()).splitlines()

    def check(self, views: list[TurnView]) -> None:
        heard = [cause.text for view in views for cause in view.causes]
        assert self.ordered(heard) == self.ordered([WORK, *self.then]), "each message is heard once"
        keys = [line.split()[1] for line in (self.home / "rehearsal.log").read_text().splitlines()]
        once = [key for key in keys if key.endswith("c1.1")]
        assert len(once) <= 1, "a `once` call ran twice"


class Queued(Busy):
    then = ("say: two", "say: three")
    lines = ("one", "two", "three")


class Steered(Busy):
    settings: ClassVar = {"QUEUE__MODE": "steer"}
    then = ("say: two", "say: three")
    lines = ("one", "two", "three")

    def ordered(self, texts: Sequence[str]) -> list[str]:
        """Both join the turn, and so the order is always that of the chat."""
        return list(texts)


class Collected(Busy):
    settings: ClassVar = {"QUEUE__MODE": "collect", "QUEUE__QUIET": "20ms"}
    then = ("say: two", "say: three")
    lines = ("one", "two", "three")


class Interrupting(Busy):
    """The work is ended for good, unless it was over, or cut off by the crash, when the message was stored."""

    settings: ClassVar = {"QUEUE__MODE": "interrupt"}
    then = ("say: two",)

    def has_seen(self) -> bool:
        return self._wrote and self._seen() in (["two"], ["one", "two"])

    def check(self, views: list[TurnView]) -> None:
        super().check(views)
        ended = views[0].ended
        if self._seen() == ["two"]:
            assert ended == Cancelled(Why.REPLACED)
        else:
            assert views[0].state is State.DONE


class Worded(Busy):
    """Words of commands, in a manner of their own."""

    then = ("/steer say: two", "/queue say: three")

    def has_seen(self) -> bool:
        told = [line for line in self._seen() if not line.endswith(".")]
        return self._wrote and self.ordered(told) == self.ordered(["one", "two", "three"])

    def check(self, views: list[TurnView]) -> None:
        heard = [cause.text for view in views for cause in view.causes]
        assert self.ordered(heard) == self.ordered([WORK, "say: two", "say: three"])


class Edited(Busy):
    """Somebody changes a message and takes another back, while both wait."""

    then = ("say: tow", "say: three")

    def react(self) -> None:
        if not self._wrote:
            super().react()
            if self._wrote:
                self.platform.edit("m2", "say: two")
                self.platform.delete("m3")

    def has_seen(self) -> bool:
        told = self._seen()
        return self._wrote and told[:1] == ["one"] and set(told[1:]) <= {"tow", "two", "three"} and len(told) >= 2

    def check(self, views: list[TurnView]) -> None:
        heard = [cause.text for view in views for cause in view.causes]
        assert heard in ([WORK, "say: two"], [WORK, "say: tow"], [WORK, "say: two", "say: three"])


@pytest.mark.parametrize(
    ("scene", "least"),
    [
        pytest.param(Queued, 60, id="queue"),
        pytest.param(Steered, 40, id="steer"),
        pytest.param(Collected, 50, id="collect"),
        pytest.param(Interrupting, 40, id="interrupt"),
        pytest.param(Worded, 50, id="words of commands"),
        pytest.param(Edited, 50, id="edits"),
    ],
)
def test_b80_every_message_is_heard_once_when_killed_at_any_store_call(
    scene: type[Busy], least: int, tmp_path: Path
) -> None:
    """B49, B70, B71, B80, B85."""
    points = asyncio.run(sweep(lambda name: scene(tmp_path / name)))
    print(f"sweep {scene.__name__}: {points} points")
    assert points >= least, "the sweep lost points: it no longer reaches what it did"

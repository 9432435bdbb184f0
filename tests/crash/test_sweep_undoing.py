"""The sweep over `/undo` and `/retry`: crashed before and after every store call, each acts once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import ClassVar

import pytest

from perdure.core import notes
from perdure.core.journal import TurnView, Undone
from support.sweeping import World, entries_of, sweep


def taken_back(words: str, *, acted: bool = False) -> str:
    return notes.undone(words, acted=acted, lives=False, goal=False)


class Undo(World):
    """A turn that did something, taken back."""

    writes = ("once b 0s\nsay: hello",)
    sees = ("hello", taken_back("once b 0s\nsay: hello", acted=True))
    answers: ClassVar = {"hello": "/undo"}

    def check(self, views: list[TurnView]) -> None:
        assert [len(entries_of(view, Undone)) for view in views] == [1]


class UndoTwice(World):
    """Two commands at once, each of which takes one turn back."""

    writes = ("say: one", "say: two")
    sees = ("one", "two", taken_back("say: two"), taken_back("say: one"))
    answers: ClassVar = {"two": "/undo"}

    def answer(self, words: str, buttons: list[str]) -> None:
        self.platform.write(words)
        self.platform.write(words)

    def check(self, views: list[TurnView]) -> None:
        assert [len(entries_of(view, Undone)) for view in views] == [1, 1]


class Retry(World):
    """A turn that is asked again, once."""

    writes = ("say: one", "step b 0s\nsay: two")
    sees = ("one", "two", notes.asked_again("step b 0s\nsay: two", acted=False, lives=False), "two")
    turns = 3
    _asked = False

    def react(self) -> None:
        if "two" in self.platform.replies() and not self._asked:
            self._asked = True
            self.platform.redeliver = 1
            self.platform.write("/retry")

    def check(self, views: list[TurnView]) -> None:
        assert [view.undone for view in views] == [False, True, False]
        assert [cause.text for cause in views[2].causes] == [cause.text for cause in views[1].causes]
        assert views[1].anchor == views[2].anchor


SCENES = [Undo, UndoTwice, Retry]
# How many points each sweep had when it was written: with fewer, it no longer reaches what it did.
POINTS = {"Undo": 70, "UndoTwice": 95, "Retry": 105}


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__.lower())
def test_turn_is_taken_back_once_when_killed_at_any_store_call(scene: type[World], tmp_path: Path) -> None:
    """B71, B81: one scene, every point."""
    points = asyncio.run(sweep(lambda name: scene(tmp_path / name)))
    print(f"sweep {scene.__name__}: {points} points")
    assert points >= POINTS[scene.__name__]

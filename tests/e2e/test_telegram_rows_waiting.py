"""What waits, what is silent, and what goes on by itself: each of these promises once over Telegram."""

from __future__ import annotations

from pathlib import Path

from perdure.core import notes
from support.street import Street, street
from support.telegram import rows, wait_until_confirmed, wait_until_settled
from support.waiting import wait_for

MANY = 10_000
SET, SPENT = notes.goal_set(2, busy=False), notes.goal_spent(2)
FAILED = notes.turn_failed("no credit")


def test_goals_and_long_queues(tmp_path: Path) -> None:
    """B78 B84."""
    settings = {"GOAL__MAX_TURNS": "2", "QUEUE__CAP": str(MANY), "QUEUE__QUIET": "200ms"}
    with street(tmp_path, "spends reaches fails stops first two many", **settings) as here:
        _goals_go_on_after_a_turn_that_completed(here)
        _one_runs_and_the_others_wait(here)


def _goals_go_on_after_a_turn_that_completed(here: Street) -> None:
    for who in ("stops", "first"):
        here.write(who, f"/goal {here.held(who)}\nsay: round of {who}")
    here.write("spends", "/goal once dig 0s\nsay: dug")
    here.write("reaches", "/goal once rake 0s\nsay: GOAL REACHED")
    here.write("fails", "/goal fail: no credit")
    here.sees("spends", SET, "dug", "dug", SPENT)
    here.sees("reaches", SET, "GOAL REACHED")
    here.sees("fails", SET, FAILED)
    here.holds("stops", "first")
    here.write("stops", "/stop")
    here.sees("stops", SET, "Stopped.")
    here.write("first", "say: a person goes first")
    wait_until_confirmed(here.telegram)
    here.write("fails", "say: here is some")  # the next turn that completes continues it
    here.sees("fails", SET, FAILED, "here is some", FAILED)
    here.door.touch()
    here.sees("first", SET, "round of first", "a person goes first", "round of first", SPENT)
    wait_until_settled(here.process)
    ended = {"spends": 2, "reaches": 1, "first": 3}
    assert {who: here.turns(who) for who in ended} == {who: ["done"] * count for who, count in ended.items()}
    assert here.turns("fails") == ["failed", "done", "failed"]
    assert (here.turns("stops"), here.texts("stops")) == (["cancelled"], [SET, "Stopped."])
    assert here.texts("reaches") == [SET, "GOAL REACHED"]


def _one_runs_and_the_others_wait(here: Street) -> None:
    """B78: two at once, and ten thousand, which are heard in one turn, each once and in order."""
    here.door.unlink()
    here.write("many", "/queue collect")
    here.sees("many", notes.queue_switched("collect"))
    here.hold("many", "two")
    here.write("two", "say: first")
    here.write("two", "say: second")
    for number in range(MANY):
        here.write("many", f"say: {number}")
    wait_for("all are taken in", lambda: not here.telegram.world.updates, 120)
    waiting = "SELECT count(*) FROM inbox WHERE state = 'waiting' GROUP BY key ORDER BY 1"
    assert rows(here.process, waiting) == [(2,), (MANY,)]
    assert here.turns("many") + here.turns("two") == ["running", "running"]
    here.write("many", "say: one too many")
    here.sees_last("many", notes.queue_full(MANY))
    here.door.touch()
    here.sees("two", "two is done", "first", "second")
    wait_for("the last of them is answered", lambda: here.texts("many")[-1].endswith(f"\n{MANY - 1}"), 60)
    _, _, done, *parts = here.texts("many")
    assert done == "many is done"
    assert "\n".join(parts).split("\n") == [str(number) for number in range(MANY)]
    assert here.turns("many") == ["done", "done"]


def test_silence(tmp_path: Path) -> None:
    """B83."""
    silent = {"TURN__INACTIVITY_WARNING": "1s", "TURN__INACTIVITY_LIMIT": "5s", "NOTIFY__STILL_WORKING": "0"}
    words = " ".join(f"word{number}" for number in range(30))  # six seconds in all
    with street(tmp_path, "hangs speaks asked", **silent) as here:
        here.write("asked", "ask: Which way? | Left | Right\nsay: Left it is")
        here.sees("asked", "Which way?\n(Left / Right)")
        here.write("hangs", "step dig 600s\nsay: never")
        here.write("speaks", f"stream: {words}")
        wait_for("it is warned of", lambda: here.texts("hangs"))
        assert here.texts("hangs")[0].startswith("Nothing has been heard of this work for")
        wait_for("it is ended", lambda: here.texts("hangs")[1:])
        warned, ended = here.texts("hangs")
        assert "/stop ends it now" in warned
        assert ended.startswith(notes.turn_failed("nothing was heard of the step step for"))
        here.sees("speaks", words)  # elapsed time alone ends nothing
        assert here.turns("hangs") + here.turns("speaks") == ["failed", "done"]
        here.telegram.press("Left", chat=here.telegram.person("asked"), sender="asked")
        here.sees_last("asked", "Left it is")  # waiting for a person is not inactivity
        here.write("hangs", "say: once more")
        here.sees_last("hangs", "once more")

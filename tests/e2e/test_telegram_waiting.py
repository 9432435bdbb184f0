"""What waits, what is silent, and what goes on by itself: each of these promises once over Telegram.

Drives `platforms/telegram`, `store/queue` and `runtime/inactivity_watch`.
"""

from __future__ import annotations

from pathlib import Path

from perdure.core import texts
from support.telegram import query_database, wait_until_confirmed, wait_until_settled
from support.telegram_chats import TelegramChats, telegram_chats
from support.waiting import wait_for

MANY = 10_000
SET, SPENT = texts.chat_commands.goal_started(2, busy=False), texts.chat_commands.goal_budget_spent(2)
FAILED = texts.turns.failed("no credit")


def test_goals_and_long_queues(tmp_path: Path) -> None:
    """B78 B84."""
    settings = {"GOAL__MAX_TURNS": "2", "QUEUE__CAP": str(MANY), "QUEUE__QUIET": "200ms"}
    with telegram_chats(tmp_path, "spends reaches fails stops first two many", **settings) as chats:
        _goals_go_on_after_a_turn_that_completed(chats)
        _one_runs_and_the_others_wait(chats)


def _goals_go_on_after_a_turn_that_completed(chats: TelegramChats) -> None:
    for who in ("stops", "first"):
        chats.write(who, f"/goal {chats.blocking_action(who)}\nsay: round of {who}")
    chats.write("spends", "/goal once dig 0s\nsay: dug")
    chats.write("reaches", "/goal once rake 0s\nsay: GOAL REACHED")
    chats.write("fails", "/goal fail: no credit")
    chats.wait_for_texts("spends", SET, "dug", "dug", SPENT)
    chats.wait_for_texts("reaches", SET, "GOAL REACHED")
    chats.wait_for_texts("fails", SET, FAILED)
    chats.wait_until_blocked("stops", "first")
    chats.write("stops", "/stop")
    chats.wait_for_texts("stops", SET, "Stopped.")
    chats.write("first", "say: a person goes first")
    wait_until_confirmed(chats.telegram)
    chats.write("fails", "say: here is some")  # the next turn that completes continues it
    chats.wait_for_texts("fails", SET, FAILED, "here is some", FAILED)
    chats.release_file.touch()
    chats.wait_for_texts("first", SET, "round of first", "a person goes first", "round of first", SPENT)
    wait_until_settled(chats.process)
    ended = {"spends": 2, "reaches": 1, "first": 3}
    assert {who: chats.turn_states(who) for who in ended} == {
        who: ["done"] * count for who, count in ended.items()
    }
    assert chats.turn_states("fails") == ["failed", "done", "failed"]
    assert (chats.turn_states("stops"), chats.texts("stops")) == (["cancelled"], [SET, "Stopped."])
    assert chats.texts("reaches") == [SET, "GOAL REACHED"]


def _one_runs_and_the_others_wait(chats: TelegramChats) -> None:
    """B78: two at once, and ten thousand, which are heard in one turn, each once and in order."""
    chats.release_file.unlink()
    chats.write("many", "/queue collect")
    chats.wait_for_texts("many", texts.turns.queue_mode_changed("collect"))
    chats.start_blocking_turns("many", "two")
    chats.write("two", "say: first")
    chats.write("two", "say: second")
    for number in range(MANY):
        chats.write("many", f"say: {number}")
    wait_for("all are taken in", lambda: not chats.telegram.state.updates, 120)
    waiting = "SELECT count(*) FROM inbox WHERE state = 'waiting' GROUP BY key ORDER BY 1"
    assert query_database(chats.process, waiting) == [(2,), (MANY,)]
    assert chats.turn_states("many") + chats.turn_states("two") == ["running", "running"]
    chats.write("many", "say: one too many")
    chats.wait_for_last_text("many", texts.turns.queue_full(MANY))
    chats.release_file.touch()
    chats.wait_for_texts("two", "two is done", "first", "second")
    wait_for("the last of them is answered", lambda: chats.texts("many")[-1].endswith(f"\n{MANY - 1}"), 60)
    _, _, done, *parts = chats.texts("many")
    assert done == "many is done"
    assert "\n".join(parts).split("\n") == [str(number) for number in range(MANY)]
    assert chats.turn_states("many") == ["done", "done"]


def test_silence(tmp_path: Path) -> None:
    """B83."""
    silent = {"TURN__INACTIVITY_WARNING": "1s", "TURN__INACTIVITY_LIMIT": "5s", "NOTIFY__STILL_WORKING": "0"}
    words = " ".join(f"word{number}" for number in range(30))  # six seconds in all
    with telegram_chats(tmp_path, "hangs speaks asked", **silent) as chats:
        chats.write("asked", "ask: Which way? | Left | Right\nsay: Left it is")
        chats.wait_for_texts("asked", "Which way?\n(Left / Right)")
        chats.write("hangs", "step dig 600s\nsay: never")
        chats.write("speaks", f"stream: {words}")
        wait_for("it is warned of", lambda: chats.texts("hangs"))
        assert chats.texts("hangs")[0].startswith("Nothing has been heard of this work for")
        wait_for("it is ended", lambda: chats.texts("hangs")[1:])
        warned, ended = chats.texts("hangs")
        assert "/stop ends it now" in warned
        assert ended.startswith(texts.turns.failed("nothing was heard of the step step for"))
        chats.wait_for_texts("speaks", words)  # elapsed time alone ends nothing
        assert chats.turn_states("hangs") + chats.turn_states("speaks") == ["failed", "done"]
        chats.telegram.press("Left", chat=chats.telegram.person("asked"), sender="asked")
        chats.wait_for_last_text("asked", "Left it is")  # waiting for a person is not inactivity
        chats.write("hangs", "say: once more")
        chats.wait_for_last_text("hangs", "once more")

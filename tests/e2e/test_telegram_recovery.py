"""Starting again, in and out, and while a turn runs: each promise of these groups once over Telegram.

Drives `platforms/telegram` and `runtime/recovery`.

Two gateways serve many people; each of them is one row, and everybody is served at once. The other rows are in

| promise | where |
|---|---|
| B42, B43, B51, B56 | `test_telegram_rows_refusals.py`: what goes on by itself |
| B45, B47, B48, B52, B53 | `test_telegram_rows_crashes.py`: work that is cut off again and again |
| B78, B83, B84 | `test_telegram_rows_waiting.py`: long queues, silence, goals |
| B55 | `test_telegram.py`: a cut-off turn is resumed by a button |
| B70–B74 | `test_telegram_input.py`, `test_telegram_kill.py`, `test_telegram_store.py`, `..._webhook.py` |
| B75, B76 | `test_telegram.py`, `test_telegram_errors.py` |
| B79, B85 | `test_telegram.py` |
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from perdure.core import texts
from perdure.testing.telegram import SentMessage
from support.telegram import wait_until_settled
from support.telegram_chats import TelegramChats, telegram_chats
from support.waiting import wait_for


def test_starting_again(tmp_path: Path) -> None:
    """B40 B41 B44 B46 B49 B50 B54 B57 B63 B73 B77."""
    off = {"quiet": "off", "joins": "off"}
    with telegram_chats(tmp_path, "quiet joins cut stops asked ends late", off) as here:
        here.write("ends", "say: done before")
        here.write("asked", "ask: Which way? | Left | Right\nstep go 0s")
        here.start_blocking_turns("quiet", "cut", "joins", "stops")
        here.write("stops", "/stop")
        here.wait_for_texts("stops", "Stopped.")
        here.wait_for_texts("ends", "done before")
        wait_for("it is asked", lambda: here.texts("asked"))
        here.crash()
        here.write("cut", "say: the next")
        here.write("late", "say: written while down")
        here.process.start()
        here.wait_for_texts("late", "written while down")  # B50: nobody waits for those who are being recovered
        for who in ("quiet", "joins"):
            [told] = wait_for("B57", partial(here.texts, who))
            assert told.startswith("My work here was interrupted") and "/resume" in told
        here.telegram.press("Left", chat=here.telegram.person("asked"), sender="asked")  # B44: it was still open
        wait_for("the answer goes on", lambda: here.texts("asked")[1:])
        here.release_file.touch()
        # B41 B46 B49 B50: whether it came in before the turn went on or after, it is heard once, behind it.
        wait_for("both are answered", lambda: "\n".join(here.texts("cut")) == "cut is done\nthe next")
        here.write("joins", "say: and this too")
        wait_for("the message joined", lambda: "and this too" in "".join(here.texts("joins")))  # B49
        here.write("quiet", "/resume")
        wait_for("it goes on when asked", lambda: here.texts("quiet")[-1] == "quiet is done")
        wait_until_settled(here.process)
        assert here.texts("ends") == ["done before"]  # B40: no phantom
        assert here.texts("stops") == ["Stopped."]  # B54 B77
        one = {who: here.turn_states(who) for who in ("quiet", "joins", "asked", "ends", "late")}
        assert all(states == ["done"] for states in one.values()), one
        assert here.turn_states("stops") == ["cancelled"]
        ran = (here.process.home / "rehearsal.log").read_text()
        assert all(ran.count(who) == 1 for who in ("quiet", "cut", "joins", "stops")), "no step is run twice"


def test_while_a_turn_runs(tmp_path: Path) -> None:
    """B76 B77 B80 B81 B82 B86."""
    people = "waits steers interrupts collects grows stops"
    with telegram_chats(tmp_path, people, NOTIFY__STILL_WORKING="1s", QUEUE__QUIET="200ms") as here:
        for who, mode in (("steers", "steer"), ("interrupts", "interrupt"), ("collects", "collect")):
            here.write(who, f"/queue {mode}")
            here.wait_for_texts(who, texts.turns.queue_mode_changed(mode))
        here.start_blocking_turns("waits", "steers", "interrupts", "collects", "stops")
        here.write("grows", f"stream: {' '.join(f'word{number}' for number in range(200))}")
        for who in ("waits", "steers", "interrupts", "collects"):
            here.write(who, "say: first")
            here.write(who, "say: second")
        here.write("waits", "/nonsense")
        here.write("waits", "/background say: beside it")
        here.write("stops", "/stop")
        wait_for("B81", lambda: any(text.startswith("There is no command") for text in here.texts("waits")))
        wait_for("B86", lambda: any("beside it" in text for text in here.texts("waits")))
        wait_for("B82", lambda: any(sent.before for sent in _notices(here, "waits")))
        wait_for("B76", lambda: here.texts("grows"))
        here.write("grows", "/stop")
        wait_for("its preview says so", lambda: texts.delivery.PREVIEW_UNFINISHED in here.texts("grows"))
        wait_for("B80", lambda: "second" in here.texts("interrupts")[-1])
        here.release_file.touch()
        wait_for("both waited", lambda: here.texts("waits")[-1] == "second")
        wait_for("they joined", lambda: "second" in here.texts("steers")[-1])
        wait_for("they are one", lambda: "second" in here.texts("collects")[-1])
        wait_until_settled(here.process)
        assert here.texts("waits")[-3:] == ["waits is done", "first", "second"]
        assert len(_notices(here, "waits")) == 1, "one notice, edited in place"
        assert here.turn_states("waits") == ["done", "done", "done"]
        assert here.turn_states("steers") == ["done"]
        assert here.turn_states("collects") == ["done", "done"]

        assert here.turn_states("interrupts")[0] == "cancelled"
        assert [text for text in here.texts("stops") if "still working" not in text] == ["Stopped."]  # B77


def _notices(here: TelegramChats, who: str) -> list[SentMessage]:
    return [sent for sent in here.telegram.seen(here.telegram.person(who)) if "still working" in sent.text]

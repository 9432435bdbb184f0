"""What may go on by itself, and how much of it at once: each of these promises once over Telegram.

Drives `platforms/telegram` and `runtime/recovery`.

Five gateways follow one another, each with settings of its own; each person is one case.
"""

from __future__ import annotations

import json
from pathlib import Path

from perdure.core import texts
from support.telegram import query_database, wait_until_settled
from support.telegram_chats import TelegramChats, telegram_chats
from support.waiting import wait_for

HELD = ["h1", "h2", "h3", "h4", "h5", "h6"]  # they wait for a command that outlives every gateway
OTHERS = ["offed", "asks", "costly", "grows", "again", "new"]
PEOPLE = " ".join(HELD + OTHERS)
AWAY = "solar aside"  # they may not talk to the second gateway and those behind it, and move to another home
MARKED = {"offed": "off", "asks": "ask"}
OFF = texts.recovery.not_resumed("automatic resume is switched off here")
COSTLY = texts.recovery.not_resumed("its cost limit is reached: 22 of 20 tokens")
TOO_OLD = texts.recovery.not_resumed("it is too old").partition(".")[0]
TEN_STEPS = [f"step s{number} 0s" for number in range(10)]  # the model asks two tokens for each
QUIET = {"PLATFORMS__TELEGRAM__BANNER": "false"}  # the gateway ends in the middle of everything, again and again


def test_what_goes_on_by_itself(tmp_path: Path) -> None:
    """B42 B43 B47 B52 B56 B58."""
    with telegram_chats(tmp_path, f"{PEOPLE} {AWAY}") as chats:
        _begin_everything(chats)
        chats.crash()
        _moved(chats, tmp_path / "elsewhere.json")
        chats.start(
            PEOPLE,
            MARKED,
            RECOVERY__FRESHNESS="0",
            RECOVERY__MAX_TOKENS="20",
            RECOVERY__CONCURRENCY="10",
            DRAIN__DEADLINE="0s",
            **QUIET,
        )
        _each_refusal_is_recorded_and_told(chats)
        assert chats.process.stop() == 0
        chats.start(PEOPLE, MARKED, RECOVERY__FRESHNESS="1ms", RECOVERY__MAX_WITHOUT_PROGRESS="2", **QUIET)
        _old_work_stays_old(chats)
        _turns_that_wait_for_a_command_take_no_slot(chats)
        assert chats.process.stop() == 0
        _nobody_is_told_without_an_address(chats)
        assert chats.process.stop() == 0
        _unknown_reasons_and_suspended_sessions_are_skipped(chats, tmp_path / "elsewhere.json")


def _begin_everything(chats: TelegramChats) -> None:
    for who in ("solar", "aside", "offed", "asks"):
        chats.write(who, f"once {who} 600s\nsay: {who} is done")
    chats.write("costly", "\n".join([*TEN_STEPS, "once dear 600s", "say: costly is done"]))
    chats.write("grows", "\n".join(["once grows 600s", *TEN_STEPS, "say: never"]))
    chats.write("again", "step again 600s")
    chats.start_blocking_turns(*HELD)
    steps = ("solar", "aside", "offed", "asks", "dear", "grows", "again")
    wait_for("all of them run", lambda: all(_ran(chats, step) == 1 for step in steps))


def _ran(chats: TelegramChats, step: str) -> int:
    """How often a step was begun."""
    return (chats.process.home / "rehearsal.log").read_text().split().count(step)


def _each_refusal_is_recorded_and_told(chats: TelegramChats) -> None:
    chats.wait_for_texts("offed", OFF)
    chats.wait_for_texts("costly", COSTLY)  # B56: before it went on
    chats.wait_for_texts("grows", texts.turns.failed(texts.turns.recovery_tokens_spent(20, 20)))  # B56: on its way
    chats.wait_for_texts("asks", texts.recovery.ask_to_resume("restart_interrupted"))
    chats.wait_for_rule("solar", "unauthorised")
    chats.wait_for_rule("aside", "unauthorised")
    wait_for("all others go on, however many they are", lambda: _states(chats, HELD) == {"running": 6})
    wait_for("they are told of it", lambda: all(chats.journal_entries(who, "noted") for who in HELD))
    wait_for("the step is run again", lambda: _ran(chats, "again") == 2)
    assert "the sender is no longer authorised" in chats.run_perdure("why", chats.key("solar"))
    assert "automatic resume is switched off here" in chats.command_reply("offed", "/why")
    assert "its cost limit is reached: 22 of 20 tokens" in chats.command_reply("costly", "/why")
    assert "the policy here is to ask first" in chats.command_reply("asks", "/why")
    assert "has used 20 tokens" in chats.command_reply("grows", "/why")
    assert chats.texts("solar") + chats.texts("aside") == []
    wait_until_settled(chats.process)


def _states(chats: TelegramChats, people: list[str]) -> dict[str, int]:
    states = [chats.turn_states(who)[-1] for who in people]
    return {state: states.count(state) for state in states}


def _old_work_stays_old(chats: TelegramChats) -> None:
    """B43: neither a restart, nor a fresh mark, nor an attempt that added nothing is a sign of life."""
    chats.wait_for_rule("again", "stale")
    wait_for("it is told", lambda: chats.texts("again"))
    assert chats.texts("again")[0].startswith(TOO_OLD)
    assert chats.interruption_reasons("again") == ["restart_interrupted", "shutdown_timeout"]
    _, second, third = query_database(chats.process, "SELECT started_at FROM runs ORDER BY id")
    age = chats.journal_entries("again", "decided")[-1]["evidence"]["age_ms"]
    assert age >= third[0] - second[0], "all of the second run is part of its age"
    assert "it is too old" in chats.command_reply("again", "/why")


def _turns_that_wait_for_a_command_take_no_slot(chats: TelegramChats) -> None:
    """B43 B52 B58: a command that is attached and alive is fresh, whatever the limit, and counts as progress."""
    wait_for("all six go on", lambda: _states(chats, HELD) == {"running": 6})
    chats.write("new", "say: at once")
    chats.wait_for_texts("new", "at once")
    assert _states(chats, HELD) == {"running": 6}
    chats.release_file.touch()
    for who in HELD:
        chats.wait_for_texts(who, f"{who} is done")
        crashed, stopped = chats.journal_entries(who, "noted")
        assert "a gateway interruption" in crashed["text"]
        assert "a gateway shutdown" in stopped["text"]  # B47
    wait_until_settled(chats.process)


def _nobody_is_told_without_an_address(chats: TelegramChats) -> None:
    """Telegram is no longer one of this gateway's platforms."""
    before = [chats.texts(who) for who in OTHERS]
    chats.start(PEOPLE, PLATFORMS__TELEGRAM__ENABLED="false", **QUIET)
    chats.wait_for_rule("again", "no_address")
    assert "there is no address to answer to" in chats.run_perdure("why", chats.key("again"))
    assert before == [chats.texts(who) for who in OTHERS]


def _moved(chats: TelegramChats, file: Path) -> None:
    """Export those who move away, with marks of another program."""
    chats.run_perdure("export", "--output", str(file))
    exported = json.loads(file.read_text())
    marks = {
        chats.key("solar"): {"resume_pending": True, "resume_reason": "solar_flare"},
        chats.key("aside"): {"resume_pending": True, "resume_reason": "restart_timeout", "state": "suspended"},
    }
    exported["sessions"] = [one | marks[one["key"]] for one in exported["sessions"] if one["key"] in marks]
    file.write_text(json.dumps(exported))


def _unknown_reasons_and_suspended_sessions_are_skipped(chats: TelegramChats, file: Path) -> None:
    chats.process.home = file.with_suffix("")
    chats.run_perdure("import", str(file))
    chats.start(AWAY)
    chats.wait_for_rule("solar", "reason")
    chats.wait_for_rule("aside", "not_open")
    wait_for("it is told", lambda: chats.texts("solar"))
    assert "solar_flare" in chats.command_reply("solar", "/why")
    assert "the session is suspended" in chats.command_reply("aside", "/why")
    chats.write("solar", "/resume")
    chats.wait_for_last_text("solar", "solar is done")  # a person may still let it go on
    assert len(chats.texts("aside")) == 1, "nothing but what was asked for"

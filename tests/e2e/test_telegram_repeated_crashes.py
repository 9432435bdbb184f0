"""Work that is cut off again and again, and what its model is told: each of these promises once over Telegram.

Drives `platforms/telegram` and `core/recovery/decision`.

Five gateways follow one another: the first is restarted, the others are killed. Each person is one case.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from perdure.core import texts
from support.step_control import StepControl
from support.telegram import wait_until_settled
from support.telegram_chats import TelegramChats, telegram_chats
from support.waiting import wait_for

FINAL = {"stop": "STOP", "ends": "end_turn", "completes": "completed"}  # who hears which finish
CUT_OFF = {"long": "length", "errs": "error", "nothing": "none"}
PEOPLE = "owner mixed often restarted bad good killed replaced joins plans unanswered wordless new " + " ".join(
    [*FINAL, *CUT_OFF]
)
SETTINGS = {
    "AGENT__ENTRYPOINT": "step_control:agent",
    "DRAIN__DEADLINE": "0s",
    "PLATFORMS__TELEGRAM__BANNER": "false",
    "GOAL__MAX_TURNS": "2",
    "RECOVERY__CONCURRENCY": "20",
    "RECOVERY__MAX_INTERRUPTIONS": "3",
}
FAILED = texts.turns.failed("no credit")
THREE_TIMES = texts.recovery.suspended("it was interrupted 3 times in a row without progress")
TOO_OFTEN = texts.recovery.suspended("it was interrupted 3 times in all")
PAUSED = texts.recovery.not_resumed("automatic resume is paused: the gateway keeps crashing")
SHOWN = texts.recovery.RESUME_PAUSED.replace("`", "")  # Telegram shows code as such


def test_work_that_is_cut_off_again_and_again(tmp_path: Path) -> None:
    """B45 B47 B48 B52 B53 B84."""
    control = StepControl(tmp_path / "home")
    control.install()
    control.block("mixed", "often1", "restarted", "bad", "good", "killed", "replaced", "joins", "plans")
    with telegram_chats(tmp_path, PEOPLE, {"joins": "off", "plans": "off"}, **SETTINGS) as chats:
        _restart(chats, control)
        _crash_in_everything(chats, control)
        _model_is_told_of_it_once(chats, control)
        _final_answers_are_delivered_and_others_asked_for_again(chats)
        _goal_goes_on_when_its_turn_has_completed(chats)
        _crash_once_more(chats, control)
        _what_gets_nowhere_is_set_aside(chats, control)
        alone, neighbour = _crash_with_one_alone(chats, control)
        _only_who_was_alone_pays_and_all_others_pause(chats, control, alone, neighbour)
        words = [text for request in control.requests() for text in request["words"]]
        assert all(text.strip() for text in words), "B48"
        assert words.count(texts.files.message_without_text("photo.jpg")) > 1


def _runs(control: StepControl, **times: int) -> None:
    """Wait until each of these steps was run so many times: the last run hangs."""
    wait_for(
        f"they ran {times}", lambda: all(control.run_count(step) == count for step, count in times.items()), 60
    )


def _told(reason: str, step: str, *, finished: bool = False, joined: bool = False) -> str:
    again = f"step(name={step!r}, seconds=0.0) was cut off and is run again."
    return texts.recovery.note_resumed(reason, [again], finished=finished, joined=joined)


def _restart(chats: TelegramChats, control: StepControl) -> None:
    """The model is told of the restart, and of nothing else."""
    chats.write("mixed", "step mixed\nsay: mixed is done")
    chats.write("often", "step often1\nstep often2\nstep often3\nsay: often is done")
    chats.write("restarted", "step a\nstep restarted\nsay: restarted is done")
    _runs(control, mixed=1, often1=1, restarted=1)
    chats.write("owner", "/restart")
    assert chats.process.wait() == 75
    control.block("often2")
    control.release("restarted", "often1")
    chats.process.start()
    chats.wait_for_texts("restarted", "restarted is done")
    chats.wait_for_last_text("owner", texts.recovery.BACK)
    told = _told("restart_timeout", "restarted", finished=True)
    assert "a gateway restart" in told
    assert control.notes("step a\nstep restarted") == [[], [], [told]]
    _runs(control, mixed=2, often2=1)


def _crash_in_everything(chats: TelegramChats, control: StepControl) -> None:
    for who in ("bad", "good", "joins"):
        chats.write(who, f"step {who}\nsay: {who} is done")
    chats.write("killed", "step a\nstep killed\nstep c\nsay: killed is done")
    chats.write("replaced", "step lost\nfail: no credit")
    chats.write("replaced", "step replaced\nsay: replaced is done")
    chats.write("plans", "/goal step plans\nsay: planned")
    for text in ("step x\nfail: no credit", "say: two", "say: three"):
        chats.write("unanswered", text)
    chats.telegram.share("photo", "cat.jpg", sender="wordless")
    for who, word in (FINAL | CUT_OFF).items():
        chats.write(who, f"finish: {word}")
    _runs(control, bad=1, good=1, joins=1, killed=1, replaced=1, plans=1)
    chats.wait_for_texts("unanswered", FAILED, "two", "three")
    wait_for("the picture is answered", lambda: chats.texts("wordless"))
    responses = partial(map, partial(chats.journal_entries, kind="model_answered"), FINAL | CUT_OFF)
    wait_for("each has a response", lambda: all(responses()))
    chats.crash()
    control.block("often3")
    control.release("killed", "replaced", "joins", "plans", "often2")
    chats.process.start()


def _model_is_told_of_it_once(chats: TelegramChats, control: StepControl) -> None:
    """B47: in the place of the note about results, not in the user's words, and not in later turns."""
    chats.wait_for_texts("killed", "killed is done")
    chats.write("killed", "say: next")
    chats.wait_for_texts("killed", "killed is done", "next")
    told, unanswered = (
        _told("restart_interrupted", "killed", finished=True),
        [texts.recovery.UNANSWERED_RESULTS],
    )
    assert "a gateway interruption" in told
    # Asked for a, for the one that was killed, then for c, for the end, and in the next turn.
    assert control.notes("step a\nstep killed") == [[], [], [told], [told], []]
    script = "step a\nstep killed\nstep c\nsay: killed is done"
    assert control.requests(script)[-1]["words"] == [script, "say: next"]
    chats.wait_for_texts("replaced", FAILED, "replaced is done")
    instead = [_told("restart_interrupted", "replaced")]
    assert control.notes("step lost") == [[], [], unanswered, instead]
    assert control.notes("step x") == [[], [], unanswered, []], "B47: nothing was cut off"
    wait_for("it does not go on by itself", lambda: chats.texts("joins"))
    chats.telegram.share("photo", "dog.jpg", sender="joins")
    wait_for("the picture joins", lambda: chats.texts("joins")[-1].startswith("joins is done\n"))
    assert control.notes("step joins") == [[], [_told("restart_interrupted", "joins", joined=True)]]


def _final_answers_are_delivered_and_others_asked_for_again(chats: TelegramChats) -> None:
    """B45."""
    for who in FINAL:
        chats.wait_for_texts(who, "the answer")
        assert chats.decided_rules(who) == ["final_answer"]
    for who in CUT_OFF:
        chats.wait_for_texts(who, "asked again")
        assert chats.decided_rules(who) == ["resume"]


def _goal_goes_on_when_its_turn_has_completed(chats: TelegramChats) -> None:
    """B84: and not while it is interrupted."""
    told = [
        texts.chat_commands.goal_started(2, busy=False),
        texts.recovery.not_resumed("automatic resume is switched off here"),
    ]
    chats.wait_for_texts("plans", *told)
    chats.write("plans", "/resume")
    chats.wait_for_texts(
        "plans",
        *told,
        texts.chat_commands.RESUME_ANSWERS["turn"],
        "planned",
        "planned",
        texts.chat_commands.goal_budget_spent(2),
    )
    assert chats.turn_states("plans") == ["done", "done"]


def _crash_once_more(chats: TelegramChats, control: StepControl) -> None:
    _runs(control, mixed=3, often3=1, bad=2, good=2)
    chats.crash()
    chats.process.start()


def _what_gets_nowhere_is_set_aside(chats: TelegramChats, control: StepControl) -> None:
    """B52: by a mix of restart and crash, or too often in all; /resume brings it back. B48: without a word."""
    chats.wait_for_texts("mixed", THREE_TIMES)
    chats.wait_for_texts("often", TOO_OFTEN)
    for who in ("mixed", "often"):
        assert chats.interruption_reasons(who) == ["restart_timeout", "restart_interrupted", "restart_interrupted"]
    control.release("mixed")
    chats.write("mixed", "/resume")
    chats.wait_for_texts("mixed", THREE_TIMES, texts.chat_commands.RESUME_ANSWERS["session"], "mixed is done")


def _crash_with_one_alone(chats: TelegramChats, control: StepControl) -> tuple[str, str]:
    """B52: after two unclean starts in a row recoveries run one at a time; who ran, and who did not."""
    wait_for("one of them runs", lambda: control.run_count("bad") + control.run_count("good") == 5)
    chats.write("new", "say: at once")
    chats.wait_for_texts("new", "at once")
    states = {chats.turn_states(who)[-1]: who for who in ("bad", "good")}
    assert sorted(states) == ["interrupted", "running"]
    chats.crash()
    chats.process.start()
    return states["running"], states["interrupted"]


def _only_who_was_alone_pays_and_all_others_pause(
    chats: TelegramChats, control: StepControl, alone: str, neighbour: str
) -> None:
    """B52 B53: after the third unclean start; everybody else is served, and one command lifts it."""
    chats.wait_for_texts(alone, THREE_TIMES)
    chats.wait_for_texts(neighbour, PAUSED)
    assert (len(chats.interruption_reasons(alone)), len(chats.interruption_reasons(neighbour))) == (3, 2)
    chats.write("new", "say: all the same")
    chats.wait_for_last_text("new", "all the same")
    assert SHOWN in chats.command_reply("new", "/status")
    assert texts.recovery.RESUME_PAUSED in chats.run_perdure("status")
    control.release(neighbour)
    assert chats.run_perdure("resume", "--all") == "Automatic resume goes on."
    chats.wait_for_texts(neighbour, PAUSED, f"{neighbour} is done")
    assert SHOWN not in chats.command_reply("new", "/status")
    wait_until_settled(chats.process)
    assert chats.turn_states(neighbour) == ["done"]
    assert chats.texts(alone) == [THREE_TIMES]

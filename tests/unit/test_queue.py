"""The queue's decisions: what ends a turn, what goes together, and when that begins.

Drives `core/queue`.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from perdure.core import texts
from perdure.core.queue import (
    QUEUE_MODE_NAMES,
    QueueMode,
    QueueRules,
    WaitingMessage,
    interrupts_turn,
    is_due,
    messages_of_next_turn,
    needs_quiet,
)
from perdure.core.states import TurnState


def waiting(*words: str) -> list[WaitingMessage]:
    """Messages by their manners, with the name of an album behind a slash."""
    found = []
    for number, word in enumerate(words):
        manner, _, album = word.partition("/")
        given: QueueMode | None = next((mode for mode in QUEUE_MODE_NAMES if mode == manner), None)
        found.append(WaitingMessage(str(number), given, album or None, received_at=1000 + number))
    return found


@pytest.mark.parametrize("mode", [*QUEUE_MODE_NAMES, None])
@pytest.mark.parametrize("state", TurnState)
def test_only_what_interrupts_ends_a_turn_and_only_one_that_runs(mode: QueueMode | None, state: TurnState) -> None:
    """B80, B49: one that waits for a person, or was cut off, takes the message in."""
    assert interrupts_turn(mode, state) == (mode == "interrupt" and state in ("queued", "running"))


@pytest.mark.parametrize(
    ("words", "turn"),
    [
        (["queue", "queue"], "0"),
        (["none", "none"], "0"),
        (["steer", "steer"], "0"),
        (["collect", "collect", "collect"], "012"),
        (["collect", "queue", "collect"], "0"),
        (["queue", "collect", "collect"], "0"),
        (["interrupt", "interrupt"], "01"),
        (["interrupt", "collect"], "0"),
        (["queue/x", "queue/x", "queue/y"], "01"),
        (["queue/x", "queue", "steer/x"], "02"),
        (["collect/x", "collect", "queue/x", "collect"], "012"),
        (["collect", "collect/x", "collect/x"], "012"),
        (["none/x", "none/x"], "01"),
    ],
)
def test_messages_that_belong_together_make_up_one_turn(words: list[str], turn: str) -> None:
    assert "".join(each.id for each in messages_of_next_turn(waiting(*words))) == turn


@pytest.mark.parametrize(
    ("words", "turn"),
    [
        pytest.param(
            ["collect"] * 4, "01", id="what comes behind them waits too, or it would be read before them"
        ),
        pytest.param(["queue/x"] * 4, "013", id="of an album, they are left out"),
    ],
)
def test_b105_words_of_somebody_who_may_not_join_begin_the_next_turn(words: list[str], turn: str) -> None:
    messages = waiting(*words)
    messages[2] = replace(messages[2], may_join=False)
    assert "".join(each.id for each in messages_of_next_turn(messages)) == turn


@pytest.mark.parametrize("word", ["queue", "steer", "interrupt", "none"])
def test_turn_of_one_message_begins_at_once(word: str) -> None:
    assert is_due(waiting(word), 10**9, 1000)


@pytest.mark.parametrize("word", ["collect", "queue/x", "interrupt/x"])
def test_turn_of_several_begins_when_the_newest_is_old_enough(word: str) -> None:
    both = waiting(word, word)  # received at 1000 and 1001
    assert [is_due(both, 100, now) for now in (1001, 1100, 1101)] == [False, False, True]
    assert is_due(both, 100, 900), "a clock that was set back makes nobody wait"
    assert is_due(both, 0, 1001)


def test_quiet_is_needed_where_more_may_come() -> None:
    assert [mode for mode in QUEUE_MODE_NAMES if needs_quiet(mode, None)] == ["collect"]
    assert all(needs_quiet(mode, "x") for mode in QUEUE_MODE_NAMES)


def test_nothing_is_too_old_when_there_is_no_limit() -> None:
    assert QueueRules().too_old_before(10**13) == 0
    assert QueueRules(max_age_ms=1000).too_old_before(5000) == 4000


@pytest.mark.parametrize("mode", QUEUE_MODE_NAMES)
def test_mode_is_told_with_what_it_means_and_how_to_switch_it(mode: QueueMode) -> None:
    told = texts.turns.queue_status(mode, 2)
    assert texts.turns.QUEUE_MODES[mode] in told
    assert "2 messages wait." in told
    assert all(f"/queue {other}" in told for other in QUEUE_MODE_NAMES if other != mode)
    assert "Nothing waits." in texts.turns.queue_status(mode, 0)
    assert "1 message waits." in texts.turns.queue_status(mode, 1)


def test_words_that_need_not_wait_are_not_confirmed() -> None:
    assert texts.turns.message_queued(busy=False, before=0) == texts.turns.message_steered(busy=False) == ""
    assert (
        texts.turns.message_queued(busy=True, before=2) == "That waits for a turn of its own, behind 2 messages."
    )

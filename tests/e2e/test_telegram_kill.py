"""Real kills of a gateway on Telegram, between an update and the receipt of its answer.

Drives `platforms/telegram/updates` and `runtime/recovery`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Struct

from perdure.core import texts
from perdure.testing.telegram import Fault, LocalTelegram
from support.gateway import GatewayProcess
from support.telegram import (
    query_database,
    telegram_gateway,
    wait_for_texts,
    wait_until_confirmed,
    wait_until_settled,
)
from support.waiting import wait_for

SCRIPT = "once invoice 0s\nsay: done"
LONGER = "once invoice 2s\nsay: done"  # so long that people see the bot type
MARKED = texts.delivery.maybe_duplicate("done")


class Point(Struct, frozen=True):
    """Where to kill: in a call, before or after its effect, and what the chat sees in the end."""

    method: str
    effect: bool
    seen: list[str]
    calls: int = 1  # how many calls of the method go well before


@pytest.fixture
def telegram() -> Iterator[LocalTelegram]:
    with LocalTelegram() as running:
        yield running


POINTS = [
    pytest.param(Point("getUpdates", True, ["done"]), id="the update is on its way to us"),
    pytest.param(Point("getUpdates", False, ["done"], 2), id="the update is stored and not confirmed"),
    pytest.param(Point("sendChatAction", False, ["done"]), id="the bot types"),
    pytest.param(Point("sendMessage", False, [MARKED]), id="the answer has not arrived"),
    pytest.param(Point("sendMessage", True, ["done", MARKED]), id="the answer has arrived and its receipt not"),
]


@pytest.mark.parametrize("point", POINTS)
def test_b40_b70_b74_nothing_is_lost_or_begun_twice_when_killed(
    tmp_path: Path, telegram: LocalTelegram, point: Point
) -> None:
    fault = Fault(hold=True, effect=point.effect)
    with telegram_gateway(tmp_path / "home", telegram) as process:
        wait_for("it polls", lambda: telegram.count("getUpdates"))
        if point.method == "getUpdates" and point.calls == 1:
            # The poll under way ends with nothing, so that the next one meets the fault.
            process.kill()
            telegram.befall(point.method, fault)
            telegram.write(LONGER if point.method == "sendChatAction" else SCRIPT)
            process.start()
        else:
            telegram.befall(point.method, fault)
            telegram.write(LONGER if point.method == "sendChatAction" else SCRIPT)
        assert fault.reached.wait(30), "the point was reached"
        if point.method == "sendChatAction":
            wait_for("it is answered all the same", lambda: telegram.texts())
            wait_until_settled(process)
        process.kill()
        process.start()
        wait_for_texts(telegram, *point.seen)
        wait_until_confirmed(telegram)
        _acted_once(process)


def _acted_once(process: GatewayProcess) -> None:
    """One update, one turn, one effect."""
    assert len(query_database(process, "SELECT id FROM inbox WHERE kind = 'message'")) == 1
    assert [state for (state,) in query_database(process, "SELECT state FROM turns")] == ["done"]
    assert (process.home / "rehearsal.log").read_text().count("invoice") == 1


def test_b72_messages_written_while_down_are_answered_in_order(tmp_path: Path, telegram: LocalTelegram) -> None:
    with telegram_gateway(tmp_path / "home", telegram) as process:
        wait_for("it polls", lambda: telegram.count("getUpdates"))
        process.kill()
        texts = [f"message {number}" for number in range(150)]  # more than one poll gives
        for text in texts:
            telegram.write(f"say: {text}")
        process.start()
        # The queue of a chat holds a hundred; the others are told so, and none is lost without a word.
        wait_for("the first hundred are answered", lambda: texts[99] in telegram.texts(), 120)
        wait_until_confirmed(telegram)
        answered = [text for text in telegram.texts() if text.startswith("message ")]
    assert answered == [text for text in texts if text in answered]
    assert len(set(answered)) == len(answered)


def test_b73_answer_is_sent_after_a_kill_while_telegram_was_down(tmp_path: Path, telegram: LocalTelegram) -> None:
    with telegram_gateway(tmp_path / "home", telegram) as process:
        held = telegram.befall("sendMessage", Fault(cut=True))
        telegram.write("step slow 1s\nsay: kept")
        wait_for("the answer met a cut line", held.reached.is_set)
        process.kill()
        process.start()
        wait_for_texts(telegram, texts.delivery.maybe_duplicate("kept"))

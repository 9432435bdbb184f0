"""What a bad message, or a bad server, gets: it is stored as rejected or refused, and nobody else is delayed.

Drives `platforms/telegram/updates` and `runtime/intake`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.core import texts
from perdure.testing.telegram import Fault, LocalTelegram
from support.telegram import query_database, telegram_gateway, wait_for_texts, wait_until_confirmed
from support.waiting import wait_for

REJECTED = "SELECT raw, problem FROM inbox WHERE state = 'rejected' ORDER BY received_at, id"


@pytest.fixture
def telegram() -> Iterator[LocalTelegram]:
    with LocalTelegram() as running:
        yield running


def test_b70_update_that_makes_no_sense_is_kept_and_confirmed(tmp_path: Path, telegram: LocalTelegram) -> None:
    with telegram_gateway(tmp_path / "home", telegram) as process:
        telegram.happen({"message": {"message_id": "seven", "chat": []}})
        telegram.happen({"message": "half a character: \ud800"})
        telegram.share("sticker", "wave.webp")
        telegram.state.allowed = None
        telegram.happen({"brand_new_kind": {"surprise": 1}})
        telegram.write("say: still here")
        wait_for_texts(telegram, "still here")
        wait_until_confirmed(telegram)
        kept = query_database(
            process, "SELECT raw, problem FROM inbox WHERE state = 'rejected' ORDER BY received_at, id"
        )
    assert len(kept) == 4
    assert any('"seven"' in raw for raw, _ in kept)


def test_b70_update_without_a_number_is_kept_once_and_others_are_served(
    tmp_path: Path, telegram: LocalTelegram
) -> None:
    said = {"message_id": 1, "chat": {"id": telegram.ann, "type": "private"}, "text": "say: broken"}
    broken = [
        {"message": said},
        {"update_id": "six", "message": said},
        {"update_id": -7, "message": said},
        5,
        None,
    ]
    with telegram_gateway(tmp_path / "home", telegram) as process:
        with telegram.lock:
            telegram.state.updates.extend(broken)  # type: ignore[arg-type]
        telegram.write("say: fine")
        wait_for_texts(telegram, "fine")
        kept = query_database(process, REJECTED)
        assert len(kept) == len(broken)
        assert {problem for _, problem in kept} == {texts.platforms.UPDATE_WITHOUT_ID}
        with telegram.lock:
            telegram.state.updates[:] = broken  # type: ignore[assignment]
        polls = telegram.count("getUpdates")
        telegram.state.add_update({"brand_new_kind": {}})
        wait_for("it has been given nothing else", lambda: telegram.count("getUpdates") > polls + 1)
        assert len(query_database(process, REJECTED)) == len(broken), "each is kept once"
        with telegram.lock:
            telegram.state.updates.clear()
        telegram.write("say: still fine")
        wait_for_texts(telegram, "fine", "still fine")


def test_answer_that_holds_no_updates_is_told_and_asked_for_again(tmp_path: Path, telegram: LocalTelegram) -> None:
    for result in (b"7", b'{"a": 1}', b'"x"', b"[" * 100_000):
        telegram.befall("getUpdates", Fault(page=(200, b'{"ok": true, "result": ' + result + b"}")))
    with telegram_gateway(tmp_path / "home", telegram):
        telegram.write("say: at last")
        wait_for("it is answered", lambda: telegram.texts() == ["at last"], 60)


def test_b70_message_of_ten_megabytes_is_refused_and_nobody_waits_for_it(
    tmp_path: Path, telegram: LocalTelegram
) -> None:
    with telegram_gateway(tmp_path / "home", telegram) as process:
        telegram.write("say: " + "x" * 10_000_000)
        telegram.write("say: small")
        wait_for_texts(telegram, "small")
        wait_until_confirmed(telegram)
        [(raw, problem)] = query_database(process, REJECTED)
    assert "bytes is not taken" in problem
    assert len(raw) == 10_000, "enough of it is kept to see what it was"


def test_long_message_is_taken_whole(tmp_path: Path, telegram: LocalTelegram) -> None:
    long = "\N{GRINNING FACE}" * 4096
    with telegram_gateway(tmp_path / "home", telegram) as process:
        telegram.write(f"say: {long}")
        wait_for("it is answered", lambda: "".join(telegram.texts()) == long)
        assert query_database(process, REJECTED) == []


def test_flood_of_one_person_delays_nobody_else(tmp_path: Path, telegram: LocalTelegram) -> None:
    """Beyond the cap they are told once; strangers leave no more than the newest on record."""
    bob, people = telegram.person("bob"), f"{telegram.ann},{telegram.person('bob')}"
    with telegram_gateway(tmp_path / "home", telegram, PLATFORMS__TELEGRAM__ALLOW=people) as process:
        for number in range(300):
            telegram.write("step slow 60s" if number == 0 else f"say: {number}", sender="bob")
            telegram.write("say: let me in", sender="eve")
        telegram.write("say: hello")
        wait_for_texts(telegram, "hello")
        wait_until_confirmed(telegram)
        assert telegram.texts(bob) == [texts.turns.queue_full(100)]
        assert len(telegram.texts(telegram.person("eve"))) <= 3, "a stranger is told a code, and not each time"
        assert telegram.count("answerCallbackQuery") == 0
        assert len(query_database(process, "SELECT id FROM inbox WHERE state = 'waiting'")) == 100

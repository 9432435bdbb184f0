"""Wrong tokens: who has to wait, and for how long."""

from __future__ import annotations

from perdure.console.tries import CROWD, FORGIVEN, FREE, LONGEST, MINUTE, MOST, Tries


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def guess(tries: Tries, count: int, client: str = "192.0.2.1") -> int:
    waits = [tries.failed(client, f"guess {number}") for number in range(count)]
    return waits[-1]


def test_client_waits_longer_each_time_when_it_goes_on_guessing() -> None:
    clock = Clock()
    tries = Tries(clock)
    assert guess(tries, FREE) == 0
    waits = []
    for number in range(12):
        waits.append(tries.failed("192.0.2.1", f"more {number}"))
        clock.now += waits[-1]
        assert tries.wait("192.0.2.1") == 0
    assert waits[:4] == [31, 61, 121, 241]
    assert waits[-1] == int(LONGEST) + 1


def test_nobody_else_waits_when_one_client_guesses() -> None:
    tries = Tries(Clock())
    assert guess(tries, FREE + 3) > 0
    assert tries.wait("192.0.2.2") == 0
    assert tries.failed("192.0.2.2", "a slip of the pen") == 0


def test_single_wrong_token_is_enough_when_everybody_guesses() -> None:
    clock = Clock()
    tries = Tries(clock)
    for number in range(CROWD):
        tries.failed(f"198.51.100.{number}", "guess")
    assert tries.wait("203.0.113.1") == 0, "whoever has guessed nothing is looked at"
    assert tries.failed("203.0.113.1", "guess") > 0
    clock.now += 2 * MINUTE
    assert tries.failed("203.0.113.2", "guess") == 0, "the crowd is gone"


def test_same_wrong_token_counts_once_when_a_program_repeats_it() -> None:
    tries = Tries(Clock())
    assert {tries.failed("192.0.2.1", "of last year") for _ in range(100)} == {0}
    assert guess(tries, FREE) > 0


def test_client_begins_afresh_when_it_has_the_token_or_was_quiet() -> None:
    clock = Clock()
    tries = Tries(clock)
    guess(tries, FREE)
    tries.succeeded("192.0.2.1")
    assert guess(tries, FREE) == 0
    clock.now += FORGIVEN + 1
    assert guess(tries, FREE) == 0


def test_network_counts_as_one_client_when_its_addresses_are_many() -> None:
    tries = Tries(Clock())
    for number in range(FREE + 1):
        tries.failed(f"2001:db8::{number}", f"guess {number}")
    assert tries.wait("2001:db8::ffff") > 0
    assert tries.wait("2001:db8:0:1::1") == 0


def test_memory_is_bounded_when_clients_are_without_end() -> None:
    tries = Tries(Clock())
    for number in range(MOST * 3):
        tries.failed(f"client {number}", "guess")
    assert len(tries._guessers) == MOST
    assert tries.wait(f"client {MOST * 3 - 1}") > 0

"""Wrong tokens: who has to wait, and for how long.

Drives `web/auth/throttle`.
"""

from __future__ import annotations

from perdure.web.auth.throttle import (
    FLOOD_SECONDS,
    FLOOD_WRONG_TOKENS,
    FORGET_AFTER_SECONDS,
    FREE_WRONG_TOKENS,
    MAX_CLIENTS,
    MAX_WAIT_SECONDS,
    LoginThrottle,
)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def guess(tries: LoginThrottle, count: int, client: str = "192.0.2.1") -> int:
    waits = [tries.record_failure(client, f"guess {number}") for number in range(count)]
    return waits[-1]


def test_client_waits_longer_each_time_when_it_goes_on_guessing() -> None:
    clock = Clock()
    tries = LoginThrottle(clock)
    assert guess(tries, FREE_WRONG_TOKENS) == 0
    waits = []
    for number in range(12):
        waits.append(tries.record_failure("192.0.2.1", f"more {number}"))
        clock.now += waits[-1]
        assert tries.seconds_to_wait("192.0.2.1") == 0
    assert waits[:4] == [31, 61, 121, 241]
    assert waits[-1] == int(MAX_WAIT_SECONDS) + 1


def test_nobody_else_waits_when_one_client_guesses() -> None:
    tries = LoginThrottle(Clock())
    assert guess(tries, FREE_WRONG_TOKENS + 3) > 0
    assert tries.seconds_to_wait("192.0.2.2") == 0
    assert tries.record_failure("192.0.2.2", "a slip of the pen") == 0


def test_single_wrong_token_is_enough_when_everybody_guesses() -> None:
    clock = Clock()
    tries = LoginThrottle(clock)
    for number in range(FLOOD_WRONG_TOKENS):
        tries.record_failure(f"198.51.100.{number}", "guess")
    assert tries.seconds_to_wait("203.0.113.1") == 0, "whoever has guessed nothing is looked at"
    assert tries.record_failure("203.0.113.1", "guess") > 0
    clock.now += 2 * FLOOD_SECONDS
    assert tries.record_failure("203.0.113.2", "guess") == 0, "the crowd is gone"


def test_same_wrong_token_counts_once_when_a_program_repeats_it() -> None:
    tries = LoginThrottle(Clock())
    assert {tries.record_failure("192.0.2.1", "of last year") for _ in range(100)} == {0}
    assert guess(tries, FREE_WRONG_TOKENS) > 0


def test_client_begins_afresh_when_it_has_the_token_or_was_quiet() -> None:
    clock = Clock()
    tries = LoginThrottle(clock)
    guess(tries, FREE_WRONG_TOKENS)
    tries.record_success("192.0.2.1")
    assert guess(tries, FREE_WRONG_TOKENS) == 0
    clock.now += FORGET_AFTER_SECONDS + 1
    assert guess(tries, FREE_WRONG_TOKENS) == 0


def test_network_counts_as_one_client_when_its_addresses_are_many() -> None:
    tries = LoginThrottle(Clock())
    for number in range(FREE_WRONG_TOKENS + 1):
        tries.record_failure(f"2001:db8::{number}", f"guess {number}")
    assert tries.seconds_to_wait("2001:db8::ffff") > 0
    assert tries.seconds_to_wait("2001:db8:0:1::1") == 0


def test_memory_is_bounded_when_clients_are_without_end() -> None:
    tries = LoginThrottle(Clock())
    for number in range(MAX_CLIENTS * 3):
        tries.record_failure(f"client {number}", "guess")
    assert len(tries._clients) == MAX_CLIENTS
    assert tries.seconds_to_wait(f"client {MAX_CLIENTS * 3 - 1}") > 0

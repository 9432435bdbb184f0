"""Delays after failures double up to a limit, and never overflow.

Drives `core/backoff` and `runtime/backoff`.
"""

from __future__ import annotations

from perdure.core.backoff import backoff_delay
from perdure.runtime.backoff import Backoff


class Steady:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


def test_delay_doubles_up_to_its_limit() -> None:
    assert [backoff_delay(n, first=0.5, longest=3.0) for n in range(1, 6)] == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_delay_is_the_longest_after_any_number_of_failures() -> None:
    backoff = Backoff(Steady(), first_seconds=1.0, max_seconds=5.0)
    assert {backoff.failed("row") for _ in range(2000)} == {1.0, 2.0, 4.0, 5.0}
    assert backoff.failures("row") == 2000


def test_remaining_time_is_measured_by_the_steady_clock() -> None:
    steady = Steady()
    backoff = Backoff(steady)
    assert backoff.failed("row") == 0.5
    steady.now = 200
    assert (backoff.remaining_ms("row"), backoff.remaining_ms("other")) == (300, 0)
    steady.now = 501
    assert backoff.remaining_ms("row") == 0


def test_success_and_forgetting_end_the_delays() -> None:
    backoff = Backoff(Steady())
    for name in ("a", "b", "c"):
        backoff.failed(name)
    backoff.succeeded("a")
    backoff.forget_all_but({"b"})
    assert [backoff.failures(name) for name in ("a", "b", "c")] == [0, 1, 0]
    assert backoff.failed("a") == 0.5

"""Which runs an observer takes for dead, by its own heartbeats and its own clock.

Drives `runtime/run_observer`.
"""

from __future__ import annotations

from perdure.runtime.run_observer import RunObserver
from perdure.store.runs import RunBeats

LEASE = 30.0
BEAT = 5.0


def other(beats: int, run: str = "other", lease: float = LEASE) -> RunBeats:
    return RunBeats(run, beats, int(lease * 1000))


def watch(observer: RunObserver, seen: RunBeats, *, since: float, until: float, pause: float = BEAT) -> float:
    """Make steady heartbeats that all see the same; return the time of the last one."""
    now = since
    while now <= until:
        observer.record([seen], now)
        now += pause
    return now - pause


def test_b163_run_is_silent_after_a_lease_in_which_its_count_stood_still() -> None:
    observer = RunObserver(LEASE, 0.0)
    watch(observer, other(7), since=5.0, until=30.0)
    assert observer.silent(34.9) == {}
    assert observer.silent(35.0) == {"other": 7}


def test_b163_run_that_counts_on_is_never_silent() -> None:
    observer = RunObserver(LEASE, 0.0)
    for number in range(100):
        observer.record([other(number // 4)], number * BEAT)
        assert observer.silent(number * BEAT + 1) == {}


def test_b163_count_that_goes_back_is_a_sign_of_life() -> None:
    """A server that forgot the last heartbeats in a crash says nothing about the run."""
    observer = RunObserver(LEASE, 0.0)
    watch(observer, other(7), since=5.0, until=30.0)
    observer.record([other(6)], 34.0)
    assert observer.silent(36.0) == {}


def test_b163_observer_that_could_not_beat_itself_declares_nobody_dead() -> None:
    observer = RunObserver(LEASE, 0.0)
    last = watch(observer, other(7), since=5.0, until=30.0)
    assert observer.silent(last + 600) == {}, "it was frozen, or the database was away"
    observer.record([other(7)], last + 600)
    assert observer.silent(last + 601) == {}
    last = watch(observer, other(7), since=last + 605, until=last + 628)
    assert observer.silent(last + 1) == {}
    observer.record([other(7)], last + BEAT)
    assert observer.silent(last + BEAT + 1) == {"other": 7}


def test_b163_gap_of_two_heartbeats_is_no_gap_and_a_longer_one_is() -> None:
    steady, unsteady = RunObserver(LEASE, 0.0), RunObserver(LEASE, 0.0)
    assert steady.silent(watch(steady, other(7), since=10.0, until=40.0, pause=10.0)) == {"other": 7}
    assert unsteady.silent(watch(unsteady, other(7), since=10.5, until=60.0, pause=10.5)) == {}


def test_b163_lease_of_the_observed_run_counts_and_not_our_own() -> None:
    observer = RunObserver(3.0, 0.0)
    last = watch(observer, other(7, lease=LEASE), since=0.5, until=30.0, pause=0.5)
    assert observer.silent(last + 0.4) == {}
    observer.record([other(7, lease=LEASE)], last + 0.5)
    assert observer.silent(last + 0.6) == {"other": 7}


def test_runs_that_have_ended_are_forgotten() -> None:
    observer = RunObserver(LEASE, 0.0)
    watch(observer, other(7), since=5.0, until=40.0)
    observer.record([other(1, "another")], 45.0)
    assert observer.silent(46.0) == {}


def test_b163_observer_says_whether_it_would_notice_a_dead_run() -> None:
    observer = RunObserver(LEASE, 0.0)
    last = watch(observer, other(7), since=5.0, until=25.0)
    assert not observer.is_steady(last + BEAT - 1)
    observer.record([], last + BEAT)
    assert observer.is_steady(last + BEAT)
    assert not observer.has_gap(last + BEAT + 10.0)
    assert observer.has_gap(last + BEAT + 10.1)
    assert not observer.is_steady(last + BEAT + 10.1)
    observer.record([], last + 60.0)
    assert not observer.is_steady(last + 60.0)

"""Ids: unique, sorted by the time they were made, and never going back.

Drives `store/ids`.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from perdure.store.ids import ID_GAP, Ids, id_after, wall_clock

NOON = 1_800_000_000_000
LETTERS = set("0123456789abcdefghjkmnpqrstvwxyz")


def clock(*times: int) -> Callable[[], int]:
    """A clock that shows these times, one after the other."""
    shown = iter(times)
    return lambda: next(shown)


def test_id_has_its_prefix_and_one_length() -> None:
    ids = Ids()
    for prefix in ("t", "in", "s"):
        kind, _, rest = ids.new(prefix).partition("_")
        assert (kind, len(rest)) == (prefix, 22)
        assert set(rest) <= LETTERS


def test_ids_sort_by_the_time_they_were_made() -> None:
    ids = Ids(clock(NOON, NOON + 1, NOON + 2, NOON + 60_000, NOON + 10**9))
    made = [ids.new("t") for _ in range(5)]
    assert made == sorted(made)


def test_ids_sort_by_time_when_they_were_made_by_several_processes() -> None:
    earlier, later = Ids(clock(*[NOON] * 50)), Ids(clock(*[NOON + 1] * 50))
    assert max(earlier.new("t") for _ in range(50)) < min(later.new("t") for _ in range(50))


def test_ids_never_go_back_when_the_clock_does() -> None:
    ids = Ids(clock(NOON, NOON - 1, 0, NOON - 10**9, NOON))
    made = [ids.new("t") for _ in range(4)]
    assert made == sorted(set(made))


def test_ids_go_up_when_many_are_made_in_one_millisecond() -> None:
    ids = Ids(lambda: NOON)
    made = [ids.new("t") for _ in range(2_000)]
    assert made == sorted(set(made))


def test_ids_leave_room_behind_each_when_many_are_made_in_one_millisecond() -> None:
    ids = Ids(lambda: NOON)
    made = [ids.new("out") for _ in range(1000)]
    assert sorted([*made, *(id_after(each, ID_GAP - 1) for each in made)])[::2] == made


def test_ids_differ_when_two_processes_make_them_in_one_millisecond() -> None:
    made = [Ids(lambda: NOON).new("t") for _ in range(500)]
    assert len(set(made)) == 500


def test_ids_differ_when_many_threads_make_them() -> None:
    ids = Ids(lambda: NOON)
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _: ids.new("t"), range(4_000)))
    assert len(set(made)) == 4_000


def test_clock_shows_whole_milliseconds() -> None:
    assert isinstance(wall_clock(), int)
    assert 10**12 < wall_clock() < 10**13

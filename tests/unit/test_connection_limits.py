"""Which connection is closed when there are too many, and which is never closed for a stranger (B108).

Drives `web/connection_limits`.
"""

from __future__ import annotations

import resource

from perdure.web.connection_limits import MAX_ANONYMOUS, MIN_CONNECTIONS, ConnectionLimits


class Connection:
    """A connection of which only the limits know."""

    def __init__(self, address: str = "192.0.2.1", *, serving: bool = False, late: str = "") -> None:
        self.address = address
        self.is_serving = serving
        self.late = late
        self.open = True

    def overdue(self, now: float) -> str:
        return self.late

    def drop(self) -> None:
        self.open = False


def admitted(limits: ConnectionLimits, count: int, address: str = "192.0.2.1") -> list[Connection]:
    made = [Connection(address) for _ in range(count)]
    for each in made:
        limits.admit(each)
    return made


def open_ones(connections: list[Connection]) -> list[bool]:
    return [each.open for each in connections]


def test_oldest_of_an_address_is_closed_when_it_opens_too_many() -> None:
    limits = ConnectionLimits(64)  # 32 without a login, 16 of one address
    other = admitted(limits, 4, "192.0.2.9")
    made = admitted(limits, 20)
    assert open_ones(made) == [False] * 4 + [True] * 16
    assert all(open_ones(other)), "nobody else is closed for it"


def test_oldest_of_all_is_closed_when_many_addresses_open_too_many() -> None:
    limits = ConnectionLimits(64)
    made = [admitted(limits, 1, f"198.51.100.{number}")[0] for number in range(40)]
    assert open_ones(made) == [False] * 8 + [True] * 32


def test_one_that_is_answered_stays_when_another_waits() -> None:
    limits = ConnectionLimits(MIN_CONNECTIONS)  # 8 without a login, 4 of one address
    answered = Connection(serving=True)
    limits.admit(answered)
    made = admitted(limits, 4)
    assert answered.open and open_ones(made) == [False, True, True, True]
    busy = [Connection("192.0.2.2", serving=True) for _ in range(5)]
    for each in busy:
        limits.admit(each)
    assert open_ones(busy) == [False, True, True, True, True], "if all are answered, the oldest goes"


def test_one_with_a_login_is_never_closed_for_a_stranger() -> None:
    limits = ConnectionLimits(64)
    people = admitted(limits, 10)
    for each in people:
        limits.mark_logged_in(each)
    admitted(limits, 500)
    assert all(open_ones(people))


def test_those_with_a_login_are_bounded_too() -> None:
    limits = ConnectionLimits(MIN_CONNECTIONS)
    people = []
    for _ in range(100):
        people += admitted(limits, 1)
        limits.mark_logged_in(people[-1])
    assert sum(open_ones(people)) <= MIN_CONNECTIONS


def test_networks_of_ipv6_are_one_address_and_proxies_none() -> None:
    limits = ConnectionLimits(64, ["10.0.0.0/8", "2001:db8:1::/48"])
    one = [admitted(limits, 1, f"2001:db8::{number:x}")[0] for number in range(20)]
    assert sum(open_ones(one)) == 16
    for proxy in ("10.1.2.3", "2001:db8:1::7"):
        limits = ConnectionLimits(64, ["10.0.0.0/8", "2001:db8:1::/48"])
        assert all(open_ones(admitted(limits, 32, proxy))), "a proxy has as many as there may be"
        assert sum(open_ones(admitted(limits, 40, proxy))) == 32


def test_closed_connections_make_room() -> None:
    limits = ConnectionLimits(64)
    for _ in range(100):
        (each,) = admitted(limits, 1)
        limits.forget(each)
        assert each.open


def test_slow_ones_are_closed_in_time() -> None:
    limits = ConnectionLimits(64)
    slow, quick, logged_in = Connection(late="sent_too_slowly"), Connection(), Connection(late="read_too_slowly")
    for each in (slow, quick, logged_in):
        limits.admit(each)
    limits.mark_logged_in(logged_in)
    limits.close_overdue()
    assert open_ones([slow, quick, logged_in]) == [False, True, False]


def test_limits_stay_below_what_the_process_may_open() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limits = ConnectionLimits(10**9)
    made = [admitted(limits, 1, f"10.{number >> 8}.0.{number & 255}")[0] for number in range(2 * MAX_ANONYMOUS)]
    assert sum(open_ones(made)) == min(MAX_ANONYMOUS, soft // 4)

"""The page of promises says no more, and no less, than the tests do.

Drives no module: it compares `docs/promises.md` with the tests.
"""

from __future__ import annotations

import pytest

from support.markdown import page
from support.promises import Promise, named_by_tests, promises

GROUPS = (
    (1, 16),
    (20, 32),
    (40, 59),
    (60, 69),
    (70, 79),
    (80, 89),
    (90, 97),
    (100, 109),
    (160, 168),
    (180, 185),
)
NUMBERS = [number for first, last in GROUPS for number in range(first, last + 1)]

every_promise = pytest.mark.parametrize("promise", promises(), ids=lambda promise: f"B{promise.number}")


def test_every_promise_is_on_the_page_once_and_in_order() -> None:
    assert [promise.number for promise in promises()] == NUMBERS


def test_every_number_that_tests_name_is_a_promise() -> None:
    assert set(named_by_tests()) <= set(NUMBERS)


@every_promise
def test_promise_is_held_by_the_tests_it_names(promise: Promise) -> None:
    if promise.state == "not yet":
        assert not promise.tests
        return
    assert promise.tests, "it names no test"
    for test in promise.tests:
        assert test in named_by_tests()[promise.number], f"{test} does not name B{promise.number}"


@every_promise
def test_promise_that_tests_name_is_not_called_not_yet(promise: Promise) -> None:
    naming = named_by_tests()[promise.number]
    assert promise.state != "not yet" or not naming, f"named by {', '.join(sorted(naming))}"


@every_promise
def test_promise_says_what_is_missing_when_it_is_held_partly(promise: Promise) -> None:
    assert (promise.state == "partly") == ("; missing: " in promise.rest)


def test_every_test_that_a_promise_names_has_its_link() -> None:
    named = {test for promise in promises() for test in promise.tests}
    assert named == set(page("docs/promises.md").labels())

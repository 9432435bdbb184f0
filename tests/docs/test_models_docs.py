"""docs/models.md names the bounds that the code has."""

from __future__ import annotations

import pytest

from perdure.agents import loop, models, tries, wire
from support.markdown import ROOT

PAGE = (ROOT / "docs" / "models.md").read_text()


@pytest.mark.parametrize(
    "sentence",
    [
        f"{models.MAX_ANSWER_CHARS:,} characters",
        f"| calls in one answer | {wire.MAX_CALLS};",
        f"| arguments of one call | {wire.MAX_ARGUMENT_BYTES // 1024} KiB;",
        f"| the very same wish in a row | {loop.MAX_IDENTICAL_RESPONSES // 2} are granted, {loop.MAX_IDENTICAL_RESPONSES // 2} more",
        f"| answers in a row that end with an error | {loop.MAX_INCOMPLETE_RESPONSES},",
    ],
)
def test_bound_is_the_one_of_the_code(sentence: str) -> None:
    assert sentence in PAGE


def test_pauses_between_tries_are_those_of_the_code() -> None:
    pauses = [loop.Bounds().retry_backoff_seconds * 2**number for number in range(tries.MAX_REQUESTS - 1)]
    assert pauses == [1.0, 2.0, 4.0, 8.0]
    assert "after 1, 2, 4\nand 8 seconds" in PAGE
    assert tries.MAX_BACKOFF_SECONDS == 60.0
    assert tries.MAX_INCOMPLETE_RETRIES == 3
    assert "asked for again, at most three times" in PAGE

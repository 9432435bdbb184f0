"""docs/models.md names the bounds that the code has."""

from __future__ import annotations

import pytest

from perdure.agents import loop, models, tries, wire
from support.markdown import ROOT

PAGE = (ROOT / "docs" / "models.md").read_text()


@pytest.mark.parametrize(
    "sentence",
    [
        f"{models.LONGEST_ANSWER:,} characters",
        f"| calls in one answer | {wire.MOST_CALLS};",
        f"| arguments of one call | {wire.LARGEST_ARGUMENTS // 1024} KiB;",
        f"| the very same wish in a row | {loop.PATIENCE // 2} are granted, {loop.PATIENCE // 2} more",
        f"| answers in a row that end with an error | {loop.CUT_OFFS},",
    ],
)
def test_bound_is_the_one_of_the_code(sentence: str) -> None:
    assert sentence in PAGE


def test_pauses_between_tries_are_those_of_the_code() -> None:
    pauses = [loop.Bounds().pause * 2**number for number in range(tries.TRIES - 1)]
    assert pauses == [1.0, 2.0, 4.0, 8.0]
    assert "after 1, 2, 4\nand 8 seconds" in PAGE
    assert tries.LONGEST_PAUSE == 60.0
    assert tries.ASKED_AGAIN == 3
    assert "asked for again, at most three times" in PAGE

"""docs/models.md names the bounds that the code has.

Drives `agents/providers`.
"""

from __future__ import annotations

import pytest

from perdure.agents import builtin_agent
from perdure.agents.providers import client, responses, retries
from support.markdown import ROOT

PAGE = (ROOT / "docs" / "models.md").read_text()


@pytest.mark.parametrize(
    "sentence",
    [
        f"{client.MAX_ANSWER_CHARS:,} characters",
        f"| calls in one answer | {responses.MAX_CALLS};",
        f"| arguments of one call | {responses.MAX_ARGUMENT_BYTES // 1024} KiB;",
        (
            f"| the very same wish in a row | {builtin_agent.MAX_IDENTICAL_RESPONSES // 2} are granted, "
            f"{builtin_agent.MAX_IDENTICAL_RESPONSES // 2} more"
        ),
        f"| answers in a row that end with an error | {builtin_agent.MAX_INCOMPLETE_RESPONSES},",
    ],
)
def test_bound_is_the_one_of_the_code(sentence: str) -> None:
    assert sentence in PAGE


def test_pauses_between_tries_are_those_of_the_code() -> None:
    pauses = [
        builtin_agent.Bounds().retry_backoff_seconds * 2**number for number in range(retries.MAX_REQUESTS - 1)
    ]
    assert pauses == [1.0, 2.0, 4.0, 8.0]
    assert "after 1, 2, 4\nand 8 seconds" in PAGE
    assert retries.MAX_BACKOFF_SECONDS == 60.0
    assert retries.MAX_INCOMPLETE_RETRIES == 3
    assert "asked for again, at most three times" in PAGE

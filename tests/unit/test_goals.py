"""What a model says of its goal.

Drives `core/commands`.
"""

from __future__ import annotations

import pytest

from perdure.core.commands import goal_outcome


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("All is done.\nGOAL REACHED", "reached"),
        ("**Goal reached!**", "reached"),
        ("GOAL REACHED\n\nHere is what I did.", "reached"),
        ("I have no key for that.\n`GOAL GIVEN UP`", "given_up"),
        ("GOAL REACHED\nNo, wait.\nGOAL GIVEN UP", "given_up"),
        ("The GOAL REACHED line comes later.", None),
        ("", None),
    ],
)
def test_b84_verdict_is_a_line_by_itself(answer: str, expected: str | None) -> None:
    assert goal_outcome(answer) == expected

"""The page of the drill names what the drill has and does.

Drives `testing/drill`.
"""

from __future__ import annotations

import re

from perdure.testing.drill.report import FAULTS, UNKNOWN
from perdure.testing.drill.scenarios import PLATFORMS, SCENARIOS
from support.markdown import page

ROW = re.compile(r"^\| `([a-z]+)` \|", re.MULTILINE)


def test_page_names_every_kind_of_chat_and_every_count() -> None:
    assert ROW.findall(page("docs/drill.md").text) == [*SCENARIOS, "kills", "turns", *FAULTS, UNKNOWN]


def test_table_on_the_page_is_the_one_that_is_printed() -> None:
    [shown] = page("docs/drill.md").blocks("text")
    for name, meaning in FAULTS.items():
        assert re.search(rf"│ {name} +│ +0 │ {re.escape(meaning)} +│", shown), f"{name} has another meaning"
    assert f"in {len(SCENARIOS)} kinds of chats on {len(PLATFORMS)} platforms" in shown

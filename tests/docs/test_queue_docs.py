"""The page on the queue: its modes are those that there are, and its numbers those of the settings.

Drives `core/queue` and `settings/turns`.
"""

from __future__ import annotations

import re

from perdure.config import SETTINGS_BY_KEY
from perdure.core import texts
from perdure.core.queue import QUEUE_MODE_NAMES
from support.markdown import page

PAGE = page("docs/queue.md")


def test_every_mode_is_told() -> None:
    assert tuple(re.findall(r"^\| `([a-z]+)` \|", PAGE.text, re.MULTILINE)) == QUEUE_MODE_NAMES
    assert tuple(texts.turns.QUEUE_MODES) == QUEUE_MODE_NAMES


def test_numbers_are_the_defaults() -> None:
    told = dict(re.findall(r"`((?:queue|inbox)\.[a-z_]+)` \(([^)]+)\)", PAGE.text))
    assert told == {"queue.quiet": "1.5 s", "queue.cap": "100", "inbox.max_age": "24 hours"}
    assert [SETTINGS_BY_KEY[key].default for key in told] == ["1500ms", "100", "24h"]

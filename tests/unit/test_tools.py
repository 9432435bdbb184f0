"""What a tool is.

Drives `core/tools`.
"""

from __future__ import annotations

import pytest

from perdure.core.effects import Effect
from perdure.core.tools import Tool, Use


async def send(_: Use) -> str:
    return "sent"


def test_tool_is_never_repeated_when_it_declares_nothing() -> None:
    """B61: undeclared means `once`."""
    assert Tool("send", "Sends.", send).effect is Effect.ONCE


@pytest.mark.parametrize("effect", Effect)
def test_tool_has_the_effect_that_it_declares(effect: Effect) -> None:
    assert Tool("send", "Sends.", send, effect).effect is effect


def test_key_of_a_use_does_not_change() -> None:
    use = Use({"to": "ada"}, "t1:c1")
    with pytest.raises(AttributeError):
        use.key = "another"  # type: ignore[misc]

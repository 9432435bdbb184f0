"""What repeating a tool call would mean, and what becomes of one that was cut off.

Drives `core/effects`.
"""

from __future__ import annotations

import pytest

from perdure.core.effects import REMEDIES, Effect, Remedy


@pytest.mark.parametrize(
    ("effect", "remedy"),
    [
        (Effect.PURE, Remedy.REPEAT),
        (Effect.KEYED, Remedy.REPEAT),
        (Effect.ATTACHED, Remedy.ATTACH),
        (Effect.ONCE, Remedy.SAY_UNKNOWN),
    ],
)
def test_remedy_follows_from_the_effect(effect: Effect, remedy: Remedy) -> None:
    """B61: and B62 for `once`."""
    assert REMEDIES[effect] is remedy


def test_every_effect_has_a_remedy() -> None:
    assert set(REMEDIES) == set(Effect)


def test_effects_are_spelled_as_the_journal_has_them() -> None:
    assert list(Effect) == ["pure", "keyed", "attached", "once"]

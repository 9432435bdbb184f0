"""The names that others import.

Drives `testing/telegram`.
"""

from __future__ import annotations

import pytest

import perdure
from perdure.core.effects import Effect
from perdure.core.tools import Use
from perdure.errors import ToolFailed
from perdure.runtime.gateway import Gateway
from perdure.settings import Settings
from perdure.testing import telegram
from perdure.tools.function_tools import tool


def test_public_names_are_the_real_things() -> None:
    assert (perdure.Gateway, perdure.Settings) == (Gateway, Settings)
    assert (perdure.Effect, perdure.ToolFailed, perdure.Use, perdure.tool) == (Effect, ToolFailed, Use, tool)
    assert {*perdure.__all__} == {"Effect", "Gateway", "Settings", "ToolFailed", "Use", "__version__", "tool"}


def test_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Missing'"):
        _ = perdure.Missing


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("BROKEN", "INTERNAL_ERROR"),
        ("Call", "BotCall"),
        ("Delivery", "WebhookDelivery"),
        ("Refused", "BotApiRefusal"),
        ("Sent", "SentMessage"),
        ("bad", "bad_request"),
        ("too_many", "too_many_requests"),
    ],
)
def test_renamed_export_of_the_telegram_emulator_warns_and_works(old: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"{old} is now called {new}"):
        assert getattr(telegram, old) is getattr(telegram, new)


def test_unknown_name_of_the_telegram_emulator_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Missing'"):
        _ = telegram.Missing

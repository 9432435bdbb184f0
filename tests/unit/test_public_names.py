"""The names that others import.

Drives `testing/telegram`.
"""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import perdure
import perdure.agents
import perdure.platforms
from perdure.agents.builtin_agent import Bounds
from perdure.core.effects import Effect
from perdure.core.tools import Use
from perdure.errors import ToolFailed
from perdure.platforms import api
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


@pytest.mark.parametrize("package", [perdure.agents, perdure.platforms], ids=["agents", "platforms"])
def test_every_public_name_of_a_package_can_be_imported(package: object) -> None:
    names: list[str] = package.__all__  # type: ignore[attr-defined]
    assert [name for name in names if getattr(package, name, None) is None] == []
    with pytest.raises(AttributeError, match="no attribute 'Missing'"):
        _ = package.Missing  # type: ignore[attr-defined]


def test_names_of_an_agent_load_its_library_when_they_are_used() -> None:
    script = "import sys, perdure.agents; print('pydantic_ai' in sys.modules)"
    script += "; from perdure.agents import idempotency_key; print('pydantic_ai' in sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == ["False", "True"]


def test_bounds_of_an_agent_are_public() -> None:
    assert perdure.agents.Bounds is Bounds


def test_the_names_of_0_2_0_work_with_a_warning() -> None:
    sys.modules.pop("perdure.agents.pydantic", None)
    with pytest.warns(DeprecationWarning, match=r"idempotency_key from perdure\.agents"):
        old = importlib.import_module("perdure.agents.pydantic")
    assert old.idempotency_key is perdure.agents.idempotency_key
    assert old.PydanticAgent is perdure.agents.PydanticAgent
    with pytest.warns(DeprecationWarning, match=r"WebhookResponse from perdure\.platforms"):
        answered = api.Answered
    assert answered is perdure.platforms.WebhookResponse


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

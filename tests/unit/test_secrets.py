"""Which secrets logs leave out.

Drives `config/secrets`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure.config import SETTINGS_BY_KEY, load_settings
from perdure.config.secrets import collect_secrets

# A value for each setting that is marked as secret, and what of it must show up nowhere.
SECRETS: dict[str, tuple[str, set[str]]] = {
    "store.url": ("postgresql://perdure:hunter%212@db/perdure", {"hunter%212", "hunter!2"}),
    "model.api_key": ("sk-hunter2", {"sk-hunter2"}),
    "tools.mcp": (
        '{"files": {"command": ["server"], "env": {"A": "in-env"}, "headers": {"B": "in-header"}}}',
        {"in-env", "in-header"},
    ),
    "platforms.telegram.token": ("1:hunter2", {"1:hunter2"}),
}


def variable(key: str) -> str:
    return f"PERDURE_{key.upper().replace('.', '__')}"


def collected(home: Path, environ: dict[str, Any]) -> set[str]:
    return set(collect_secrets(load_settings(home, environ), {}))


def test_every_setting_that_is_marked_as_secret_is_tried_here() -> None:
    assert set(SECRETS) == {key for key, setting in SETTINGS_BY_KEY.items() if setting.secret}


@pytest.mark.parametrize("key", SECRETS)
def test_setting_that_is_marked_as_secret_is_collected(key: str, tmp_path: Path) -> None:
    value, hidden = SECRETS[key]
    assert collected(tmp_path, {variable(key): value}) == hidden


def test_settings_without_secrets_collect_none(tmp_path: Path) -> None:
    assert collected(tmp_path, {variable("store.url"): "sqlite:///perdure.db"}) == set()


def test_variables_named_like_keys_are_collected(tmp_path: Path) -> None:
    environ = {"OPENAI_API_KEY": "sk-other", "KEYBOARD": "qwerty", "MY_PASSWORD": ""}
    assert collect_secrets(load_settings(tmp_path, {}), environ) == ["sk-other"]

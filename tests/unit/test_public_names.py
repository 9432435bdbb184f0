"""The names that others import."""

from __future__ import annotations

import pytest

import perdure
from perdure.runtime.gateway import Gateway
from perdure.settings import Settings


def test_public_names_are_the_real_things() -> None:
    assert (perdure.Gateway, perdure.Settings) == (Gateway, Settings)
    assert {*perdure.__all__} == {"Gateway", "Settings", "__version__"}


def test_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Missing'"):
        _ = perdure.Missing

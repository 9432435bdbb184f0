"""Text that every database takes: `core/storable_text.py`.

Drives `core/storable_text`.
"""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Struct

from perdure.core.storable_text import encode_storable, make_storable, repair_json, to_json, validate_struct

HALF, LATTER = "\ud83d", "\ude00"
BAD = "\N{REPLACEMENT CHARACTER}"


class Named(Struct, frozen=True):
    name: str
    more: dict[str, list[str]] = {}


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        pytest.param("plain", "plain", id="ASCII"),
        pytest.param("Grüße 👋🏽", "Grüße 👋🏽", id="letters and emoji"),
        pytest.param(f"a{HALF}b", f"a{BAD}b", id="the first half of a pair"),
        pytest.param(f"a{LATTER}", f"a{BAD}", id="the second half of a pair"),
        pytest.param(f"{HALF}{LATTER}", "😀", id="two halves side by side are their character"),
        pytest.param("a\0b", f"a{BAD}b", id="NUL"),
        pytest.param(f"é\0{HALF}", f"é{BAD}{BAD}", id="both"),
    ],
)
def test_b14_text_is_cleaned(text: str, stored: str) -> None:
    assert make_storable(text) == stored
    assert make_storable(stored) == stored


def test_b14_text_that_needs_no_cleaning_is_the_same_object() -> None:
    for text in ("plain", "Grüße 👋🏽"):
        assert make_storable(text) is text
    named = Named("plain", {"a": ["b"]})
    assert encode_storable(named)[1] is named


def test_b14_struct_is_cleaned_at_every_depth() -> None:
    body, kept = encode_storable(Named(f"a{HALF}", {f"b{HALF}": ["c\0"]}))
    assert kept == Named(f"a{BAD}", {f"b{BAD}": [f"c{BAD}"]})
    assert msgspec.json.decode(body, type=Named) == kept
    assert to_json(Named(f"a{HALF}", {f"b{HALF}": ["c\0"]})) == body


def test_b14_words_that_only_look_like_nul_stay() -> None:
    named = Named("\\u0000")
    assert encode_storable(named)[1] == named


def test_b59_struct_with_a_field_of_the_wrong_type_is_named() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$\.name"):
        validate_struct(Named(None))  # type: ignore[arg-type]


def test_b14_json_with_half_a_character_can_be_read() -> None:
    assert msgspec.json.decode(repair_json(b'{"a": "\\ud83d", "b": "\\ud83d\\ude00"}')) == {"a": BAD, "b": "😀"}
    for body in (b'{"a": 1}', b"no JSON \\ud83d"):
        assert repair_json(body) == body

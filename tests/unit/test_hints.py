"""Hints between gateways: what fits, what is left out, and how a growing answer travels in pieces. B165.

Drives `core/hints`.
"""

from __future__ import annotations

import pytest

from perdure.core.hints import (
    MAX_HINT_BYTES,
    MAX_PREVIEW_CHARACTERS,
    ChangeHint,
    Hint,
    NoticeHint,
    PreviewHint,
    StopHint,
    StoppedHint,
    WakeHint,
    WatchHint,
    add_piece,
    batches,
    decode_hint,
    encode_hint,
    preview_pieces,
)

KEY = "agent:main:web:dm:home"
LONG = "".join(f"{number} äöü€🎉\x01\u2028 " for number in range(3_000))


@pytest.mark.parametrize(
    "hint",
    [
        WakeHint(KEY, ("delivery", "runner")),
        ChangeHint((KEY, "other")),
        WatchHint("run_1", (KEY,), False),
        StopHint("t_1", "run_1"),
        StoppedHint("t_1"),
        PreviewHint(KEY, "t_1", 7, "words"),
        NoticeHint(KEY, "words"),
    ],
)
def test_hint_is_read_as_it_was_written(hint: Hint) -> None:
    payload = encode_hint(hint)
    assert payload is not None
    assert decode_hint(payload) == hint


@pytest.mark.parametrize(
    "payload",
    ["", "nonsense", "[]", "{}", '{"hint":"newer"}', '{"hint":"stop"}', '{"hint":"wake","key":1,"loops":[]}'],
)
def test_what_is_no_hint_of_this_version_is_ignored(payload: str) -> None:
    assert decode_hint(payload) is None


def test_newer_fields_of_a_known_hint_are_ignored() -> None:
    assert decode_hint('{"hint":"stopped","turn":"t_1","since":5}') == StoppedHint("t_1")


def test_hint_that_does_not_fit_is_left_out() -> None:
    assert encode_hint(NoticeHint(KEY, "x" * MAX_HINT_BYTES)) is None


@pytest.mark.parametrize("text", [LONG, "\x00" * 5_000, "short", "x" * (MAX_PREVIEW_CHARACTERS + 5_000)])
def test_every_piece_of_a_preview_fits_and_together_they_are_the_text(text: str) -> None:
    known: str | None = ""
    for piece in preview_pieces(KEY, "t_1", "", text):
        assert encode_hint(piece) is not None
        assert known is not None
        known = add_piece(known, piece)
    assert known == text[:MAX_PREVIEW_CHARACTERS]


def test_only_what_is_new_of_a_growing_answer_is_sent() -> None:
    assert list(preview_pieces(KEY, "t_1", "one two", "one two three")) == [PreviewHint(KEY, "t_1", 7, " three")]
    assert list(preview_pieces(KEY, "t_1", "one", "one")) == []


def test_answer_that_begins_anew_is_sent_from_its_beginning() -> None:
    [piece] = preview_pieces(KEY, "t_1", "first try", "second")
    assert add_piece("first try", piece) == "second"


def test_piece_behind_a_gap_is_not_shown() -> None:
    assert add_piece("one", PreviewHint(KEY, "t_1", 7, " three")) is None


def test_keys_are_cut_into_groups_that_fit() -> None:
    keys = [f"{KEY}{number}{'ö' * number}" for number in range(200)]
    groups = list(batches(keys))
    assert [key for group in groups for key in group] == keys
    assert all(encode_hint(ChangeHint(group)) is not None for group in groups)

"""Patterns: which are looked for, and that every piece of output is looked at once.

Drives `tools/output_patterns`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.errors import ToolFailed
from perdure.tools.output_patterns import (
    MAX_HELD_BYTES,
    MAX_LINE_CHARACTERS,
    MAX_PATTERN_CHARACTERS,
    MAX_PATTERNS,
    PIECE_BYTES,
    check_patterns,
    compile_patterns,
    scan_output,
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path


def say(place: Path, text: str) -> None:
    with (place / "output").open("a") as output:
        output.write(text)


def lines(place: Path, *patterns: str, since: int = 0, final: bool = False) -> tuple[list[str], int]:
    """What is found by patterns behind a place, and where the next look begins."""
    look = scan_output(compile_patterns(check_patterns(patterns)), place, since, final=final)
    return list(look.lines), look.next_offset


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        ("ready", "server ready at 80"),
        ("ERR.R", "an ERROR"),
        (r"listening on \d+", "listening on 8080"),
        ("(error|failed)", "it failed"),
        ("^done$", "done"),
        ("[*+?]", "a*b"),
        ("a.*b.*c", "a b c"),
        ("größe", "die größe"),
    ],
)
def test_line_is_found_by(pattern: str, line: str, place: Path) -> None:
    say(place, f"nothing\n{line}\nnothing\n")
    assert lines(place, pattern)[0] == [line]


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+$", "(a|a)*b", r"(a)\1", "(?=a)", "a*b*c*d", "a{2}b{2}c{2}", "a?b?c?d?", "(", "[", "*", "", "x\ny"],
)
def test_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ToolFailed, match="cannot be watched for"):
        check_patterns([pattern])


def test_patterns_are_bounded_in_length_and_number() -> None:
    with pytest.raises(ToolFailed, match="at most"):
        check_patterns(["x" * (MAX_PATTERN_CHARACTERS + 1)])
    with pytest.raises(ToolFailed, match="at most"):
        check_patterns(["x"] * (MAX_PATTERNS + 1))


@pytest.mark.parametrize("pattern", [".*.*x", "a.*a.*b", ".*[^y]*x", "a?a?a?aaa", "(a|b|c).*(d|e).*f"])
def test_pattern_that_is_taken_stays_cheap_on_a_long_line_that_does_not_match(pattern: str, place: Path) -> None:
    say(place, f"{'a' * 10 * MAX_LINE_CHARACTERS}\n")
    assert lines(place, pattern)[0] == ([f"{'a' * 10 * MAX_LINE_CHARACTERS}"] if pattern == "a?a?a?aaa" else [])


def test_look_ends_when_it_takes_too_long(place: Path) -> None:
    say(place, f"{'a' * MAX_LINE_CHARACTERS}\n" * 1000)
    look = scan_output(compile_patterns(check_patterns([".*.*x"])), place, 0, final=False)
    assert look.too_slow


def test_unfinished_line_is_found_at_once_and_not_again_when_it_goes_on(place: Path) -> None:
    say(place, "Password: ")
    found, until = lines(place, "Password")
    assert found == ["Password: "]
    say(place, "***\n")
    assert lines(place, "Password", since=until) == ([], until + 4)


def test_line_is_found_when_it_comes_in_pieces(place: Path) -> None:
    say(place, "fine\nrea")
    found, until = lines(place, "ready")
    assert (found, until) == ([], 5)
    say(place, "dy\n")
    assert lines(place, "ready", since=until)[0] == ["ready"]


def test_long_unfinished_line_is_let_go_but_for_its_end(place: Path) -> None:
    say(place, "x" * (MAX_HELD_BYTES * 3))
    assert lines(place, "ready") == ([], MAX_HELD_BYTES * 2)


def test_last_line_counts_when_nothing_more_comes(place: Path) -> None:
    say(place, "no\nend")
    assert lines(place, "nothing", final=True) == ([], 6)


def test_output_is_looked_at_piece_by_piece(place: Path) -> None:
    say(place, "x" * (PIECE_BYTES - 1) + "\nready\n")
    found, until = lines(place, "ready")
    assert (found, until) == ([], PIECE_BYTES)
    assert lines(place, "ready", since=until)[0] == ["ready"]


def test_nothing_is_found_where_nothing_was_said(place: Path) -> None:
    assert lines(place, "ready") == ([], 0)


def test_look_goes_on_behind_what_was_not_kept(place: Path) -> None:
    say(place, "one\nunfinished")
    (place / "output.100").write_text("rest\none more\n")
    assert lines(place, "one") == (["one"], 14)
    assert lines(place, "one", since=14) == (["one more"], 114)

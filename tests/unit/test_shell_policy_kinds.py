"""Lines that are made from kinds of danger, programs and spellings need approval, and everyday lines need none.

Drives `tools/shell_policy`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.tools.shell_policy.policy import Assessment, assess_command, make_policy
from perdure.tools.shell_policy.scripts import is_harmless_sed
from support import command_lines
from support.command_lines import AROUND, around, lines_of_all_kinds, quoted_otherwise

pytestmark = pytest.mark.unit

KINDS = lines_of_all_kinds()
EVERYDAY = (Path(command_lines.__file__).with_name("harmless_lines.txt")).read_text().splitlines()
PLAIN_FORMS = ["a subshell", "a group", "a condition", "a loop", "what follows"]


def passing(lines: list[str]) -> list[str]:
    """The lines that would run without approval in one shell or the other."""
    return [line for line in lines if not all(assess_command(line, bash=bash).dangerous for bash in (False, True))]


@pytest.mark.parametrize("kind", KINDS)
def test_every_line_of_a_kind_needs_approval(kind: str) -> None:
    assert len(KINDS[kind]) > 50
    assert passing(KINDS[kind]) == []


LINES = st.sampled_from(sorted(KINDS)).flatmap(lambda kind: st.sampled_from(KINDS[kind]))


@given(
    LINES,
    st.lists(st.integers(0, 7), min_size=6, max_size=6),
    st.lists(st.sampled_from(sorted(AROUND)), max_size=2),
)
def test_line_needs_approval_in_other_quotes_and_inside_of_others(
    line: str, ways: list[int], forms: list[str]
) -> None:
    words = (
        line.split(" ") if "'" not in line and '"' not in line and "{" not in line and "\n" not in line else [line]
    )
    hidden = " ".join(quoted_otherwise(word, ways[at % 6]) for at, word in enumerate(words))
    for form in forms:
        hidden = around(AROUND[form], hidden)
    assert passing([hidden]) == []


def test_everyday_lines_need_no_approval() -> None:
    asked = {line: assess_command(line).reason for line in EVERYDAY}
    assert {line: why for line, why in asked.items() if why} == {}


@given(st.sampled_from(EVERYDAY), st.sampled_from(PLAIN_FORMS))
def test_everyday_line_needs_no_approval_inside_of_others(line: str, form: str) -> None:
    assert assess_command(around(AROUND[form], line)) == Assessment(False)


# ── safe patterns ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("word", ["topic-a:main", "topic-a/b", "topic-a b", "topic-\ta", "topic-:", "topic-a\n"])
@pytest.mark.parametrize(
    "pattern", ["git push --force origin topic-*", "git push --force origin *", "git push --force * *"]
)
def test_star_of_a_safe_pattern_stops_at_signs(pattern: str, word: str) -> None:
    ours = make_policy(safe=[pattern])
    assert not assess_command("git push --force origin topic-a", ours).dangerous
    assert assess_command(f"git push --force origin '{word}'", ours).dangerous


def test_letters_of_a_safe_pattern_stop_at_signs() -> None:
    ours = make_policy(safe=["rm -rf build?out", "rm -rf out[!x]y"])
    assert not assess_command("rm -rf build-out; rm -rf outay", ours).dangerous
    assert assess_command("rm -rf build/out", ours).dangerous
    assert assess_command("rm -rf out/y", ours).dangerous
    assert assess_command("rm -rf outxy", ours).dangerous


def test_two_stars_of_a_safe_pattern_are_any_words() -> None:
    ours = make_policy(safe=["terraform apply **"])
    assert not assess_command("terraform apply -var a=b:c/d", ours).dangerous


def test_program_that_the_operator_lists_is_passed_to_no_unknown_one() -> None:
    assert not assess_command("frobnicate deploy").dangerous
    assert assess_command("frobnicate deploy", make_policy(dangerous=["deploy *"])).dangerous


# ── where the line goes on ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "line",
    [
        "f() { rm hosts; }; cd /etc; f",
        "for i in 1 2; do rm hosts; cd /etc; done",
        "trap 'rm hosts' EXIT; cd /etc",
        "while true; do echo x > hosts; cd ..; done",
    ],
)
def test_what_may_run_after_the_line_has_left_is_outside(line: str) -> None:
    assert assess_command(line).dangerous


def test_long_script_of_sed_is_not_read() -> None:
    assert is_harmless_sed("s/a/b/;" * 500)
    assert not is_harmless_sed("s/a/b/;" * 5_000)

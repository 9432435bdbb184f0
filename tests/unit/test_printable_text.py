"""Text that others chose has no effect where it is shown (B109).

Drives `core/printable_text` and `cli/output`.
"""

from __future__ import annotations

import ast
import json
import sys
import unicodedata
from pathlib import Path

import pytest

import perdure.cli
from perdure.core.printable_text import REPLACEMENT, escape_json, printable_line, printable_text

EVERY_CHARACTER = [chr(point) for point in range(sys.maxunicode + 1)]
DIRECTION_MARKS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
# Format characters that are no direction marks and have a use: joiners, and visible signs of a script.
USEFUL_FORMATS = {
    *"\u200c\u200d\u06dd\u070f\u08e2\U000110bd\U000110cd",
    *map(chr, [*range(0x600, 0x606), *range(0x890, 0x892), *range(0x13430, 0x13440)]),
}


def of_category(*categories: str) -> list[str]:
    return [each for each in EVERY_CHARACTER if unicodedata.category(each) in categories]


def test_b109_no_control_or_format_character_takes_effect() -> None:
    """Every character of Unicode, held against what the character database says of it."""
    for each in of_category("Cc", "Cf", "Cs", "Zl", "Zp"):
        wanted = {each} if each in USEFUL_FORMATS else {"", " ", REPLACEMENT}
        assert printable_line(f"a{each}b")[1:-1] in wanted, f"U+{ord(each):04X}"
        in_text = wanted | {"\n"} if each != "\t" else {"\t"}
        assert printable_text(f"a{each}b")[1:-1] in in_text, f"U+{ord(each):04X}"
    assert not set(printable_line("".join(EVERY_CHARACTER))) & set(DIRECTION_MARKS)


def test_b109_everything_else_stays_as_it_is() -> None:
    for each in EVERY_CHARACTER:
        if unicodedata.category(each) not in ("Cc", "Cf", "Cs", "Zl", "Zp"):
            assert printable_line(each) == printable_text(each) == escape_json(each) == each


@pytest.mark.parametrize(
    ("text", "line", "lines"),
    [
        pytest.param(
            "plain words, é 漢字 👩‍👧", "plain words, é 漢字 👩‍👧", "plain words, é 漢字 👩‍👧", id="words"
        ),
        pytest.param("a\x1b[31mred", f"a{REPLACEMENT}[31mred", f"a{REPLACEMENT}[31mred", id="an escape"),
        pytest.param(
            "one\r\ntwo\rthree\u2028four", "one two three four", "one\ntwo\nthree\nfour", id="line breaks"
        ),
        pytest.param("\u202eexe.txt", "exe.txt", "exe.txt", id="a name backwards"),
        pytest.param("a\tb", "a b", "a\tb", id="a tab"),
    ],
)
def test_b109_text_is_shown_on_a_line_or_on_several(text: str, line: str, lines: str) -> None:
    assert (printable_line(text), printable_text(text)) == (line, lines)


def test_b109_json_means_the_same_without_a_harmful_character() -> None:
    values = [each for each in EVERY_CHARACTER if unicodedata.category(each) != "Cs"]
    encoded = json.dumps({"words": "".join(values)}, ensure_ascii=False, indent=2)
    shown = escape_json(encoded)
    assert json.loads(shown) == json.loads(encoded)
    assert not [each for each in shown if each != "\n" and printable_line(each) != each]


def test_b109_commands_print_through_one_door() -> None:
    """No module of the command line prints by itself what may come from others."""
    allowed = {"output.py", "__init__.py", "chat.py"}  # the door; errors; what makes each answer harmless
    for path in Path(perdure.cli.__file__).parent.glob("*.py"):
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        names = {ast.unparse(call.func) for call in calls}
        assert path.name in allowed or not names & {"typer.echo", "print", "typer.secho"}, path.name

"""Real shells run no command that was not found in the line before: whoever reads less would approve blindly.

Drives `tools/shell_policy/parser` and `tools/shell_policy/lexer`.
"""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure.tools.shell_policy.lexer import Unreadable
from perdure.tools.shell_policy.parser import parse_command_line

PROGRAMS = [f"c{number}" for number in range(1, 10)]

# Lines that have more than one reading, of which a shell has only one.
TRICKY = [
    "c1 <<E\n$(c2)\nE\nc3",
    "c1 <<'E'\n$(c2)\nE\nc3",
    "c1 <<-E\n\tc2\n\tE\nc3",
    "c1 <<A <<B; c2\nc3\nA\nc4\nB\nc5",
    "c1 $(c2 <<E\nc3\nE\n) c4",
    "c1 <<E; c2 'x'\nc3\nE\nc4",
    "c1 `c2 \\`c3\\` 'c4'`",
    'c1 "`c2 \'c3\'`"',
    "c1 'a'\\''; c2; '",
    "c1 \"a'\"; c2 \"'\"",
    "c1 a#b; c2 # c3\nc4",
    "c1 \\# c2; c3",
    "c1 ${x:-$(c2)} ${#x}; c3",
    "c1 ${x#'}; c2 '}",
    "c1 $((1 + $(c2; echo 1))); c3",
    "c1 $( (c2); c3 )",
    "i\\\nf c1; then c2; else c3; fi",
    "A=1 c1; A\\\n=2 c2",
    "a[1]=2 c1",
    "$x c1; \"\" c2",
    "$! c1",
    "{ c1; }; c2 { c3; c4 }",
    "(c1; c2) | c3 & c4",
    "c1 |& c2 &> o; c3",
    "! c1; ! ! c2",
    "case c1 in c1) c2 ;; *) c3 ;; esac; c4",
    "case $(c1) in (c2|c3) c4 ;; *) c5\nesac",
    "for x in $(c1; echo 1 2); do c2 $x; done; c3",
    "f() { c1; }; f; f2() (c2); f2",
    "while c1; do c2; break; done; until c3; do c4; break; done",
    "time c1; time -p c2",
    "[[ x || c1 ]]; c2",
    "[[ x > c1 ]] && c2",
    "[ x = c1 ] || c2",
    "c1 $'a\\'; c2 \\''; c3",
    "c1 $\"x\"; c2",
    "c1 <(c2) >(c3)",
    "c1 {a,b}; {c2,c3}",
    "\\c1; 'c2'; c\"3\"; c\\4",
    "c1 \\\n; c2 \\\n c3; c4\\\n",
    "c1;c2&c3&&c4||c5|c6",
    ">o c1; 2>&1 c2; c3 2>&1>o",
    "c1 'c2\nc3'\nc4",
    "c1 ;; c2",
    "c1 )\nc2",
    "c1 $(c2 \"$(c3 '$(c4)')\")",
    "coproc c1; c2",
    "function f { c1; }; f; c2",
    "a=(c1 c2); c3",
    "((c1)); c2",
    "((c1); (c2))",
    "c1 $((c2) )",
    "$\\\n(c1); c2",
    "c1 \"$\\\n(c2)\"",
    "c1 <<E\nx\\\nE\nc2\nE\nc3",
]  # fmt: skip

PIECES = st.sampled_from(
    [
        "c1 ", "c2 ", "c3", "c4 a", "'", '"', "`", "\\", "\n", "\n", "$(", ")", "${x:-", "}", "<<E",
        "\nE\n", "; ", "&",
        "|", " && ", "(", "{ ", "; }", "if ", "; then ", "; fi", "for x in ", "do ", "; done", "case x in ",
        "x) ", " ;;",
        " esac", "[[ ", " ]]", "((", "))", "$((", "#", " ", "\\\n", "<(", "$'", "\\'", "! ", "time ", "a=",
        ">o ", "2>&1",
        "<<'E'", "{a,b}", "*", "$x", "in ", "$", "'c7'", '"c8"', "|&", "\\`", "a=1 ", "\\\\", "E",
    ]
)  # fmt: skip
FORMS = st.sampled_from(
    [
        "{}; {}", "({})|{}", "{{ {}; }}; {}", "if {}; then {}; fi", "for x in 1 2; do {}; done; {}",
        "c1 <<E\n{}\nE\n{}",
        "c1 <<'E'\n{}\nE\n{}", "case x in x) {} ;; *) {} ;; esac", "echo \"$({})\" '{}'", "echo `{}`; {}",
        "echo ${{x:-{}}}; {}", "echo $(( {} )) {}", "[[ {} ]] && {}", 'echo "{}" `{}`',
    ]
)  # fmt: skip
SOME = st.lists(PIECES, min_size=1, max_size=7).map("".join)
LINES = SOME | st.builds(str.format, FORMS, SOME, SOME)


class Shell:
    """A shell that finds nothing but programs which write their names down."""

    def __init__(self, path: str, folder: Path) -> None:
        self._path, self._folder, self._log = path, folder, folder / "log"
        programs = folder / "bin"
        programs.mkdir()
        for name in PROGRAMS:
            (programs / name).write_text(f'#!/bin/sh\necho "{name}" >> {self._log}\n')
            (programs / name).chmod(0o755)

    def run(self, line: str) -> set[str]:
        """Runs a line, and tells which programs ran."""
        self._log.write_text("")
        place = self._folder / "place"
        place.mkdir(exist_ok=True)
        child = subprocess.Popen(
            [self._path, "-c", line],
            cwd=place,
            env={"PATH": str(self._folder / "bin")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        with suppress(subprocess.TimeoutExpired):  # what ran until then is all that counts
            child.wait(timeout=10)
        _end(child)
        return set(self._log.read_text().split())


def _end(child: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):  # all of them have ended
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


@pytest.fixture(scope="module", params=["/bin/sh", "bash"])
def shell(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    path = request.param if "/" in request.param else _found(request.param)
    return Shell(path, tmp_path_factory.mktemp("shell"))


def _found(name: str) -> str:
    places = os.get_exec_path()
    return next(str(Path(place) / name) for place in places if (Path(place) / name).exists())


def names(line: str, *, bash: bool) -> set[str] | None:
    """The programs that are found in a line, or nothing if it is not certain which they are."""
    found = set[str]()
    try:
        commands = parse_command_line(line, bash=bash)
    except Unreadable:
        return None
    for command in commands:
        first = command.words[:2] if command.words and command.words[0].text == "time" else command.words[:1]
        if not all(word.known for word in first):
            return None
        found |= {word.text for word in command.words} if len(first) == 2 else {word.text for word in first}
    return found


def check(shell: Shell, line: str) -> None:
    for bash in (False, True) if "bash" in shell._path else (False,):
        found = names(line, bash=bash)
        if found is not None:
            assert shell.run(line) <= found, line


@pytest.mark.parametrize("line", TRICKY, ids=repr)
def test_shell_runs_only_what_was_found(shell: Shell, line: str) -> None:
    check(shell, line)


@settings(max_examples=250, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(line=LINES)
def test_shell_runs_only_what_was_found_in_any_line(shell: Shell, line: str) -> None:
    check(shell, line)

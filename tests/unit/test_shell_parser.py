"""A command line is read as a shell would read it, or not at all.

Drives `tools/shell_policy/parser` and `tools/shell_policy/lexer`.
"""

from __future__ import annotations

import pytest

from perdure.tools.shell_policy.lexer import BRACE_MARK, UNKNOWN_MARK, WORKING_DIRECTORY_MARK, Unreadable
from perdure.tools.shell_policy.parser import (
    MAX_CHARACTERS,
    MAX_COMMANDS,
    MAX_WORDS,
    SimpleCommand,
    parse_command_line,
)

pytestmark = pytest.mark.unit


def words(line: str) -> list[list[str]]:
    """The words of every command, with `?` for what cannot be known, `{` for braces and `.` for `$PWD`."""
    shown = str.maketrans({UNKNOWN_MARK: "?", BRACE_MARK: "{", WORKING_DIRECTORY_MARK: "."})
    return [[word.text.translate(shown) for word in command.words] for command in parse_command_line(line)]


def only(line: str) -> SimpleCommand:
    [command] = parse_command_line(line)
    return command


READ = {
    "words": ("ls  -l\tsrc", [["ls", "-l", "src"]]),
    "single quotes": ("echo 'a  $b `c` \\'", [["echo", "a  $b `c` \\"]]),
    "double quotes": (r'echo "a \$b \" \\ \c"', [["echo", r'a $b " \ \c']]),
    "an empty word": ("echo '' \"\"", [["echo", "", ""]]),
    "quotes in a word": ("l's' a\"b\"'c'd", [["ls", "abcd"]]),
    "escaped letters": (r"\l\s \; \$x a\ b", [["ls", ";", "$x", "a b"]]),
    "quotes of bash": (r"echo $'a\n\x41\101\u00e9\'\e'", [["echo", "a\nAAé'\x1b"]]),
    "quotes with a translation": ('echo $"hello"', [["echo", "hello"]]),
    "a joined line": ("ls \\\n -l\\\na", [["ls", "-la"]]),
    "comments": ("ls # a; b\nls a#b", [["ls"], ["ls", "a#b"]]),
    "operators": ("a;b&c&&d||e|f|&g\nh", [[letter] for letter in "abcdefgh"]),
    "operators with blanks": ("a ; b &\nc && \n d | \n e;", [["a"], ["b"], ["c"], ["d"], ["e"]]),
    "variables": ("a $x \"$x\" ${x} ${x:-y z} $1 x$y.z", [["a", "?", "?", "?", "?", "?", "x?.z"]]),
    "what is no variable": ("a $ \"$\" $. 5$", [["a", "$", "$", "$.", "5$"]]),
    "the folder": ("a $PWD/x ${PWD} $(pwd) $PWDX", [["a", "./x", ".", ".", "?"]]),
    "a substitution": ("a $(b c) d", [["b", "c"], ["a", "?", "d"]]),
    "substitutions in each other": ('a "$(b "$(c)")"', [["c"], ["b", "?"], ["a", "?"]]),
    "a substitution in braces": ("a ${x:-$(b)}", [["b"], ["a", "?"]]),
    "a calculation": ("a $(($# + (1 << 2) + $((3))))", [["a", "?"]]),
    "backquotes": ("a `b \\`c\\``", [["c"], ["b", "?"], ["a", "?"]]),
    "processes": ("a <(b) >(c) x<(d)", [["b"], ["c"], ["d"], ["a", "?", "?", "x?"]]),
    "patterns": ("a *.py [a]? {b,c} x{1..3} {} { }", [["a", "*.py", "[a]?", "{b,c}", "x{1..3}", "{}", "{", "}"]]),
    "assignments": ("A=1 B+='x y' c D=2", [["c", "D=2"]]),
    "an assignment of an element": ("a[1]=2 b", [["b"]]),
    "an assignment that is joined": ("A\\\n=1 b", [["b"]]),
    "a redirection before": (">x a", [["a"]]),
    "a subshell": ("(a; b) | c", [["a"], ["b"], ["c"]]),
    "a group": ("{ a; b; } && c", [["a"], ["b"], ["c"]]),
    "groups in each other": ("{ { a; } }; ( (b) )", [["a"], ["b"]]),
    "braces as words": ("echo { a }", [["echo", "{", "a", "}"]]),
    "a condition": ("if a; then b; elif c; then d; else e; fi", [["a"], ["b"], ["c"], ["d"], ["e"]]),
    "a condition in parentheses": ("if (a) then b; fi", [["a"], ["b"]]),
    "words of the language as words": ("echo if then fi done", [["echo", "if", "then", "fi", "done"]]),
    "words of the language in quotes": ("'if' a; \\then", [["if", "a"], ["then"]]),
    "a word of the language that is joined": ("i\\\nf a; then b; fi", [["a"], ["b"]]),
    "loops": ("while a; do b; done; until c\ndo d\ndone", [["a"], ["b"], ["c"], ["d"]]),
    "a loop over words": ("for x in 1 $(a) 'do'; do b $x; done", [["a"], ["b", "?"]]),
    "a loop over words on lines": ("for x in 1 2\ndo\nb\ndone", [["b"]]),
    "a loop over arguments": ("for x do b; done; for y; do c; done", [["b"], ["c"]]),
    "a case": ("case $(a) in x|'y z') b ;; (*) c\n;; esac; d", [["a"], ["b"], ["c"], ["d"]]),
    "a case on lines": ("case x in\nx)\na\n;;\ny) b\nesac", [["a"], ["b"]]),
    "an empty case": ("case x in esac", []),
    "functions": ("f() { a; }; g ()\n( b )\nf", [["a"], ["b"], ["f"]]),
    "a condition of bash": ("[[ a < b && ( $c == d* ) ]] && e", [["[[", "a", "b", "?", "==", "d*", "]]"], ["e"]]),
    "a negation": ("! a; ! ! b", [["a"], ["b"]]),
    "a here-document": ("a <<X b\nc; d\nX\ne", [["a", "b"], ["e"]]),
    "a here-document with commands": ("a <<X\n$(b) `c` \\$(d)\nX", [["a"], ["b"], ["c"]]),
    "a here-document in quotes": ("a <<'X'\n$(b)\nX", [["a"]]),
    "a here-document with tabs": ("a <<-X\n\tb\n\tX\nc", [["a"], ["c"]]),
    "two here-documents": ("a <<X <<Y; b\nc\nX\nd\nY\ne", [["a"], ["b"], ["e"]]),
    "a here-document in a substitution": ("a $(b <<X\nc\nX\n) d", [["b"], ["a", "?", "d"]]),
    "a here-document in a group": ("{ a <<X\nb\nX\n}", [["a"]]),
    "a here-document whose end is quoted otherwise": ("a <<\\X\n$(b)\nX", [["a"]]),
    "a here-document of nothing": ("a <<X\nX", [["a"]]),
    "nothing": (" \n\t\n# a", []),
}  # fmt: skip

REFUSED = [
    "'", '"', "`", "$(", "${x", "$((1)", "(", "{ a", "a\\", "<", "a >", "a <<X", "a <<X\n", "a <<$x\nx",
    "a <<X\nb\\\nX\n",
    ")", "}", "fi", "done", "esac", ";; a", "a ;; b", "; a", "& a", "| a", "a;;b", "if a; then b", "for 1 + 2; do",
    "for x in a & do b; done", "case x", "case x in a b) c;; esac", "f() a", "f() ((1))", "a (b)",
    "a=(b c)", "a b=(c)",
    "$(($(b)))", "$((a))", "$(($a + 1))",
    "${!a}", "${a@P}", "${a:b}", "${a:$b}", "${a[b]}", "${a[$b]}", "${#a[b]}",
    "a[b]=c", "a[$b]=c", "a['b']=c", "for PATH in a; do b; done", "${PATH:=a}", "${LD_PRELOAD=a}",
    "((1))", "(( a ) )", "$((a) )", "$(('a'))", "$[1]", "${ a; }", "${x:-'a'}", '${x:-"a"}', "${x:-`a`}", "${x{a}",
    "coproc a", "function f { a; }", "select x in a; do b; done", "[[ a", "[[ a; b ]]", "[[ a\n]]", "! )",
    "f\\\ni", "$\\\n(a)", "a <<X $(b\n)\nX", "a <<X 'b\n'\nX", "a $(b <<X)\nX", "$'\\0'", "$'\\x'",
    "$'\\c'", "{ a; } b",
    '"`a \\"b\\"`"', "a\0b", "a \x07",
]  # fmt: skip


@pytest.mark.parametrize(("line", "expected"), READ.values(), ids=READ.keys())
def test_line_is_read(line: str, expected: list[list[str]]) -> None:
    assert words(line) == expected


@pytest.mark.parametrize("line", REFUSED, ids=repr)
def test_line_is_refused(line: str) -> None:
    with pytest.raises(Unreadable) as refused:
        parse_command_line(line)
    assert str(refused.value)


@pytest.mark.parametrize("line", ["[[ a ]]", "echo $'a'"])
def test_line_is_refused_when_only_bash_reads_it(line: str) -> None:
    assert parse_command_line(line)
    with pytest.raises(Unreadable):
        parse_command_line(line, bash=False)


def test_redirections_are_read() -> None:
    found = only("a 2>&1 >x >>'y z' <in 3<>$w &>all >|over >&both <<<text")
    assert [(each.descriptor, each.operator, each.target.source) for each in found.redirects] == [
        ("2", ">&", "1"),
        ("", ">", "x"),
        ("", ">>", "'y z'"),
        ("", "<", "in"),
        ("3", "<>", "$w"),
        ("", "&>", "all"),
        ("", ">|", "over"),
        ("", ">&", "both"),
        ("", "<<<", "text"),
    ]
    assert found.redirects[-1].body == "text"


def test_redirections_of_a_group_are_read() -> None:
    assert [
        each.redirects[0].target.text
        for each in parse_command_line("{ a; } >x; (b) >y; if c; then d; fi >z")
        if each.redirects
    ] == [
        "x",
        "y",
        "z",
    ]


def test_body_of_a_here_document_is_kept() -> None:
    assert only("a <<'X'\nb $c\n\nX\n").redirects[0].body == "b $c\n\n"
    assert only('a <<X\n"b" $c \\$d\nX\n').redirects[0].body == f'"b" {UNKNOWN_MARK} $d\n'


def test_source_is_the_command_alone() -> None:
    assert [each.source for each in parse_command_line("x=1 a 'b c' >d # e\nif f; then g; fi")] == [
        "x=1 a 'b c' >d # e",
        "f",
        "g",
    ]


def test_word_knows_what_it_may_become() -> None:
    _, plain, quoted, split, every, glob, brace, number = only('a b "$c" $d "$@" e* {f,g} $?').words
    assert plain.known
    assert [word.known for word in (quoted, split, every, glob, brace, number)] == [False] * 6
    assert [word.splits for word in (quoted, split, every, glob, brace, number)] == [
        False,
        True,
        True,
        False,
        True,
        False,
    ]
    assert glob.globs


def test_function_is_known_to_the_commands_in_it() -> None:
    assert [
        (each.words[0].text, each.enclosing_functions)
        for each in parse_command_line("f() { a; (b); g() { c $(d); }; }; e")
    ] == [
        ("a", ("f",)),
        ("b", ("f",)),
        ("d", ("f", "g")),
        ("c", ("f", "g")),
        ("e", ()),
    ]


@pytest.mark.parametrize("line", ["x" * (MAX_CHARACTERS + 1), "a;" * (MAX_COMMANDS + 1), "a " * (MAX_WORDS + 1)])
def test_line_is_refused_when_it_is_too_long(line: str) -> None:
    with pytest.raises(Unreadable):
        parse_command_line(line)

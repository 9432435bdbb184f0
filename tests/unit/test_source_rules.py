"""The shape of the source that the promises rest on: some things are done in one place only.

Drives `runtime` and `store`.

Read off the syntax tree. A second door into `running`, or a platform spoken to past the outbox, is a defect even
if every test of behaviour passes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import perdure

SOURCE = Path(perdure.__file__).parent
APART = ("testing/", "platforms/")  # contracts and what stands in for the world


@cache
def modules() -> dict[str, list[ast.AST]]:
    """Every module of ours, and what it is made of."""
    paths = {path.relative_to(SOURCE).as_posix(): path for path in sorted(SOURCE.rglob("*.py"))}
    return {name: list(ast.walk(ast.parse(path.read_text(), name))) for name, path in paths.items()}


def where(matches: Callable[[ast.AST], bool]) -> set[str]:
    """The modules of the product in which something of the kind is found."""
    ours = {name: nodes for name, nodes in modules().items() if not name.startswith(APART)}
    return {name for name, nodes in ours.items() if any(map(matches, nodes))}


def says(pattern: str) -> Callable[[ast.AST], bool]:
    """A string that says something, pieced together or not, with members of enums by their lower-case names."""
    found = re.compile(pattern, re.IGNORECASE)
    return lambda node: bool(found.search(text_of(node)))


def text_of(node: ast.AST) -> str:
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr(values=pieces):
            return "".join(map(text_of, pieces))
        case ast.FormattedValue(value=ast.Attribute(attr=name)):
            return name.lower()
        case _:
            return ""


def names_member(enum: str, member: str) -> Callable[[ast.AST], bool]:
    """A member of an enum by its name."""
    return lambda node: isinstance(node, ast.Attribute) and node.attr == member and owner(node.value) == enum


def calls(*names: str, of: str = "") -> Callable[[ast.AST], bool]:
    """A call of something by one of these names, of a variable or attribute that ends with a name."""

    def matches(node: ast.AST) -> bool:
        if not isinstance(node, ast.Call):
            return False
        if isinstance(node.func, ast.Name):
            return not of and node.func.id in names
        return (
            isinstance(node.func, ast.Attribute)
            and node.func.attr in names
            and owner(node.func.value).endswith(of)
        )

    return matches


def owner(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def test_claiming_is_the_only_door_into_running() -> None:
    assert where(calls("TurnClaimed")) == {"store/claims.py"}
    assert where(names_member("TurnMove", "CLAIMED")) == {"core/entries.py", "core/states.py", "store/claims.py"}
    assert where(says(r"UPDATE turns SET state = 'running'")) == set()
    # An import brings back turns that had ended or were cut off, and vets them before.
    assert where(says(r"INSERT INTO turns")) <= {"store/claims.py", "store/transfer.py"}


def test_a_turn_is_moved_by_its_own_rooms_only() -> None:
    writers = where(says(r"UPDATE turns SET"))
    assert writers <= {"store/claims.py", "store/transitions.py"}, "a turn's row is the fold of its entries"


@pytest.mark.parametrize(
    ("verbs", "rooms"),
    [
        pytest.param(("send", "edit"), {"delivery", "turn_display", "inactivity_watch"}, id="messages"),
        pytest.param(("find_sent",), {"delivery"}, id="looking back"),
        pytest.param(("glimpse",), {"turn_display", "wakeup_relay"}, id="what is of the moment"),
        pytest.param(("notice",), {"drain", "inactivity_watch", "wakeup_relay"}, id="what nobody owes"),
    ],
)
def test_platforms_are_spoken_to_from_few_rooms(verbs: tuple[str, ...], rooms: set[str]) -> None:
    """Replies go through the outbox and its sender; what other rooms say, nobody owes."""
    assert where(calls(*verbs, of="adapter")) == {f"runtime/{room}.py" for room in rooms}


def test_models_are_asked_from_the_loop_only() -> None:
    """It journals that it asks before it asks."""
    assert where(calls("respond", of="model")) == {"agents/builtin_agent.py"}


def test_tools_are_run_by_journalled_calls_only() -> None:
    # `give_commands` makes a tool of a tool: what it runs is run by the journalled call of that tool.
    assert where(calls("run", of="tool")) == {"agents/tool_calls.py", "tools/tool_commands.py"}
    assert where(calls("Use")) == {"agents/tool_calls.py"}


def test_only_the_store_speaks_sql() -> None:
    statement = r"^\s*(SELECT .+ FROM|INSERT INTO|UPDATE \w+ SET|DELETE FROM|CREATE (TABLE|INDEX))"
    assert {name.split("/")[0] for name in where(says(statement))} == {"store"}


def test_platforms_are_acknowledged_from_the_intake_only() -> None:
    """What was not stored must come again."""
    assert where(calls("ack", "fail", of="event")) == {"runtime/intake.py"}


def test_the_journal_is_only_appended_to() -> None:
    assert where(says(r"INSERT INTO journal")) <= {"store/journal.py", "store/transfer.py"}
    assert where(says(r"UPDATE journal")) == set()
    assert where(says(r"DELETE FROM journal")) <= {"store/erasure.py"}, "a person may ask to be forgotten"


def test_epochs_grow_in_one_place_only() -> None:
    """Or else somebody could hold a turn whom nothing fences."""
    assert where(says(r"epoch = epoch \+ 1")) == {"store/leases.py", "store/receiving_leases.py"}


def test_sending_is_said_in_one_place_only() -> None:
    assert where(says(r"SET state = 'sending'")) == {"store/outbox.py"}
    assert where(calls("start_sending", of="outbox")) == {"runtime/delivery.py"}, (
        "it is said right before it is done"
    )


def test_recovery_is_decided_in_one_place_only() -> None:
    """Whoever wants a turn to go on says so to the recoverer, or is a person."""
    assert where(calls("decide")) == {"runtime/recovery.py"}
    assert where(calls("TurnRequeued")) == {
        "runtime/recovery_apply.py",
        "store/claims.py",
        "store/session_verbs.py",
    }


def test_nobody_looks_at_the_clock_who_is_given_one() -> None:
    """What time it is, is told by a clock that a test can set."""
    # A keeper is a program of its own, and nobody gives it one.
    assert where(calls("time", "time_ns", of="time")) == {"store/ids.py", "tools/keeper/directory.py"}
    assert where(calls("now", "today", "utcnow", of="datetime")) == set()


# ── rights ──────────────────────────────────────────────────────────────────────────────────────────────────

RIGHTS = re.compile(
    r"may_\w+|(\w+_)?(allowed|authorised|authorisation|scopes|rights)|shared|loopback|demo|per_person"
)


def rights_with_a_default(node: ast.AST) -> set[str]:
    """The parameters and fields that say what somebody may do, and say something if a caller forgets them."""
    match node:
        case ast.FunctionDef(args=args) | ast.AsyncFunctionDef(args=args):
            last = [*args.posonlyargs, *args.args][len(args.posonlyargs) + len(args.args) - len(args.defaults) :]
            given = zip(args.kwonlyargs, args.kw_defaults, strict=True)
            names = [each.arg for each in last] + [each.arg for each, default in given if default is not None]
        case ast.ClassDef(body=body):
            fields = [each for each in body if isinstance(each, ast.AnnAssign) and each.value is not None]
            names = [each.target.id for each in fields if isinstance(each.target, ast.Name)]
        case _:
            names = []
    return {name for name in names if RIGHTS.fullmatch(name)}


def test_b105_nothing_that_says_what_somebody_may_do_has_a_default() -> None:
    """Or else everybody might, wherever a caller forgets it."""
    assert rights_with_a_default(ast.parse("def claim(key, *, may_join=everybody): ...").body[0]) == {"may_join"}
    found = {name for name, nodes in modules().items() for node in nodes if rights_with_a_default(node)}
    told = {"cli/token.py"}  # the option `--scopes`, whose default its help tells
    assert {name for name in found if not name.startswith(APART)} == told


# ── names ───────────────────────────────────────────────────────────────────────────────────────────────────


def unwanted_words() -> set[str]:
    """The single words of the third column of the dictionary in AGENTS.md: what we do not say."""
    page = (SOURCE.parents[1] / "AGENTS.md").read_text()
    rows = [line.split("|") for line in page.splitlines() if re.fullmatch(r"\|[^|]+\|[^|]+\|[^|]*\|", line)]
    words = {word.strip() for row in rows if row[1].strip() != "noun" for word in row[3].split(",")}
    return {word for word in words if word and " " not in word}


def test_modules_and_classes_are_called_by_the_words_of_the_dictionary() -> None:
    unwanted = unwanted_words()
    assert {"talk", "verdict", "stranger"} <= unwanted, "the dictionary in AGENTS.md is read"
    public = {"Wish"}  # of perdure.testing
    names = {Path(name).stem for name in modules()} | (class_names().keys() - public)
    words = {name: {word.lower() for word in re.findall(r"[A-Z]?[a-z]+", name)} for name in names}
    assert {name for name in names if words[name] & unwanted} == set()


def test_a_class_name_occurs_once() -> None:
    assert {name: places for name, places in class_names().items() if len(places) > 1} == {}


def class_names() -> dict[str, list[str]]:
    """Every class of ours, and the modules that have one by this name."""
    found: dict[str, list[str]] = {}
    for module, nodes in modules().items():
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(module)
    return found

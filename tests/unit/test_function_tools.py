"""Tools made of functions: the schema a model reads, and what becomes of the arguments it sends.

Drives `tools/function_tools`.
"""

from __future__ import annotations

import datetime
import enum
import re
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import pytest
from msgspec import Meta, Struct

from perdure.core.effects import Effect
from perdure.core.tools import Tool, Use
from perdure.errors import ConfigurationError, ToolFailed
from perdure.tools.function_tools import FunctionTool, as_tool, tool

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


class Named(TypedDict):
    name: str


class Circle(Struct, tag=True):
    radius: float


class Square(Struct, tag=True):
    side: float


@dataclass
class Tree:
    name: str
    branches: list[Tree] = field(default_factory=list)


def takes(hint: Any) -> Tool:
    """A tool with one argument that has this hint, and gives it back as Python has it."""

    def give(value: Any) -> str:
        return repr(value)

    give.__annotations__["value"] = hint
    return tool(effect="pure")(give).tool


async def run(tool: Tool | FunctionTool[..., Any], **arguments: Any) -> str:
    return await as_tool(tool).run(Use(arguments, "turn:call"))


# ── the schema ──────────────────────────────────────────────────────────────────────────────────────────────

POINT = {"title": "Point", "type": "object", "required": ["x"]} | {
    "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}}
}
HINTS: list[tuple[Any, dict[str, Any], Any, str]] = [
    (str, {"type": "string"}, "a", "'a'"),
    (int, {"type": "integer"}, 3, "3"),
    (float, {"type": "number"}, 3, "3.0"),
    (bool, {"type": "boolean"}, True, "True"),
    (Any, {}, [1, "a"], "[1, 'a']"),
    (list[str], {"type": "array", "items": {"type": "string"}}, ["a"], "['a']"),
    (set[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, [1, 1], "{1}"),
    (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1}, "{'a': 1}"),
    (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}, None, "None"),
    (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "1", "'1'"),
    (Literal["a", "b"], {"enum": ["a", "b"]}, "b", "'b'"),
    (Colour, {"title": "Colour", "enum": ["blue", "red"]}, "red", "<Colour.RED: 'red'>"),
    (Point, POINT, {"x": 1}, "Point(x=1, y=0)"),
    (list[Point], {"type": "array", "items": POINT}, [{"x": 1, "y": 2}], "[Point(x=1, y=2)]"),
    (datetime.date, {"type": "string", "format": "date"}, "2030-01-02", "datetime.date(2030, 1, 2)"),
    (Annotated[int, "How many."], {"type": "integer", "description": "How many."}, 1, "1"),
    (Annotated[int, Meta(ge=1, le=6)], {"type": "integer", "minimum": 1, "maximum": 6}, 6, "6"),
    (Annotated[int, Meta(ge=1), "Few."], {"type": "integer", "minimum": 1, "description": "Few."}, 1, "1"),
]
hints = pytest.mark.parametrize(("hint", "schema", "sent", "got"), HINTS, ids=[str(case[0]) for case in HINTS])


@hints
async def test_hint_becomes_a_schema_and_its_values_arrive(hint: Any, schema: Any, sent: Any, got: str) -> None:
    made = takes(hint)
    assert made.schema == {
        "type": "object",
        "properties": {"value": schema},
        "required": ["value"],
        "additionalProperties": False,
    }
    assert await run(made, value=sent) == got


def test_typed_dict_is_put_in_its_place_when_it_is_nested() -> None:
    [value] = takes(dict[str, Named]).schema["properties"].values()
    assert value["additionalProperties"]["properties"] == {"name": {"type": "string"}}


def test_tagged_union_has_no_references_left() -> None:
    schema = takes(Circle | Square).schema
    assert "$ref" not in str(schema)
    assert "$defs" not in str(schema)
    [value] = schema["properties"].values()
    assert [kind["title"] for kind in value["anyOf"]] == ["Circle", "Square"]


async def test_type_that_holds_itself_keeps_its_references() -> None:
    made = takes(Tree)
    assert made.schema["properties"]["value"] == {"$ref": "#/$defs/Tree"}
    assert made.schema["$defs"]["Tree"]["properties"]["branches"]["items"] == {"$ref": "#/$defs/Tree"}
    assert await run(made, value={"name": "a", "branches": [{"name": "b"}]}) == repr(Tree("a", [Tree("b")]))


def test_defaults_are_shown_and_make_arguments_optional() -> None:
    @tool
    def paint(what: str, colour: Colour = Colour.RED, at: list[int] = [1], with_: Any = object()) -> None:  # noqa: B006, B008 reason: what is tested
        """Paint it."""

    shown = paint.tool.schema
    assert shown["required"] == ["what"]
    assert {name: part.get("default") for name, part in shown["properties"].items()} == {
        "what": None,
        "colour": "red",
        "at": [1],
        "with_": None,
    }


def test_function_without_parameters_has_an_empty_schema() -> None:
    @tool
    def ping() -> None: ...

    assert ping.tool.schema["properties"] == {}


# ── arguments that do not fit ───────────────────────────────────────────────────────────────────────────────


@tool(effect="pure")
def roll(
    count: Annotated[int, Meta(ge=1)],
    dice: Literal["d6", "d20"] = "d6",
    at: tuple[Point, ...] = (),
    mood: Colour | None = None,
) -> str:
    """Roll dice."""
    return f"{count}{dice}"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, ["`count` is missing", '"type":"integer"']),
        ({"count": "three"}, ["`count`: expected `int`, got `str`", 'came as "three"']),
        ({"count": 0}, ["`count`: expected `int` >= 1", "came as 0"]),
        ({"count": 1.5}, ["`count`: expected `int`, got `float`", "came as 1.5"]),
        ({"count": None}, ["`count`: expected `int`, got `null`", "came as null"]),
        ({"count": True}, ["`count`: expected `int`, got `bool`"]),
        ({"count": 1, "dice": "d7"}, ["`dice`: invalid enum value 'd7'", '"enum":["d20","d6"]']),
        ({"count": 1, "mood": "green"}, ["`mood`: invalid enum value 'green'", '"enum":["blue","red"]']),
        ({"count": 1, "at": [{"x": 1}, {"x": "a"}]}, ["`at[1].x`: expected `int`, got `str`"]),
        ({"count": 1, "at": [{}]}, ["`at[0]`: object missing required field `x`"]),
        ({"count": 1, "sides": 6}, ["no argument `sides`", "It takes `count`, `dice`, `at`, `mood`."]),
        ({"dice": 1, "sides": 6}, ["`count` is missing", "`dice`: expected `str`", "no argument `sides`"]),
    ],
    ids=lambda case: str(case) if isinstance(case, dict) else "",
)
async def test_arguments_are_refused_in_words_when_they_do_not_fit(arguments: Any, told: list[str]) -> None:
    with pytest.raises(ToolFailed) as refused:
        await run(roll, **arguments)
    assert refused.value.message.startswith("`roll` was not run")
    for part in told:
        assert part in refused.value.message


async def test_sentence_stays_short_when_the_argument_is_huge() -> None:
    with pytest.raises(ToolFailed) as refused:
        await run(roll, count="x" * 1_000_000, **{"y" * 1000: 1})
    assert len(refused.value.message) < 2000


# ── running ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_decorated_function_is_still_the_function() -> None:
    assert roll(2) == "2d6"
    assert roll.__name__ == "roll"
    assert roll.__doc__ == "Roll dice."


async def test_synchronous_function_runs_in_another_thread() -> None:
    @tool
    def where() -> str:
        return str(threading.get_ident())

    assert await run(where) != str(threading.get_ident())


async def test_asynchronous_function_runs_in_the_loop() -> None:
    @tool
    async def where() -> str:
        return str(threading.get_ident())

    assert await run(where) == str(threading.get_ident())
    assert await where() == str(threading.get_ident())


async def test_use_is_given_and_not_shown_when_a_parameter_asks_for_it() -> None:
    @tool(effect=Effect.KEYED)
    def pay(amount: int, use: Use) -> str:
        return f"{amount} as {use.key}"

    assert list(pay.tool.schema["properties"]) == ["amount"]
    assert await run(pay, amount=3) == "3 as turn:call"
    with pytest.raises(ToolFailed, match="no argument `use`"):
        await run(pay, amount=3, use={"arguments": {}, "key": "forged"})


async def test_default_is_the_functions_own_when_an_argument_is_left_out() -> None:
    something = object()

    @tool
    def same(value: Any = something) -> bool:
        return value is something

    assert await run(same) == "true"


@pytest.mark.parametrize(
    ("result", "told"),
    [
        ("as it is", "as it is"),
        (None, "done"),
        (3, "3"),
        ([1, "a", None], '[1,"a",null]'),
        (Point(1), '{"x":1,"y":0}'),
        (Colour.RED, '"red"'),
        (Path("a/b"), '"a/b"'),
        ("half a character: \udcff", "half a character: \N{REPLACEMENT CHARACTER}"),
    ],
    ids=repr,
)
async def test_result_is_told_as_text(result: Any, told: str) -> None:
    @tool
    def give() -> Any:
        return result

    assert await run(give) == told


async def test_result_that_cannot_be_told_does_not_hide_that_the_tool_ran() -> None:
    @tool
    def give() -> Any:
        endless: list[Any] = []
        endless.append(endless)
        return endless

    with pytest.raises(ToolFailed, match="`give` ran to its end, but its result, of the type list"):
        await run(give)


@pytest.mark.parametrize("error", [ValueError("bad"), StopIteration("over"), KeyError("k")], ids=repr)
async def test_error_of_the_function_is_raised_where_it_is_awaited(error: Exception) -> None:
    @tool
    def fail() -> None:
        raise error

    expected = RuntimeError if isinstance(error, StopIteration) else type(error)
    with pytest.raises(expected, match=str(error.args[0])):
        await run(fail)


async def test_gateway_goes_on_when_a_function_exits() -> None:
    @tool
    def leave() -> None:
        sys.exit(3)

    @tool
    async def leave_too() -> None:
        sys.exit(3)

    for each in (leave, leave_too):
        with pytest.raises(ToolFailed, match=r"wanted to end the whole process \(exit code 3\)"):
            await run(each)


# ── what is declared ────────────────────────────────────────────────────────────────────────────────────────


def test_b61_effect_is_once_when_none_is_declared() -> None:
    @tool
    def plain() -> None: ...

    @tool()
    def called() -> None: ...

    assert (plain.tool.effect, called.tool.effect) == (Effect.ONCE, Effect.ONCE)


@pytest.mark.parametrize("effect", [*Effect, *map(str, Effect)])
def test_effect_may_be_given_as_a_word(effect: str) -> None:
    @tool(effect=effect)
    def declared() -> None: ...

    assert declared.tool.effect is Effect(effect)


def test_name_description_and_timeout_are_those_that_are_given() -> None:
    @tool(name="other-name", description="Says more.", timeout=5)
    def one() -> None:
        """Not this."""

    assert (one.tool.name, one.tool.description, one.tool.timeout) == ("other-name", "Says more.", 5)


def test_description_is_the_docstring_or_else_the_name() -> None:
    @tool
    def two_lines() -> None:
        """The first.

        The second.
        """

    @tool
    def says_nothing() -> None: ...

    assert two_lines.tool.description == "The first.\n\nThe second."
    assert says_nothing.tool.description == "says nothing"


class Account:
    def pay(self, amount: int) -> str:
        return f"paid {amount}"


async def test_bound_method_can_be_a_tool() -> None:
    assert await run(tool(Account().pay), amount=2) == "paid 2"


def unhinted(a) -> None: ...  # type: ignore[no-untyped-def]
def starred(*names: str) -> None: ...
def keyworded(**names: str) -> None: ...
def positional(a: int, /) -> None: ...
def pathlike(a: Path) -> None: ...
def unknown(a: NotImported) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def doubled(a: Use, b: Use) -> None: ...
def yielding() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (unhinted, "unhinted cannot be a tool: the parameter `a` has no type hint"),
        (Account.pay, "the parameter `self` has no type hint"),
        (starred, "the parameter `names` is variadic positional, but a model gives each argument by its name"),
        (keyworded, "the parameter `names` is variadic keyword"),
        (positional, "the parameter `a` is positional-only"),
        (pathlike, "no JSON Schema for its type hints: type <class 'pathlib.Path'> is not supported"),
        (unknown, "a type hint cannot be read: name 'NotImported' is not defined"),
        (doubled, "a and b both ask for the Use"),
        (yielding, "it yields"),
        (Account(), "expected a function, got Account"),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_function_is_refused_at_once_when_no_tool_can_be_made_of_it(function: Any, told: str) -> None:
    with pytest.raises(TypeError, match=re.escape(told)):
        tool(effect="pure", name="a_tool" if isinstance(function, Account) else None)(function)


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        ({"effect": "harmless"}, "expected an effect of pure, keyed, attached, once, got 'harmless'"),
        ({"name": "not a name"}, "expected a name of letters"),
        ({"timeout": 0}, "expected a timeout of more than 0 seconds, got 0"),
    ],
    ids=str,
)
def test_declaration_is_refused_when_it_means_nothing(declared: dict[str, Any], told: str) -> None:
    decorate: Callable[..., Any] = tool(**declared)
    with pytest.raises(ValueError, match=told):
        decorate(starred)


def test_tool_is_itself_and_a_decorated_function_is_its_tool() -> None:
    assert as_tool(roll) is roll.tool
    assert as_tool(roll.tool) is roll.tool


@pytest.mark.parametrize("thing", [None, starred, "roll"], ids=["nothing", "a function", "a name"])
def test_other_things_are_refused_with_advice(thing: object) -> None:
    with pytest.raises(ConfigurationError, match="is not a tool") as refused:
        as_tool(thing)
    assert "@tool" in refused.value.hint

"""Makes tools of Python functions.

    @tool(effect="pure")
    def add(a: int, b: int) -> int:
        return a + b

`add(1, 2)` is still 3, and `add.tool` is what an agent sees.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar, overload

import msgspec

from perdure.core import texts
from perdure.core.effects import Effect
from perdure.core.storable_text import make_storable, to_json
from perdure.core.tools import Tool, Use
from perdure.errors import ConfigurationError, ToolFailed
from perdure.tools.arguments import ToolParameters, parameters_of
from perdure.tools.threads import run_in_thread

P = ParamSpec("P")
R = TypeVar("R")

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")  # that every provider accepts


class FunctionTool(Generic[P, R]):
    """A function that is a tool as well: calling it calls the function, and an agent uses its `tool`."""

    __name__: str

    def __init__(self, function: Callable[P, R], tool: Tool) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self.tool = tool

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._function(*args, **kwargs)


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...
@overload
def tool(
    *,
    effect: Effect | str = Effect.ONCE,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    effect: Effect | str = Effect.ONCE,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
) -> Any:
    """Make a tool of a function with type hints, synchronous (it runs in a thread) or asynchronous.

    `effect` says what happens to a call that was interrupted: `pure` and `keyed` ones are repeated, `once` ones
    never; a tool without an effect is `once`. The name is that of the function and the description its docstring,
    unless they are given. `timeout` is in seconds; without one, the settings decide.
    """

    def decorate(function: Callable[P, R]) -> FunctionTool[P, R]:
        called = str(name or getattr(function, "__name__", ""))
        try:
            made = _tool(function, called, _effect(effect), description, timeout)
        except TypeError as error:
            raise TypeError(f"{called or repr(function)} cannot be a tool: {error}") from error
        except ValueError as error:
            raise ValueError(f"{called or repr(function)} cannot be a tool: {error}") from error
        return FunctionTool(function, made)

    return decorate if function is None else decorate(function)


def as_tool(thing: object, name: str | None = None) -> Tool:
    """The object itself, if it is a tool, or the tool of a decorated function; `name` says where it was found."""
    if isinstance(thing, Tool):
        return thing
    if isinstance(thing, FunctionTool):
        return thing.tool
    raise ConfigurationError(
        f"{name or repr(thing)} is not a tool: expected a Tool, or a function decorated with @tool.",
        hint="Write @tool above the function, and say what repeating it would mean: @tool(effect='pure').",
    )


def _effect(effect: Effect | str) -> Effect:
    if effect not in tuple(Effect):
        raise ValueError(f"expected an effect of {', '.join(Effect)}, got {effect!r}")
    return Effect(effect)


def _tool(
    function: Callable[..., Any], name: str, effect: Effect, description: str | None, timeout: float | None
) -> Tool:
    if not inspect.isroutine(function):
        raise TypeError(f"expected a function, got {type(function).__name__}")
    if not _NAME.fullmatch(name):
        raise ValueError("expected a name of letters, digits, `_` and `-`, at most 64; give one with name=")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError("it yields; a tool returns its result at once")
    if timeout is not None and not timeout > 0:
        raise ValueError(f"expected a timeout of more than 0 seconds, got {timeout!r}")
    shown = inspect.cleandoc(description or function.__doc__ or name.replace("_", " "))
    parameters = parameters_of(function)
    run = functools.partial(_run, name, function, parameters)
    return Tool(name, shown, run, effect, parameters.schema, timeout)


async def _run(name: str, function: Callable[..., Any], parameters: ToolParameters, use: Use) -> str:
    call = functools.partial(function, **parameters.convert_arguments(name, use))
    try:
        result = await call() if inspect.iscoroutinefunction(function) else await run_in_thread(call)
    except SystemExit as error:  # it would end the whole gateway
        raise ToolFailed(texts.tool_calls.tried_to_exit(name, error.code)) from error
    return _result_text(name, result)


def _result_text(name: str, result: Any) -> str:
    """A result as the model reads it."""
    if result is None:
        return texts.tool_calls.DONE
    try:
        text = result if isinstance(result, str) else to_json(msgspec.to_builtins(result, enc_hook=str))
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolFailed(texts.tool_calls.result_not_json(name, type(result).__name__, error)) from error
    return make_storable(text)

"""Makes tools of Python functions: the schema of their arguments, and the conversion of what a model sends."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Generic, ParamSpec, TypeVar, get_args, get_origin, get_type_hints, overload

import msgspec
from msgspec import Meta, Struct

from perdure.core import texts
from perdure.core.effects import Effect
from perdure.core.storable_text import make_storable, to_json
from perdure.core.tools import Tool, Use
from perdure.errors import ConfigurationError, ToolFailed
from perdure.tools.blocking_jobs import run_in_thread

_MSGSPEC_ERROR = re.compile(r"(?P<problem>.*?)(?: - at `\$(?P<path>.*)`)?", re.DOTALL)
_REFERENCE = "#/$defs/{name}"


class ToolParameters(Struct, frozen=True):
    """The parameters of a function that is a tool."""

    hints: Mapping[str, Any]  # of the arguments that the model sends
    required: frozenset[str]
    schema: Mapping[str, Any]
    use: str | None = None  # the parameter that gets the `Use`

    def convert_arguments(self, tool: str, use: Use) -> dict[str, Any]:
        """Convert the arguments to the types of the function; `ToolFailed` names everything that is wrong."""
        given, problems = use.arguments, []
        values = {self.use: use} if self.use else {}
        for name, hint in self.hints.items():
            try:
                if name in given:
                    values[name] = msgspec.convert(given[name], hint)
                elif name in self.required:
                    problems.append(texts.tool_calls.argument_missing(name, self._schema_of(name)))
            except msgspec.ValidationError as error:
                problems.append(self._misfit(name, given[name], str(error)))
        problems += [texts.tool_calls.unknown_argument(name) for name in given if name not in self.hints]
        if problems:
            raise ToolFailed(texts.tool_calls.arguments_misfit(tool, problems, list(self.hints)))
        return values

    def _misfit(self, name: str, value: Any, error: str) -> str:
        found = _MSGSPEC_ERROR.fullmatch(error)
        problem, path = (found["problem"], found["path"] or "") if found else (error, "")
        return texts.tool_calls.argument_misfit(f"{name}{path}", problem, _as_json(value), self._schema_of(name))

    def _schema_of(self, name: str) -> str:
        return _as_json(self.schema["properties"][name])


def parameters_of(function: Callable[..., Any]) -> ToolParameters:
    """The parameters of a function by its type hints; `TypeError` if a hint is missing or unusable."""
    hints, found = _hints(function), inspect.signature(function).parameters
    for parameter in found.values():
        _refuse_unusable(parameter, hints)
    uses = [name for name in found if _is_use(hints[name])]
    if len(uses) > 1:
        raise TypeError(f"{' and '.join(uses)} both ask for the Use; one parameter is enough")
    given = {name: _described(hints[name]) for name in found if name not in uses}
    defaults = {name: found[name].default for name in given if found[name].default is not inspect.Parameter.empty}
    schema = _schema(given, defaults)
    return ToolParameters(given, frozenset(given.keys() - defaults.keys()), schema, uses[0] if uses else None)


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as error:
        raise TypeError(
            f"a type hint cannot be read: {error}. Import it outside of `if TYPE_CHECKING`, and define it at the "
            "top of a module"
        ) from error


def _refuse_unusable(parameter: inspect.Parameter, hints: Mapping[str, Any]) -> None:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
        raise TypeError(
            f"the parameter `{parameter.name}` is {parameter.kind.description}, but a model gives each argument "
            "by its name; write every parameter out"
        )
    if parameter.name not in hints:
        raise TypeError(f"the parameter `{parameter.name}` has no type hint; without one there is no schema")


def _is_use(hint: Any) -> bool:
    return (get_args(hint)[0] if get_origin(hint) is Annotated else hint) is Use


def _described(hint: Any) -> Any:
    """The hint with a plain text in `Annotated` turned into a description."""
    descriptions = (
        [each for each in get_args(hint)[1:] if isinstance(each, str)] if get_origin(hint) is Annotated else []
    )
    return Annotated[hint, Meta(description=" ".join(descriptions))] if descriptions else hint


# ── the schema ──────────────────────────────────────────────────────────────────────────────────────────────


def _schema(hints: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    fields = [
        # The function fills in the default itself; here a default only makes the argument optional.
        (name, hint, msgspec.field(default_factory=object)) if name in defaults else (name, hint)
        for name, hint in hints.items()
    ]
    struct = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)
    schema = _without_references(*_parts(struct))
    for name, default in defaults.items():
        _show_default(schema["properties"][name], default)
    return schema


def _parts(struct: type) -> tuple[dict[str, Any], dict[str, Any]]:
    """The schema of a struct, and those of the types that it refers to."""
    try:
        (top,), components = msgspec.json.schema_components([struct], ref_template=_REFERENCE)
    except TypeError as error:
        problem = str(error).splitlines()[-1]
        raise TypeError(f"there is no JSON Schema for its type hints: {problem}") from error
    schema = components.pop(top["$ref"].rpartition("/")[2])
    del schema["title"]
    return schema, components


def _show_default(schema: dict[str, Any], default: Any) -> None:
    try:
        schema["default"] = msgspec.to_builtins(default, str_keys=True)
    except TypeError:
        return  # not expressible in JSON; the argument is optional all the same


def _without_references(schema: dict[str, Any], components: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with its references inlined, for every provider; only a recursive type keeps them."""
    try:
        return dict(_inlined(schema, components, ()))
    except RecursionError:
        return {**schema, "$defs": dict(components)}


def _inlined(part: Any, components: Mapping[str, Any], within: tuple[str, ...]) -> Any:
    if isinstance(part, list):
        return [_inlined(each, components, within) for each in part]
    if not isinstance(part, dict):
        return part
    reference = part.get("$ref")
    if not isinstance(reference, str):  # a property may have this name
        return {
            key: _inlined(value, components, within) for key, value in part.items() if not _is_index(key, value)
        }
    name, rest = reference.rpartition("/")[2], {key: value for key, value in part.items() if key != "$ref"}
    if name in within:
        raise RecursionError(name)
    return {**_inlined(components[name], components, (*within, name)), **rest}


def _is_index(key: str, value: Any) -> bool:
    """Whether this is the discriminator of a tagged union: it names references, which are inlined."""
    return key == "discriminator" and isinstance(value, dict) and "mapping" in value


def _as_json(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=repr).decode()


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

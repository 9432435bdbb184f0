"""Makes an agent of the object that `agent.entrypoint` names."""

from __future__ import annotations

import inspect
from typing import Any

from perdure.agents.api import Agent
from perdure.errors import ConfigurationError

EXPECTED = "expected an async function with one parameter, a pydantic-ai Agent, or an object with an async `run`"
HINT = "docs/writing-an-agent.md shows one of each."


def as_agent(found: Any, name: str) -> Agent:
    """The object itself, if it is an agent, or an agent that wraps it; `name` is its entry point."""
    if inspect.isclass(found):
        raise _not_an_agent(
            name, f"it is the class {found.__name__}", f"Name an object: add `agent = {found.__name__}(…)`."
        )
    if any(base.__module__.split(".")[0] == "pydantic_ai" for base in type(found).__mro__):
        return _wrap_pydantic_agent(found, name)
    if inspect.iscoroutinefunction(found):
        return _wrap_function(found, name)
    run = getattr(found, "run", None)
    if inspect.iscoroutinefunction(run) and _takes_one(run):
        agent: Agent = found
        return agent
    raise _not_an_agent(name, f"it is {_describe(found, run)}")


def _wrap_pydantic_agent(found: Any, name: str) -> Agent:
    from pydantic_ai.agent import AbstractAgent  # loaded already, by the module that made this object

    from perdure.agents.custom.pydantic_agent import PydanticAgent

    if not isinstance(found, AbstractAgent):
        raise _not_an_agent(name, f"it is {_describe(found)} of pydantic-ai")
    return PydanticAgent(found)


def _wrap_function(found: Any, name: str) -> Agent:
    from perdure.agents.custom.function import FunctionAgent

    if not _takes_one(found):
        raise _not_an_agent(name, f"it takes {inspect.signature(found)}", "It gets one argument, the StepContext.")
    return FunctionAgent(found)


def _takes_one(function: Any) -> bool:
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        return False
    return True


def _describe(found: Any, run: Any = None) -> str:
    if inspect.isroutine(found):
        return "a function that is not async"
    kind = type(found).__name__
    article = "an" if kind[0].lower() in "aeiou" else "a"
    return f"{article} {kind}" + (" whose `run` is not async with one parameter" if run is not None else "")


def _not_an_agent(name: str, came: str, hint: str = HINT) -> ConfigurationError:
    return ConfigurationError(f"{name!r} is no agent: {came}; {EXPECTED}.", hint=hint)
